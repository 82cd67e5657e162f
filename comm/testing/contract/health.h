#pragma once

/// The contract suite on failure: what a rank is told when others do not come, promises 6 and 7.

#include <latch>
#include <string>
#include <thread>

#include "comm/testing/contract/lifecycle.h"

namespace comm::testing {

template <class W>
int size_of_a_failing_world() {
  int most = 0;
  for (int size : W::sizes()) most = size > most ? size : most;
  return detects_failures<W> && most > 1 ? (most < 3 ? most : 3) : 0;
}

/// Refused, by every kind of operation, with the cause.
template <class W>
void check_unhealthy(CommunicatorOf<W>& c, const std::string& cause) {
  expect(!c.is_healthy());
  BufferOf<W, float> buffer({1, 1}), other({1, 1});
  const std::string outcomes[] = {
      outcome(c.all_reduce(buffer.span())),
      outcome(c.broadcast(buffer.span(), 0)),
      outcome(c.all_reduce_async(buffer.span())),
      outcome(c.all_reduce_deferred(buffer.span())),
      outcome(c.send_to(buffer.span(), 0)),
      outcome(c.recv_from(buffer.span(), 0)),
      outcome(c.barrier()),
      outcome(c.barrier_wait()),
      outcome(c.all_gather(buffer.span().first(0), other.span().first(0))),
  };
  for (const std::string& refusal : outcomes) {
    expect_part(refusal, "unhealthy: ");
    expect_part(refusal, cause);
  }
}

/// Rank 0 stays away while the others call `operation` on the communicator and two buffers of one
/// element.
template <class W, class F>
void check_absence_is_noticed(const std::string& name, F operation) {
  const int size = size_of_a_failing_world<W>();
  if (size == 0) return;
  std::latch others(size - 1);
  run_world<W>(
      size,
      [&](CommunicatorOf<W>& c) {
        if (c.rank() == 0) return others.wait();
        INFO(name, " on rank ", c.rank());
        BufferOf<W, float> a({1}), b(zeros<float>(static_cast<std::size_t>(c.world_size())));
        Status s = operation(c, a.span(), b.span());
        if (s.ok()) s = c.synchronize({}, Timeout::milliseconds(200));
        expect(!s.ok());
        expect(s.code() != StatusCode::invalid_argument);
        expect(s.code() != StatusCode::unsupported);
        check_unhealthy<W>(c, name);
        others.count_down();
      },
      Timeout::milliseconds(200));
}

template <class T>
Status status_of(Result<T> result) {
  return std::move(result).status();
}

TEST_CASE_TEMPLATE_DEFINE("contract 6: no operation waits for an absent rank beyond its deadline",
                          W, comm_contract_absent) {
  using C = CommunicatorOf<W>;
  using Span = DeviceSpan<float>;
  auto check = [](const std::string& name, auto f) { check_absence_is_noticed<W>(name, f); };
  check("barrier_wait",
        [](C& c, Span, Span) { return c.barrier_wait(Timeout::milliseconds(200)); });
  check("all_reduce", [](C& c, Span a, Span) { return c.all_reduce(a); });
  // Backends may run this one as an all_reduce, and say so.
  check("all_reduce", [](C& c, Span a, Span) { return c.all_reduce_async(a); });
  check("all_gather", [](C& c, Span a, Span b) { return status_of(c.all_gather(a, b)); });
  check("reduce_scatter", [](C& c, Span a, Span b) { return status_of(c.reduce_scatter(b, a)); });
  check("broadcast", [](C& c, Span a, Span) { return c.broadcast(a, 0); });
  check("all_to_all", [](C& c, Span, Span b) {
    BufferOf<W, float> other(zeros<float>(b.size()));
    Status s = status_of(c.all_to_all(b, other.span()));
    // The buffer lives until the operation has failed.
    return s.ok() ? c.synchronize({}, Timeout::milliseconds(200)) : std::move(s);
  });
  check("recv_from", [](C& c, Span a, Span) { return c.recv_from(a, 0); });
}

/// Returns when the failure of a peer has become known here; the world's watchdog bounds the wait.
template <class C>
void wait_until_unhealthy(const C& communicator) {
  while (communicator.is_healthy()) std::this_thread::yield();
}

TEST_CASE_TEMPLATE_DEFINE("contract 7: after a failure all is refused until a reconnect", W,
                          comm_contract_reconnect) {
  const int size = size_of_a_failing_world<W>();
  if (size == 0) return;
  std::latch all_took_part(size);
  std::latch others(size - 1);
  run_world<W>(
      size,
      [&](CommunicatorOf<W>& c) {
        INFO("rank ", c.rank());
        BufferOf<W, float> buffer(contribution<float>(c.rank(), 100));
        auto handle = c.register_buffer(buffer.span());
        expect_ok(handle);
        const std::uint64_t epoch = c.epoch();
        check_all_take_part<W>(c);
        // Whoever fails must not fail the others' exchange above, however slow the machine is.
        all_took_part.arrive_and_wait();
        if (c.rank() != 0) {
          expect(!c.barrier_wait(Timeout::milliseconds(200)).ok());
          expect(!c.is_healthy());
          others.count_down();
        }
        others.wait();
        // A rank that still believes that all is well has nothing to repair, and the news travels.
        wait_until_unhealthy(c);
        Status again = c.attempt_reconnect();
        if (again.code() == StatusCode::unsupported) return;
        expect_ok(again);
        if (!again.ok()) return;
        expect(c.is_healthy());
        expect_equal(c.epoch(), epoch + 1);
        expect_equal(c.world_size(), size);
        check_all_take_part<W>(c);
        // Promise 10: what was registered still is.
        expect_ok(c.all_reduce(buffer.span()));
        expect_nothing(
            difference(read<W>(c, buffer.span()), reduction<float>(size, 100, ReduceOp::sum)));
        if (handle.ok()) expect_ok(c.deregister_buffer(*handle));
        expect_ok(c.barrier_wait());
      },
      Timeout::milliseconds(10'000));
}

TEST_CASE_TEMPLATE_DEFINE("contract: abort ends what peers wait for", W, comm_contract_abort) {
  const int size = size_of_a_failing_world<W>();
  if (size == 0) return;
  std::latch others(size - 1);
  run_world<W>(size, [&](CommunicatorOf<W>& c) {
    INFO("rank ", c.rank());
    if (c.rank() == 0) {
      expect_ok(c.abort());
      expect(!c.is_healthy());
      others.wait();
      return;
    }
    BufferOf<W, float> buffer({1});
    Status s = c.all_reduce(buffer.span());
    if (s.ok()) s = c.synchronize();
    expect(!s.ok());
    expect(!c.is_healthy());
    others.count_down();
  });
}

}  // namespace comm::testing
