#pragma once

/// The contract suite on what is moved from rank to rank and not changed: collectives.

#include <array>
#include <initializer_list>

#include "comm/testing/contract/values.h"
#include "comm/testing/contract/world.h"

namespace comm::testing {

/// Every rank's contribution, one after the other.
template <class T>
std::vector<T> contributions(int ranks, std::size_t count) {
  std::vector<T> all;
  for (int r = 0; r < ranks; ++r) {
    const std::vector<T> one = contribution<T>(r, count);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

/// Block `index` of `count` elements.
template <class T>
std::vector<T> block(const std::vector<T>& whole, int index, std::size_t count) {
  const T* begin = whole.data() + static_cast<std::size_t>(index) * count;
  return std::vector<T>(begin, begin + count);
}

template <class T>
std::vector<T> zeros(std::size_t count) {
  return std::vector<T>(count, from_int<T>(0));
}

/// Calls `f.operator()<T>(count)` with elements and with what is none, with few and with many.
template <class F>
void for_some_moves(F f) {
  for (std::size_t count : std::initializer_list<std::size_t>{0, 1, 3, 1000, 66'001})
    f.template operator()<float>(count);
  for (std::size_t count : std::initializer_list<std::size_t>{1, 13, 5001})
    f.template operator()<std::byte>(count);
  for (std::size_t count : std::initializer_list<std::size_t>{1, 777})
    f.template operator()<Triple>(count);
  f.template operator()<std::uint64_t>(65);
  f.template operator()<bf16>(65);
}

/// The result is where the operation says, and has these values.
template <class W, class S, class T>
void check_moved(CommunicatorOf<W>& c, const Result<DeviceSpan<S>>& result,
                 const std::vector<T>& expected) {
  expect_ok(result);
  if (result.ok()) expect_nothing(difference(read<W>(c, *result), expected));
}

TEST_CASE_TEMPLATE_DEFINE("contract: broadcast copies the root's buffer to all, and waits", W,
                          comm_contract_broadcast) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    for_some_moves([&]<class T>(std::size_t count) {
      for (int root = 0; root < c.world_size(); ++root) {
        BufferOf<W, T> buffer(contribution<T>(c.rank(), count));
        expect_ok(c.broadcast(buffer.span(), root));
        // Read without synchronize: broadcast has waited.
        expect_nothing(difference(W::template read<T>(DeviceSpan<const T>(buffer.span())),
                                  contribution<T>(root, count)));
      }
    });
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: broadcast_async copies the root's buffer to all", W,
                          comm_contract_broadcast_async) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    for_some_moves([&]<class T>(std::size_t count) {
      const int root = c.world_size() - 1;
      BufferOf<W, T> buffer(contribution<T>(c.rank(), count));
      expect_ok(c.broadcast_async(buffer.span(), root));
      expect_nothing(difference(read<W>(c, buffer.span()), contribution<T>(root, count)));
    });
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract 8: recv_command_u32 gets the root's word and refuses the root",
                          W, comm_contract_recv_command) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    const int root = c.world_size() / 2;
    for (std::uint32_t command : {7U, 0U, 4'000'000'000U}) {
      BufferOf<W, std::uint32_t> word({c.rank() == root ? command : 1});
      if (c.rank() != root) {
        expect_ok(c.recv_command_u32(word.span(), root));
      } else {
        expect_code(c.recv_command_u32(word.span(), root), StatusCode::invalid_argument);
        expect_ok(c.broadcast(word.span(), root));
      }
      expect_nothing(difference(read<W>(c, word.span()), std::vector<std::uint32_t>{command}));
    }
    expect(c.is_healthy());
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract 4: all_gather collects in rank order, in place too", W,
                          comm_contract_all_gather) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    for_some_moves([&]<class T>(std::size_t count) {
      const auto n = static_cast<std::size_t>(c.world_size());
      const std::vector<T> mine = contribution<T>(c.rank(), count);
      const std::vector<T> expected = contributions<T>(c.world_size(), count);

      BufferOf<W, T> send(mine), recv(zeros<T>(n * count));
      check_moved<W>(c, c.all_gather(DeviceSpan<const T>(send.span()), recv.span()), expected);
      expect_nothing(difference(read<W>(c, send.span()), mine));

      std::vector<T> whole = zeros<T>(n * count);
      const auto begin = static_cast<std::size_t>(c.rank()) * count;
      for (std::size_t i = 0; i < count; ++i) whole[begin + i] = mine[i];
      BufferOf<W, T> both(whole);
      expect_ok(c.all_gather(both.span().subspan(begin, count), both.span()));
      expect_nothing(difference(read<W>(c, both.span()), expected));
    });
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract 4: gather collects on the root alone, in place too", W,
                          comm_contract_gather) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    for_some_moves([&]<class T>(std::size_t count) {
      const auto n = static_cast<std::size_t>(c.world_size());
      const std::vector<T> mine = contribution<T>(c.rank(), count);
      for (int root = 0; root < c.world_size(); ++root) {
        const bool is_root = c.rank() == root;
        const std::vector<T> expected =
            is_root ? contributions<T>(c.world_size(), count) : std::vector<T>();
        BufferOf<W, T> send(mine), recv(zeros<T>(is_root ? n * count : 0));
        check_moved<W>(c, c.gather(send.span(), recv.span(), root), expected);

        std::vector<T> whole = zeros<T>(n * count);
        const auto begin = static_cast<std::size_t>(root) * count;
        for (std::size_t i = 0; i < count; ++i) whole[begin + i] = mine[i];
        BufferOf<W, T> both(whole);
        auto in_place = c.gather(both.span().subspan(begin, count),
                                 is_root ? both.span() : DeviceSpan<T>(), root);
        expect_ok(in_place);
        if (is_root) expect_nothing(difference(read<W>(c, both.span()), expected));
        expect_ok(c.synchronize());
      }
    });
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract 4: scatter gives each rank its block, in place too", W,
                          comm_contract_scatter) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    for_some_moves([&]<class T>(std::size_t count) {
      const auto n = static_cast<std::size_t>(c.world_size());
      for (int root = 0; root < c.world_size(); ++root) {
        const bool is_root = c.rank() == root;
        const std::vector<T> whole = contribution<T>(root, n * count);
        const std::vector<T> expected = block(whole, c.rank(), count);
        // Where nothing moves the result is `send`, which there is the whole and the one block.
        BufferOf<W, T> send(is_root ? whole : std::vector<T>()), recv(zeros<T>(count));
        check_moved<W>(c, c.scatter(send.span(), recv.span(), root), expected);

        const auto begin = static_cast<std::size_t>(root) * count;
        const DeviceSpan<T> into = is_root ? send.span().subspan(begin, count) : recv.span();
        check_moved<W>(c, c.scatter(send.span(), into, root), expected);
      }
    });
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: all_to_all turns rows into columns", W,
                          comm_contract_all_to_all) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    for_some_moves([&]<class T>(std::size_t count) {
      const int n = c.world_size();
      const std::size_t whole = static_cast<std::size_t>(n) * count;
      std::vector<T> expected;
      for (int r = 0; r < n; ++r) {
        const std::vector<T> one = block(contribution<T>(r, whole), c.rank(), count);
        expected.insert(expected.end(), one.begin(), one.end());
      }
      BufferOf<W, T> send(contribution<T>(c.rank(), whole)), recv(zeros<T>(whole));
      check_moved<W>(c, c.all_to_all(DeviceSpan<const T>(send.span()), recv.span()), expected);
    });
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: all_to_all_v moves blocks of any size, also none", W,
                          comm_contract_all_to_all_v) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    auto check = [&]<class T>(std::size_t unit) {
      const int n = c.world_size();
      // What i sends to j; nothing where their sum divides by three.
      auto size = [&](int i, int j) { return static_cast<std::size_t>((i + 2 * j) % 3) * unit; };
      std::vector<std::size_t> send_counts, recv_counts;
      std::size_t sent = 0, received = 0;
      std::vector<T> expected;
      for (int r = 0; r < n; ++r) {
        send_counts.push_back(size(c.rank(), r));
        recv_counts.push_back(size(r, c.rank()));
        sent += send_counts.back();
        received += recv_counts.back();
        // The block begins where r's blocks for the ranks before this one end.
        std::size_t begin = 0;
        for (int before = 0; before < c.rank(); ++before) begin += size(r, before);
        const std::vector<T> all = contribution<T>(r, begin + recv_counts.back());
        for (std::size_t i = begin; i < all.size(); ++i) expected.push_back(all[i]);
      }
      BufferOf<W, T> send(contribution<T>(c.rank(), sent)), recv(zeros<T>(received));
      auto result =
          c.all_to_all_v(send.span(), send_counts.data(), recv.span(), recv_counts.data());
      // The counts were read during the call.
      send_counts.assign(send_counts.size(), 12345);
      recv_counts.assign(recv_counts.size(), 12345);
      check_moved<W>(c, result, expected);
    };
    for (std::size_t unit : std::initializer_list<std::size_t>{0, 1, 17, 20'011})
      check.template operator()<float>(unit);
    check.template operator()<std::byte>(3);
    check.template operator()<std::int32_t>(5);
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract 2: a count of zero reads and writes nothing, with null or not",
                          W, comm_contract_zero) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    float untouched = 42;
    const std::vector<std::size_t> none(static_cast<std::size_t>(c.world_size()), 0);
    for (DeviceSpan<float> empty : {DeviceSpan<float>(), DeviceSpan<float>(&untouched, 0)}) {
      const DeviceSpan<float> other;
      expect_ok(c.all_reduce(empty));
      expect_ok(c.all_reduce_async(empty));
      expect_ok(c.all_reduce_deferred(empty));
      expect_ok(c.all_gather(empty, other));
      expect_ok(c.reduce_scatter(empty, other));
      expect_ok(c.broadcast(empty, 0));
      expect_ok(c.broadcast_async(empty, 0));
      expect_ok(c.reduce(empty, other, ReduceOp::sum, 0));
      expect_ok(c.gather(empty, other, 0));
      expect_ok(c.scatter(empty, other, 0));
      expect_ok(c.all_to_all(empty, other));
      expect_ok(c.all_to_all_v(empty, none.data(), other, none.data()));
      expect_ok(c.send_recv(empty, c.rank(), other, c.rank()));
    }
    expect_ok(c.synchronize());
    expect(untouched == 42);
    // All ranks are still in step.
    BufferOf<W, int> one({1});
    expect_ok(c.all_reduce(one.span()));
    expect_nothing(difference(read<W>(c, one.span()), std::vector<int>{c.world_size()}));
  });
}

