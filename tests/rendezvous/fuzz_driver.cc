// Runs a fuzz target without libFuzzer: on each file named on the command line as it is, and then on
// mutations of them that a seed determines.

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

void mutate(Input& input, std::mt19937& random) {
  for (unsigned times = 1 + random() % 4; times > 0; --times) {
    const std::size_t at = input.empty() ? 0 : random() % input.size();
    switch (random() % 6) {
      case 0:
        if (!input.empty()) input[at] = static_cast<std::uint8_t>(random());
        break;
      case 1:
        if (!input.empty()) input[at] ^= static_cast<std::uint8_t>(1u << random() % 8);
        break;
      case 2: input.resize(at); break;
      case 3:
        input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), 1 + random() % 20, 0);
        break;
      case 4: {
        const Input tail(input.begin() + static_cast<std::ptrdiff_t>(at), input.end());
        input.insert(input.end(), tail.begin(), tail.end());
        break;
      }
      case 5:
        if (!input.empty()) input[at] = random() % 2 == 0 ? 0xff : 0;
        break;
    }
    if (input.size() > 1 << 16) input.resize(1 << 16);
  }
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kMutations = 20000;
  std::vector<Input> corpus;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", argv[i]);
      return 1;
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    LLVMFuzzerTestOneInput(corpus.back().data(), corpus.back().size());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no corpus\n");
    return 1;
  }
  std::mt19937 random(1);
  for (int i = 0; i < kMutations; ++i) {
    Input input = corpus[random() % corpus.size()];
    mutate(input, random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%zu inputs and %d mutations of them\n", corpus.size(), kMutations);
}
