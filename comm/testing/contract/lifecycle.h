#pragma once

/// The contract suite on ranks, on communicators made from others, and on what is registered.

#include <atomic>
#include <utility>

#include "comm/testing/contract/moves.h"

namespace comm::testing {

/// The sum of a one from every rank is the number of ranks that take part.
template <class W>
void check_all_take_part(CommunicatorOf<W>& c) {
  BufferOf<W, int> one({1});
  expect_ok(c.all_reduce(one.span()));
  expect_nothing(difference(read<W>(c, one.span()), std::vector<int>{c.world_size()}));
}

TEST_CASE_TEMPLATE_DEFINE("contract 1: ranks are 0 to world_size - 1, each once", W,
                          comm_contract_ranks) {
  for (int size : W::sizes()) {
    std::vector<std::atomic<int>> seen(static_cast<std::size_t>(size));
    run_world<W>(size, [&](CommunicatorOf<W>& c) {
      expect_equal(c.world_size(), size);
      expect(c.rank() >= 0);
      expect(c.rank() < size);
      if (c.rank() >= 0 && c.rank() < size) ++seen[static_cast<std::size_t>(c.rank())];
      expect(c.is_healthy());
      const std::uint64_t epoch = c.epoch();
      check_all_take_part<W>(c);
      expect_equal(c.epoch(), epoch);
    });
    for (const std::atomic<int>& times : seen) expect_equal(times.load(), 1);
  }
}

TEST_CASE_TEMPLATE_DEFINE("contract: a communicator works after it was moved", W,
                          comm_contract_moved) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    const int rank = c.rank();
    CommunicatorOf<W> moved(std::move(c));
    expect_equal(moved.rank(), rank);
    check_all_take_part<W>(moved);
    c = std::move(moved);
    expect_equal(c.rank(), rank);
    check_all_take_part<W>(c);
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: split makes a communicator for each color, ordered by key", W,
                          comm_contract_split) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    const int n = c.world_size(), rank = c.rank();
    auto half = c.split(rank % 2, -rank);  // Keys turn the order round.
    if (half.code() == StatusCode::unsupported) return;
    expect_ok(half);
    if (!half.ok()) return;
    const int size = (n + 1 - rank % 2) / 2;
    expect_equal(half->world_size(), size);
    expect_equal(half->rank(), size - 1 - rank / 2);
    check_all_take_part<W>(*half);
    BufferOf<W, int> who({rank}), all(zeros<int>(static_cast<std::size_t>(size)));
    std::vector<int> expected;
    for (int r = size - 1; r >= 0; --r) expected.push_back(2 * r + rank % 2);
    check_moved<W>(*half, half->all_gather(who.span(), all.span()), expected);

    // The whole, the half and a half of the half do not disturb each other.
    auto whole = c.split(0, 0);
    expect_ok(whole);
    if (whole.ok()) {
      expect_equal(whole->rank(), rank);
      check_all_take_part<W>(*whole);
    }
    auto quarter = half->split(half->rank() % 2, 0);
    expect_ok(quarter);
    if (quarter.ok()) check_all_take_part<W>(*quarter);
    check_all_take_part<W>(*half);
    check_all_take_part<W>(c);
    expect_ok(c.barrier_wait());
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: a rank that splits with kNoColor belongs to none", W,
                          comm_contract_no_color) {
  on_every_world_of_many<W>([](CommunicatorOf<W>& c) {
    const bool joins = c.rank() != 0;
    auto part = c.split(joins ? 3 : kNoColor, c.rank());
    if (part.code() == StatusCode::unsupported) return;
    expect_ok(part);
    if (!part.ok()) return;
    if (joins) {
      expect_equal(part->rank(), c.rank() - 1);
      expect_equal(part->world_size(), c.world_size() - 1);
      check_all_take_part<W>(*part);
    } else {
      expect_equal(part->rank(), -1);
      BufferOf<W, int> one({1}), two({1, 1});
      expect(!part->all_reduce(one.span()).ok());
      expect(!part->broadcast(one.span(), 0).ok());
      expect(!part->all_to_all(one.span(), two.span().first(1)).ok());
      expect(!part->barrier_wait().ok());
    }
    check_all_take_part<W>(c);
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: shrink goes on with the ranks that stay, in their order", W,
                          comm_contract_shrink) {
  on_every_world_of_many<W>([](CommunicatorOf<W>& c) {
    const int gone = c.world_size() / 2;
    expect_ok(c.barrier_wait());
    if (c.rank() == gone) return;
    auto rest = c.shrink({gone});
    if (rest.code() == StatusCode::unsupported) return;
    expect_ok(rest);
    if (!rest.ok()) return;
    expect_equal(rest->world_size(), c.world_size() - 1);
    expect_equal(rest->rank(), c.rank() - (c.rank() > gone ? 1 : 0));
    check_all_take_part<W>(*rest);
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract 10: a registered buffer works as any other, and is given back",
                          W, comm_contract_registration) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    BufferOf<W, float> a(contribution<float>(c.rank(), 1000));
    BufferOf<W, float> b(contribution<float>(c.rank(), 10));
    auto first = c.register_buffer(a.span());
    expect_ok(first);
    {
      auto guard = c.registered(b.span());
      expect_ok(guard);
      if (first.ok() && guard.ok() && *first != 0) expect(guard->handle() != *first);
      expect_ok(c.all_reduce(a.span()));
      expect_ok(c.all_reduce(b.span()));
      expect_ok(c.synchronize());
    }
    const int n = c.world_size();
    expect_nothing(difference(read<W>(c, a.span()), reduction<float>(n, 1000, ReduceOp::sum)));
    expect_nothing(difference(read<W>(c, b.span()), reduction<float>(n, 10, ReduceOp::sum)));
    if (first.ok()) expect_ok(c.deregister_buffer(*first));
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: symmetric memory works as any other, or is refused", W,
                          comm_contract_symmetric) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    constexpr std::size_t kCount = 40'000;
    auto memory = c.template symmetric_buffer<float>(kCount);
    if (memory.code() == StatusCode::unsupported) return;
    expect_ok(memory);
    if (!memory.ok()) return;
    expect_equal(memory->size(), kCount);
    const DeviceSpan<float> span = memory->span();
    // Filled by what every world can: a copy from a buffer of its own, sent to itself.
    BufferOf<W, float> values(contribution<float>(c.rank(), kCount));
    for (int time = 0; time < 2; ++time) {
      expect_ok(c.send_recv(values.span(), c.rank(), span, c.rank()));
      expect_ok(c.all_reduce(span));
      expect_nothing(
          difference(read<W>(c, span), reduction<float>(c.world_size(), kCount, ReduceOp::sum)));
    }
    expect_ok(memory->release());
    expect_ok(memory->release());
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: no kernel of the engine's own means comm's", W,
                          comm_contract_add_kernel) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    expect_ok(c.set_add_kernel(nullptr));
    check_all_take_part<W>(c);
  });
}

}  // namespace comm::testing
