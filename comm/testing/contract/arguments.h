#pragma once

/// The contract suite on what is refused: with a code, at once, and with nothing changed.

#include <string>

#include "comm/testing/contract/lifecycle.h"

namespace comm::testing {

/// Refused as what the caller did wrong where arguments are looked at, which is where data moves.
template <class W, class StatusOrResult>
void check_refused(const StatusOrResult& s, const char* word) {
  if constexpr (moves_data<W>) {
    expect_code(s, StatusCode::invalid_argument);
    expect_part(outcome(s), word);
  } else {
    expect_ok(s);
  }
}

TEST_CASE_TEMPLATE_DEFINE("contract: a wrong argument is refused and changes nothing", W,
                          comm_contract_arguments) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    const int n = c.world_size();
    BufferOf<W, float> memory(contribution<float>(c.rank(), 8));
    const DeviceSpan<float> buffer = memory.span(), null(nullptr, 8);
    // On one rank alone: none of this is an operation that others would have to join.
    if (c.rank() == n - 1) {
      check_refused<W>(c.all_reduce(null), "null");
      check_refused<W>(c.broadcast(buffer, n), "root");
      check_refused<W>(c.broadcast_async(buffer, -1), "root");
      check_refused<W>(c.send_to(buffer, n), "dest");
      check_refused<W>(c.recv_from(buffer, -1), "source");
      check_refused<W>(c.all_reduce(buffer, buffer.first(3)), "send has 8");
      check_refused<W>(c.all_gather(buffer, buffer.first(7)), "recv has 7");
      check_refused<W>(c.reduce_scatter(buffer.first(7), buffer), "send has 7");
      check_refused<W>(c.all_reduce(buffer.first(4), buffer.subspan(1, 4)), "overlap");
      check_refused<W>(c.all_to_all(buffer, buffer), n > 8 || 8 % n ? "" : "overlap");
      check_refused<W>(c.all_to_all_v(buffer, nullptr, null, nullptr), "null");
      check_refused<W>(c.all_reduce(DeviceSpan<float>(buffer.data(), ~std::size_t{0} / 4)), "more");
    }
    expect(c.is_healthy());
    check_all_take_part<W>(c);
    expect_nothing(difference(read<W>(c, buffer), contribution<float>(c.rank(), 8)));
  });
}

}  // namespace comm::testing
