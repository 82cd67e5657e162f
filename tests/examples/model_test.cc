#include "examples/tensor_parallel/model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "examples/tensor_parallel/error_bound.h"
#include "examples/tensor_parallel/memory.h"
#include "examples/tensor_parallel/parallel_wire.h"
#include "examples/tensor_parallel/reference.h"
#include "tests/examples/threads.h"

namespace example {
namespace {

const Shape kSmall{.hidden = 128, .heads = 8, .ffn = 256, .layers = 3, .sequence = 16, .seed = 7};

std::vector<std::uint8_t> some_text(std::size_t size) {
  std::vector<std::uint8_t> text(size);
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<std::uint8_t>(i * i * 31 + i / 3);
  return text;
}

std::vector<float> on_one_rank(const Shape& shape, const std::vector<std::uint8_t>& text) {
  Progress quiet("", text.size(), false);
  return run_on_one_rank(shape, text, quiet).out;
}

/// The outputs of all ranks.
std::vector<std::vector<float>> on_ranks(int ranks, const Shape& shape, Element element,
                                         const std::vector<std::uint8_t>& text,
                                         int forgotten = -1) {
  Together together(ranks);
  std::vector<std::vector<float>> out(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadRank communicator(together, rank, ranks, forgotten);
      HostMemory memory;
      ParallelWire<HostMemory> wire(memory, element);
      Model model(communicator, wire, shape);
      Progress quiet("", text.size(), false);
      out[static_cast<std::size_t>(rank)] = run(model, shape, text, quiet)->out;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return out;
}

TEST_CASE("model: any number of ranks agrees with one, within the bound") {
  const std::vector<std::uint8_t> text = some_text(100);  // The last sequence is not full.
  const std::vector<float> alone = on_one_rank(kSmall, text);
  for (const Element element : {Element::f32, Element::bf16}) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      CAPTURE(ranks);
      CAPTURE(static_cast<int>(element));
      const auto out = on_ranks(ranks, kSmall, element, text);
      for (const auto& rank : out) CHECK(rank == out[0]);
      const float bound = error_bound(kSmall, text, element, ranks);
      CHECK(largest_difference(alone, out[0]) <= bound);
    }
  }
}

TEST_CASE("model: one all-reduce that was lost is far outside the bound") {
  const std::vector<std::uint8_t> text = some_text(64);
  const std::vector<float> alone = on_one_rank(kSmall, text);
  for (const Element element : {Element::f32, Element::bf16}) {
    const float bound = error_bound(kSmall, text, element, 2);
    for (int call = 0; call < 2 * static_cast<int>(kSmall.layers); ++call) {
      CAPTURE(call);
      const auto out = on_ranks(2, kSmall, element, text, call);
      CHECK(largest_difference(alone, out[0]) > 2 * bound);
    }
  }
}

TEST_CASE("model: the same seed gives the same bits, another seed does not") {
  const std::vector<std::uint8_t> text = some_text(20);
  Shape other = kSmall;
  other.seed = 8;
  CHECK(on_one_rank(kSmall, text) == on_one_rank(kSmall, text));
  CHECK(on_one_rank(kSmall, text) != on_one_rank(other, text));
}

TEST_CASE("model: a position sees those before it in its sequence and no others") {
  std::vector<std::uint8_t> text = some_text(48);
  const std::vector<float> before = on_one_rank(kSmall, text);
  text[20] = static_cast<std::uint8_t>(text[20] + 1);
  const std::vector<float> after = on_one_rank(kSmall, text);
  for (std::size_t row = 0; row < text.size(); ++row) {
    CAPTURE(row);
    bool same = true;
    for (std::size_t i = 0; i < kSmall.hidden; ++i) {
      same = same && before[row * kSmall.hidden + i] == after[row * kSmall.hidden + i];
    }
    CHECK(same == (row < 20 || row >= 32));
  }
}

TEST_CASE("largest_difference: what is not a number is infinitely far off") {
  CHECK(largest_difference(std::vector<float>{1, 2}, std::vector<float>{1, 5}) == 3);
  CHECK(std::isinf(largest_difference(std::vector<float>{1}, std::vector<float>{NAN})));
}

}  // namespace
}  // namespace example
