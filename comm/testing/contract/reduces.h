#pragma once

/// The contract suite on reductions: every type, every operation, in place and not, promise 5.

#include "comm/testing/contract/values.h"
#include "comm/testing/contract/world.h"

namespace comm::testing {

/// A result is right, or the reduction is refused where the world says that it has none.
template <class W, class T>
void check_reduction(CommunicatorOf<W>& c, ReduceOp op, const std::string& outcome,
                     DeviceSpan<T> result, const std::vector<T>& expected) {
  INFO(std::string(to_string(op)), " of ", std::string(to_string(element_type<T>)), ", ",
       expected.size(), " elements");
  if (!supports<W>(element_type<T>, op)) {
    expect_part(outcome, "unsupported: ");
    return;
  }
  expect_same(outcome, "ok");
  if (outcome != "ok") return;
  const std::vector<T> actual = read<W>(c, result);
  if (op == ReduceOp::avg) {
    expect_nothing(difference_within_rounding(actual, expected));
  } else {
    expect_nothing(difference(actual, expected));
  }
}

template <class W, class T>
void check_all_reduce(CommunicatorOf<W>& c, ReduceOp op, std::size_t count) {
  const std::vector<T> mine = contribution<T>(c.rank(), count, op);
  const std::vector<T> expected = reduction<T>(c.world_size(), count, op);

  BufferOf<W, T> buffer(mine);
  const std::string in_place = outcome(c.all_reduce(buffer.span(), op));
  check_reduction<W>(c, op, in_place, buffer.span(), expected);

  BufferOf<W, T> send(mine), recv(std::vector<T>(count, from_int<T>(0)));
  auto result = c.all_reduce(DeviceSpan<const T>(send.span()), recv.span(), op);
  if (result.ok()) {
    check_reduction<W>(c, op, "ok", DeviceSpan<T>(const_cast<T*>(result->data()), result->size()),
                       expected);
    expect_nothing(difference(read<W>(c, send.span()), mine));
  } else {
    check_reduction<W>(c, op, outcome(result), recv.span(), expected);
  }
}

TEST_CASE_TEMPLATE_DEFINE("contract: all_reduce is right for every type and every reduction", W,
                          comm_contract_all_reduce) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    for_every_element_type([&]<class T>() {
      for (ReduceOp op : every_reduction(c.rank())) check_all_reduce<W, T>(c, op, 67);
    });
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: all_reduce is right for every count", W,
                          comm_contract_all_reduce_counts) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    for (std::size_t count :
         std::initializer_list<std::size_t>{0, 1, 2, 3, 5, 8, 31, 64, 127, 1000, 4097, 70'001}) {
      check_all_reduce<W, float>(c, ReduceOp::sum, count);
      check_all_reduce<W, bf16>(c, ReduceOp::sum, count);
    }
    check_all_reduce<W, std::uint8_t>(c, ReduceOp::max, 300'007);
    check_all_reduce<W, double>(c, ReduceOp::prod, 40'009);
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: integers wrap", W, comm_contract_wrap) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    const auto n = static_cast<std::uint8_t>(c.world_size());
    BufferOf<W, std::uint8_t> bytes(std::vector<std::uint8_t>(9, 200));
    expect_ok(c.all_reduce(bytes.span()));
    const auto sum = static_cast<std::uint8_t>(200 * n);
    expect_nothing(difference(read<W>(c, bytes.span()), std::vector<std::uint8_t>(9, sum)));
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract 5: a reduction has the same bits on every rank, every time", W,
                          comm_contract_bits) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    auto check = [&]<class T>() {
      constexpr std::size_t kCount = 5003;
      std::vector<T> mine(kCount);
      std::uint32_t state = 12345U + static_cast<std::uint32_t>(c.rank()) * 977U;
      for (T& value : mine) {
        state = state * 1664525U + 1013904223U;
        value = T(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f);
      }
      std::vector<T> first;
      for (int time = 0; time < 3; ++time) {
        BufferOf<W, T> buffer(mine);
        expect_ok(c.all_reduce(buffer.span()));
        std::vector<T> sum = read<W>(c, buffer.span());
        if (time == 0) first = sum;
        expect_nothing(difference(sum, first));
      }
      BufferOf<W, T> own(first);
      BufferOf<W, T> all(std::vector<T>(kCount * static_cast<std::size_t>(c.world_size())));
      auto gathered = c.all_gather(own.span(), all.span());
      expect_ok(gathered);
      if (!gathered.ok()) return;
      const std::vector<T> everybody = read<W>(c, *gathered);
      for (std::size_t begin = 0; begin < everybody.size(); begin += kCount) {
        const T* block = everybody.data() + begin;
        expect_nothing(difference(std::vector<T>(block, block + kCount), first));
      }
    };
    check.template operator()<float>();
    check.template operator()<double>();
    check.template operator()<bf16>();
    check.template operator()<f16>();
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: all_reduce_async is done when the stream is", W,
                          comm_contract_all_reduce_async) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    for (std::size_t count : std::initializer_list<std::size_t>{0, 1, 1000, 70'001}) {
      BufferOf<W, float> buffer(contribution<float>(c.rank(), count));
      const std::string done = outcome(c.all_reduce_async(buffer.span()));
      check_reduction<W>(c, ReduceOp::sum, done, buffer.span(),
                         reduction<float>(c.world_size(), count, ReduceOp::sum));
    }
  });
}

