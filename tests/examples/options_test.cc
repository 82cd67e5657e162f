#include "examples/tensor_parallel/options.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace example {
namespace {

comm::Result<Options> parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "tensor_parallel");
  return parse_options(static_cast<int>(words.size()), words.data());
}

std::string complaint(std::vector<const char*> words) {
  const comm::Result<Options> options = parsed(std::move(words));
  return options.ok() ? "" : options.message();
}

TEST_CASE("options: both spellings, and a text") {
  const comm::Result<Options> options =
      parsed({"--ranks", "4", "--dtype=bf16", "book.txt", "--layers", "6"});
  REQUIRE(options.ok());
  CHECK(options->ranks == 4);
  CHECK(options->ranks_given);
  CHECK(options->element == Element::bf16);
  CHECK(options->text == "book.txt");
  CHECK(options->shape.layers == 6);
  CHECK(!parsed({})->ranks_given);
  CHECK(parsed({"--help"})->help);
}

TEST_CASE("options: what is wrong is named, with what would be right") {
  CHECK(complaint({"--ranks", "none"}) ==
        "--ranks takes a number from 1 to 64, not 'none'; see --help");
  CHECK(complaint({"--ranks=0"}) == "--ranks takes a number from 1 to 64, not '0'; see --help");
  CHECK(complaint({"--ranks=3x"}) == "--ranks takes a number from 1 to 64, not '3x'; see --help");
  CHECK(complaint({"--ranks"}) == "--ranks lacks its value; see --help");
  CHECK(complaint({"--ranks=16"}) ==
        "16 ranks cannot share 8 heads; use fewer ranks or more --heads; see --help");
  CHECK(complaint({"--dtype", "f64"}) == "--dtype takes f32 or bf16, not 'f64'; see --help");
  CHECK(complaint({"--rank=3"}) == "unknown option --rank; see --help");
  CHECK(complaint({"--hidden=500"}) == "--hidden 500 is not a multiple of --heads 8; see --help");
  CHECK(complaint({"a", "b"}) == "more than one text: b; see --help");
}

}  // namespace
}  // namespace example
