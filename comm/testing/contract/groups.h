#pragma once

/// The contract suite on what passes between two ranks, on groups, and on barriers.

#include <atomic>
#include <initializer_list>

#include "comm/testing/contract/moves.h"

namespace comm::testing {

TEST_CASE_TEMPLATE_DEFINE("contract: send_to and recv_from pass a buffer round the ring", W,
                          comm_contract_send_recv_calls) {
  on_every_world_of_many<W>([](CommunicatorOf<W>& c) {
    for_some_moves([&]<class T>(std::size_t count) {
      const int n = c.world_size(), next = (c.rank() + 1) % n, previous = (c.rank() + n - 1) % n;
      BufferOf<W, T> send(contribution<T>(c.rank(), count)), recv(zeros<T>(count));
      // Rank 0 sends first, and so the chain begins.
      if (c.rank() == 0) {
        expect_ok(c.send_to(DeviceSpan<const T>(send.span()), next));
        expect_ok(c.recv_from(recv.span(), previous));
      } else {
        expect_ok(c.recv_from(recv.span(), previous));
        expect_ok(c.send_to(DeviceSpan<const T>(send.span()), next));
      }
      expect_nothing(difference(read<W>(c, recv.span()), contribution<T>(previous, count)));
    });
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: messages of one rank to another arrive in order", W,
                          comm_contract_order) {
  on_every_world_of_many<W>([](CommunicatorOf<W>& c) {
    const int last = c.world_size() - 1;
    for (int i = 1; i <= 20; ++i) {
      const auto count = static_cast<std::size_t>(i * i);
      if (c.rank() == 0) {
        BufferOf<W, int> send(std::vector<int>(count, i));
        expect_ok(c.send_to(send.span(), last));
        expect_ok(c.synchronize());
      } else if (c.rank() == last) {
        BufferOf<W, int> recv(std::vector<int>(count, 0));
        expect_ok(c.recv_from(recv.span(), 0));
        expect_nothing(difference(read<W>(c, recv.span()), std::vector<int>(count, i)));
      }
    }
    expect_ok(c.barrier_wait());
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: send_recv shifts round the ring, also to oneself", W,
                          comm_contract_send_recv) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    for_some_moves([&]<class T>(std::size_t count) {
      const int n = c.world_size();
      for (int shift = 0; shift < n; ++shift) {
        const int to = (c.rank() + shift) % n, from = (c.rank() + n - shift) % n;
        BufferOf<W, T> send(contribution<T>(c.rank(), count)), recv(zeros<T>(count));
        check_moved<W>(c, c.send_recv(DeviceSpan<const T>(send.span()), to, recv.span(), from),
                       contribution<T>(from, count));
      }
    });
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: send_recv may send and receive different sizes", W,
                          comm_contract_send_recv_sizes) {
  on_every_world_of_many<W>([](CommunicatorOf<W>& c) {
    const int n = c.world_size(), next = (c.rank() + 1) % n, previous = (c.rank() + n - 1) % n;
    auto size = [](int rank) { return static_cast<std::size_t>(rank) * 3000; };
    BufferOf<W, float> send(contribution<float>(c.rank(), size(c.rank())));
    BufferOf<W, float> recv(zeros<float>(size(previous)));
    check_moved<W>(c, c.send_recv(send.span(), next, recv.span(), previous),
                   contribution<float>(previous, size(previous)));
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract 9: in a group every rank may receive before it sends", W,
                          comm_contract_group) {
  on_every_world_of_many<W>([](CommunicatorOf<W>& c) {
    const int n = c.world_size(), next = (c.rank() + 1) % n, previous = (c.rank() + n - 1) % n;
    for (std::size_t count : std::initializer_list<std::size_t>{0, 1, 1000, 200'003}) {
      BufferOf<W, float> send(contribution<float>(c.rank(), count)), recv(zeros<float>(count));
      Group group = c.group();
      expect_ok(group.status());
      expect_ok(c.recv_from(recv.span(), previous));
      expect_ok(c.send_to(send.span(), next));
      expect_ok(group.end());
      expect_nothing(difference(read<W>(c, recv.span()), contribution<float>(previous, count)));
    }
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract 9: a group holds an exchange of everybody with everybody", W,
                          comm_contract_group_all) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    const int n = c.world_size();
    constexpr std::size_t kCount = 513;
    BufferOf<W, int> send(contribution<int>(c.rank(), kCount));
    BufferOf<W, int> recv(zeros<int>(kCount * static_cast<std::size_t>(n)));
    expect_ok(c.group_start());
    for (int r = 0; r < n; ++r) {
      const auto begin = static_cast<std::size_t>(r) * kCount;
      expect_ok(c.recv_from(recv.span().subspan(begin, kCount), r));
      expect_ok(c.send_to(send.span(), r));
    }
    expect_ok(c.group_end());
    if constexpr (moves_data<W>) {
      expect_nothing(difference(read<W>(c, recv.span()), contributions<int>(n, kCount)));
    }
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract 9: a group holds several collectives, and groups nest", W,
                          comm_contract_group_nests) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    const int n = c.world_size();
    const auto blocks = static_cast<std::size_t>(n);
    for (int time = 0; time < 3; ++time) {
      BufferOf<W, float> sum(contribution<float>(c.rank(), 100));
      BufferOf<W, int> most(contribution<int>(c.rank(), 10'000));
      BufferOf<W, int> mine(contribution<int>(c.rank(), 5)), all(zeros<int>(5 * blocks));
      Result<DeviceSpan<int>> gathered = DeviceSpan<int>();
      {
        Group outer = c.group();
        expect_ok(c.all_reduce(sum.span()));
        {
          Group inner = c.group();
          expect_ok(c.all_reduce(most.span(), ReduceOp::max));
          expect_ok(inner.end());
        }
        gathered = c.all_gather(mine.span(), all.span());
        expect_ok(outer.end());
        expect_ok(outer.end());
      }
      expect_nothing(difference(read<W>(c, sum.span()), reduction<float>(n, 100, ReduceOp::sum)));
      expect_nothing(difference(read<W>(c, most.span()), reduction<int>(n, 10'000, ReduceOp::max)));
      check_moved<W>(c, gathered, contributions<int>(n, 5));
    }
  });
}

/// Leaves a group open by returning from the middle of it.
template <class C, class T>
Status leave_early(C& c, DeviceSpan<T> buffer) {
  Group group = c.group();
  if (Status s = c.all_reduce(buffer); !s.ok()) return s;
  Result<void*> refused = make_error(StatusCode::internal, 0, "the engine's own trouble");
  if (!refused.ok()) return std::move(refused).status();
  return group.end();
}

TEST_CASE_TEMPLATE_DEFINE("contract 9: a guard closes its group on an early return", W,
                          comm_contract_group_early) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    const int n = c.world_size();
    BufferOf<W, int> first({1}), second({1});
    expect_same(outcome(leave_early(c, first.span())), "internal: the engine's own trouble");
    expect_nothing(difference(read<W>(c, first.span()), std::vector<int>{n}));
    // Outside of any group: done at once, in stream order.
    expect_ok(c.all_reduce(second.span()));
    expect_nothing(difference(read<W>(c, second.span()), std::vector<int>{n}));
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract 9: an empty group is legal", W, comm_contract_group_empty) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    Group group = c.group();
    expect_ok(group.end());
    expect_ok(c.barrier_wait());
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: nobody passes barrier_wait before all have come", W,
                          comm_contract_barrier) {
  for (int size : W::sizes()) {
    std::atomic<int> arrived{0};
    run_world<W>(size, [&](CommunicatorOf<W>& c) {
      for (int round = 1; round <= 50; ++round) {
        arrived.fetch_add(1);
        expect_ok(c.barrier_wait());
        expect(arrived.load() >= round * size);
        expect_ok(c.barrier());
        expect_ok(c.synchronize());
      }
    });
  }
}

}  // namespace comm::testing