TEST_CASE_TEMPLATE_DEFINE(
    "contract: several all_reduce_deferred are in flight, joined in any order", W,
    comm_contract_all_reduce_deferred) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    constexpr std::size_t kCounts[] = {1000, 1, 5000};
    BufferOf<W, float> a(contribution<float>(c.rank(), kCounts[0]));
    BufferOf<W, float> b(contribution<float>(c.rank(), kCounts[1]));
    BufferOf<W, float> d(contribution<float>(c.rank(), kCounts[2]));
    auto first = c.all_reduce_deferred(a.span());
    auto second = c.all_reduce_deferred(b.span(), ReduceOp::max);
    auto third = c.all_reduce_deferred(d.span());
    for (auto* ticket : {&third, &first, &second}) {
      expect_ok(*ticket);
      if (ticket->ok()) expect_ok((*ticket)->join(Stream()));
    }
    const int n = c.world_size();
    check_reduction<W>(c, ReduceOp::sum, "ok", a.span(),
                       reduction<float>(n, kCounts[0], ReduceOp::sum));
    check_reduction<W>(c, ReduceOp::max, "ok", b.span(),
                       reduction<float>(n, kCounts[1], ReduceOp::max));
    check_reduction<W>(c, ReduceOp::sum, "ok", d.span(),
                       reduction<float>(n, kCounts[2], ReduceOp::sum));
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: a ticket may be dropped without a join", W,
                          comm_contract_dropped_ticket) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    BufferOf<W, float> dropped(contribution<float>(c.rank(), 100));
    expect_ok(c.all_reduce_deferred(dropped.span()));
    check_all_reduce<W, float>(c, ReduceOp::sum, 100);
    expect_ok(c.barrier_wait());
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract: reduce gives its result to the root alone", W,
                          comm_contract_reduce) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    auto check = [&]<class T>(int root, ReduceOp op, std::size_t count) {
      const std::vector<T> mine = contribution<T>(c.rank(), count, op);
      const bool is_root = c.rank() == root;
      BufferOf<W, T> send(mine), recv(std::vector<T>(is_root ? count : 0, from_int<T>(0)));
      auto result = c.reduce(send.span(), recv.span(), op, root);
      const std::string done = outcome(result);
      const DeviceSpan<T> where = result.ok() ? *result : DeviceSpan<T>();
      check_reduction<W>(c, op, done, where,
                         is_root ? reduction<T>(c.world_size(), count, op) : std::vector<T>());
      expect_nothing(difference(read<W>(c, send.span()), mine));

      auto in_place = c.reduce(send.span(), is_root ? send.span() : DeviceSpan<T>(), op, root);
      expect_same(outcome(in_place), done);
      if (is_root && done == "ok") {
        check_reduction<W>(c, op, done, send.span(), reduction<T>(c.world_size(), count, op));
      }
      expect_ok(c.synchronize());
    };
    for (int root = 0; root < c.world_size(); ++root) {
      check.template operator()<float>(root, ReduceOp::sum, 1000);
      check.template operator()<bf16>(root, ReduceOp::avg, 33);
      check.template operator()<std::int64_t>(root, ReduceOp::min, 1);
      check.template operator()<float>(root, ReduceOp::premul_sum(factor_of(c.rank())), 70'001);
      check.template operator()<float>(root, ReduceOp::sum, 0);
    }
  });
}

TEST_CASE_TEMPLATE_DEFINE("contract 4: reduce_scatter gives each rank its block, in place too", W,
                          comm_contract_reduce_scatter) {
  on_every_world<W>([](CommunicatorOf<W>& c) {
    auto check = [&]<class T>(ReduceOp op, std::size_t count) {
      const auto n = static_cast<std::size_t>(c.world_size());
      const auto begin = static_cast<std::size_t>(c.rank()) * count;
      const std::vector<T> mine = contribution<T>(c.rank(), n * count, op);
      const std::vector<T> whole = reduction<T>(c.world_size(), n * count, op);
      const std::vector<T> expected(whole.data() + begin, whole.data() + begin + count);

      BufferOf<W, T> send(mine), recv(std::vector<T>(count, from_int<T>(0)));
      auto result = c.reduce_scatter(send.span(), recv.span(), op);
      check_reduction<W>(c, op, outcome(result), result.ok() ? *result : recv.span(), expected);
      expect_nothing(difference(read<W>(c, send.span()), mine));

      const DeviceSpan<T> block = send.span().subspan(begin, count);
      auto in_place = c.reduce_scatter(send.span(), block, op);
      check_reduction<W>(c, op, outcome(in_place), in_place.ok() ? *in_place : block, expected);
      expect_ok(c.synchronize());
    };
    for (ReduceOp op : every_reduction(c.rank())) {
      check.template operator()<float>(op, 129);
      check.template operator()<f16>(op, 7);
      check.template operator()<std::int32_t>(op, 1);
    }
    check.template operator()<float>(ReduceOp::sum, 0);
    check.template operator()<bf16>(ReduceOp::sum, 50'021);
  });
}

}  // namespace comm::testing
