#include "comm/backends/host/call.h"

#include <cstdio>

namespace comm::detail::host {

namespace {

struct Description {
  char text[160];
};

Description describe(std::uint64_t word, std::uint64_t count) {
  const Meta meta = Meta::from_word(word);
  Description d{};
  int n = std::snprintf(d.text, sizeof d.text, "%s(", to_string(meta.operation));
  const auto append = [&](const char* format, auto... values) {
    const int more =
        std::snprintf(d.text + n, sizeof d.text - static_cast<std::size_t>(n), format, values...);
    n += more;
  };
  switch (meta.operation) {
    case Operation::barrier:
    case Operation::split:
    case Operation::symmetric_alloc:
      if (count != 0) append("%llu bytes", static_cast<unsigned long long>(count));
      break;
    default:
      append("%s, %llu elements", to_string(meta.type), static_cast<unsigned long long>(count));
  }
  constexpr const char* kKinds[] = {"sum", "prod", "min", "max", "avg", "premul_sum", "?", "?"};
  if (meta.reduces) append(", %s", kKinds[static_cast<int>(meta.kind) & 7]);
  if (meta.root >= 0) append(", root %d", meta.root);
  append("%s", ")");
  return d;
}

}  // namespace

Status Call::await_slowly() {
  const std::uint32_t tick = team_.tick();
  const std::uint64_t expected = meta_ | tick;
  int other = -1;
  auto missing = [&]() -> std::uint64_t {
    std::uint64_t mask = 0;
    for (int r = 0; r < team_.size(); ++r) {
      const Post& post = team_.posts(r)[tick & 1];
      const std::uint64_t word = post.word.load(std::memory_order_acquire);
      if (static_cast<std::uint32_t>(word) != tick) {
        mask |= bit(r);
      } else if (word != expected || post.count.load(std::memory_order_relaxed) != count_) {
        other = r;
        return 0;  // There is no use in waiting for the rest.
      }
    }
    return mask;
  };
  Status waited = team_.wait(Missing(missing), timeout_ns_, operation_, ~std::uint64_t{0});
  if (!waited.ok()) return waited;
  return other >= 0 ? mismatch(other) : Status();
}

Status Call::mismatch(int other) {
  const Post& theirs = team_.posts(other)[team_.tick() & 1];
  const Description ours = describe(meta_, count_);
  const Description others = describe(theirs.word.load(), theirs.count.load());
  // In rank order, so that it reads the same whoever finds it.
  const bool first = rank() < other;
  return fail(make_error(StatusCode::mismatch, 0,
                         "ranks make different calls: %s calls %s and %s calls %s; all ranks must "
                         "make the same collective calls in the same order",
                         team_.name(first ? rank() : other).text, first ? ours.text : others.text,
                         team_.name(first ? other : rank()).text, first ? others.text : ours.text));
}

}  // namespace comm::detail::host
