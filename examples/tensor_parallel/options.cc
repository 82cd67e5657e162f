#include "examples/tensor_parallel/options.h"

#include <charconv>
#include <cstdint>
#include <string_view>

namespace example {

const char* const kHelp =
    R"(tensor_parallel: a transformer on one rank, and the same one split over N ranks

usage: tensor_parallel [options] [TEXT]

Runs each byte of TEXT (default: this project's README) through a stack of attention and MLP blocks,
once with the single-GPU backend and once with N ranks, and compares the results. Starts the ranks
itself, or joins those that commrun, torchrun, mpirun or srun started.

  --ranks N       ranks to split the model over, at most one for each head   (default 2)
  --dtype TYPE    what partial sums travel as: f32 or bf16                   (default f32)
  --positions N   the most bytes of the text to run                          (default 16384)
  --layers N      (default 4)         --hidden N    (default 512)
  --heads N       (default 8)         --ffn N       (default 2048)
  --sequence N    positions that see one another                             (default 128)
  --seed N        of the weights                                             (default 1)
  --help

Exit status: 0 the results agree, 1 they do not, 2 the command line is wrong, 3 the run failed.
)";

namespace {

comm::Status wrong(const std::string& what) {
  return comm::make_error(comm::StatusCode::invalid_argument, 0, "%s; see --help", what.c_str());
}

template <class N>
comm::Status parse_number(std::string_view name, std::string_view text, std::uint64_t lowest,
                          std::uint64_t highest, N& to) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < lowest || value > highest) {
    return wrong(std::string(name) + " takes a number from " + std::to_string(lowest) + " to " +
                 std::to_string(highest) + ", not '" + std::string(text) + "'");
  }
  to = static_cast<N>(value);
  return {};
}

comm::Status parse_option(std::string_view name, std::string_view value, Options& options) {
  constexpr std::uint64_t kMost = 1 << 16;
  Shape& shape = options.shape;
  if (name == "--ranks") {
    options.ranks_given = true;
    return parse_number(name, value, 1, 64, options.ranks);
  }
  if (name == "--dtype") {
    if (value != "f32" && value != "bf16") {
      return wrong("--dtype takes f32 or bf16, not '" + std::string(value) + "'");
    }
    options.element = value == "f32" ? Element::f32 : Element::bf16;
    return {};
  }
  if (name == "--positions") return parse_number(name, value, 1, 1 << 24, options.positions);
  if (name == "--layers") return parse_number(name, value, 1, 1000, shape.layers);
  if (name == "--hidden") return parse_number(name, value, 1, kMost, shape.hidden);
  if (name == "--heads") return parse_number(name, value, 1, kMost, shape.heads);
  if (name == "--ffn") return parse_number(name, value, 1, kMost, shape.ffn);
  if (name == "--sequence") return parse_number(name, value, 1, kMost, shape.sequence);
  if (name == "--seed") return parse_number(name, value, 0, UINT64_MAX, shape.seed);
  return wrong("unknown option " + std::string(name));
}

}  // namespace

comm::Result<Options> parse_options(int argc, const char* const* argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h") {
      options.help = true;
      return options;
    }
    if (word.size() < 2 || word[0] != '-') {
      if (!options.text.empty()) return wrong("more than one text: " + std::string(word));
      options.text = word;
      continue;
    }
    const std::size_t equals = word.find('=');
    const bool joined = equals != std::string_view::npos;
    if (!joined && i + 1 == argc) return wrong(std::string(word) + " lacks its value");
    const std::string_view value = joined ? word.substr(equals + 1) : argv[++i];
    if (comm::Status s = parse_option(word.substr(0, equals), value, options); !s.ok()) return s;
  }
  const Shape& shape = options.shape;
  if (shape.hidden % shape.heads != 0) {
    return wrong("--hidden " + std::to_string(shape.hidden) + " is not a multiple of --heads " +
                 std::to_string(shape.heads));
  }
  if (comm::Status s = check_split(options.shape, options.ranks); !s.ok()) return s;
  return options;
}

comm::Status check_split(const Shape& shape, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  if (n <= shape.heads && n <= shape.ffn) return {};
  const bool heads = n > shape.heads;
  return wrong(std::to_string(ranks) + " ranks cannot share " +
               (heads ? std::to_string(shape.heads) + " heads; use fewer ranks or more --heads"
                      : std::to_string(shape.ffn) + " columns; use fewer ranks or more --ffn"));
}

}  // namespace example