TEST_CASE_TEMPLATE_DEFINE(
    "contract 3: the result is recv where data moves, else nothing is written", W,
    comm_contract_where) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    const auto n = static_cast<std::size_t>(c.world_size());
    const std::vector<std::size_t> ones(n, 1);
    BufferOf<W, int> mine(contribution<int>(c.rank(), n)), theirs(std::vector<int>(n, -7));
    const DeviceSpan<int> send = mine.span(), recv = theirs.span();
    const DeviceSpan<int> block = send.first(1), into = recv.first(1);
    auto check = [&](Result<DeviceSpan<int>> result, DeviceSpan<int> from, DeviceSpan<int> to) {
      expect_ok(result);
      if (!result.ok()) return;
      const DeviceSpan<int> expected = moves_data<W> ? to : from;
      expect(result->data() == expected.data());
      expect_equal(result->size(), expected.size());
    };
    check(c.all_reduce(send, recv), send, recv);
    check(c.all_gather(block, recv), block, recv);
    check(c.reduce_scatter(send, into), send, into);
    check(c.scatter(send, into, 0), send, into);
    check(c.all_to_all(send, recv), send, recv);
    check(c.all_to_all_v(send, ones.data(), recv, ones.data()), send, recv);
    check(c.send_recv(send, c.rank(), recv, c.rank()), send, recv);
    const bool is_root = c.rank() == 0;
    check(c.reduce(send, recv, ReduceOp::sum, 0), send, is_root ? recv : DeviceSpan<int>());
    check(c.gather(block, recv, 0), block, is_root ? recv : DeviceSpan<int>());
    expect_ok(c.synchronize());
    if constexpr (!moves_data<W>) {
      expect_nothing(difference(read<W>(c, recv), std::vector<int>(n, -7)));
      expect_nothing(difference(read<W>(c, send), contribution<int>(0, n)));
    }
  });
}

}  // namespace comm::testing
