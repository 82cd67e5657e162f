#pragma once

/// Streams: ordered queues, each with a worker thread of its own that starts when it is first
/// needed. An operation starts when those before it in its stream and those it waits for are done
/// and it is not held back. The seed decides which operations are held back: such a one starts only
/// when something must have it (a synchronisation, an event that is waited for, a peer's
/// collective), or after Settings::max_hold_ms. That is as late as CUDA allows.
///
/// Functions that take a Lock expect the machine's mutex held.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "comm/testing/simulated/core/machine.h"

namespace comm::simulated::detail {

enum class StreamKind { created, legacy, per_thread };

struct Stream {
  std::uint64_t id = 0;
  int device = 0;
  std::uint64_t place = 0;  // Among the device's streams.
  StreamKind kind = StreamKind::created;
  unsigned flags = 0;  // cudaStreamNonBlocking
  int priority = 0;

  std::deque<OperationPtr> queue;
  OperationPtr last;  // The newest, also when it is done.
  Clock clock;        // Of what was submitted so far.
  std::uint64_t submitted = 0;
  std::uint64_t seeded_at = 0;  // `submitted` when the seed was last set.
  int polls = 0;
  std::condition_variable wake;
  bool has_worker = false;
  bool closing = false;  // Destroyed by the user; goes when the queue is empty.

  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> frontier;  // Nodes of the captured graph that the next one follows.

  bool blocks_with_legacy() const { return (flags & 1U) == 0; }
};

Stream* make_stream(Lock& lock, int device, StreamKind kind, unsigned flags, int priority);

/// Counts the streams' places and operations anew, for a new seed.
void place_again(Lock& lock);

/// Its pending work still runs, as cudaStreamDestroy promises.
void close_stream(Lock& lock, Stream* stream);

/// Puts the operation on the stream, which is not capturing.
OperationPtr enqueue(Lock& lock, Stream* stream, Submission submission);

/// Something waits for the operation: what it depends on is no longer held back.
void force(Lock& lock, const OperationPtr& op);

/// Forces, waits until it is done, and lets the host know.
void wait_for(Lock& lock, const OperationPtr& op);

/// Whether it is done, for a host that polls: the seed says how often it is first told no.
bool poll(Lock& lock, const OperationPtr& op, int* polls);

/// Called by a running operation that may complete late: returns when somebody needs it.
void hold_completion(Operation& op);

std::string name_of(const Stream* stream);

/// Whether the user may still pass it.
bool is_live(Lock& lock, const Stream* stream);

/// Waits for everything submitted to the device so far (-1: to any device).
void wait_for_device(Lock& lock, int device);

}  // namespace comm::simulated::detail
