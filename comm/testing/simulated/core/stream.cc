#include "comm/testing/simulated/core/stream.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "comm/testing/simulated/core/machine.h"
#include "comm/testing/simulated/settings.h"

namespace comm::simulated::detail {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAwaited{20};

bool waits_over(const Operation& op) {
  for (const OperationPtr& wait : op.waits) {
    if (!wait->done()) return false;
  }
  return true;
}

// Runs the operation, which is first in its queue, and takes it off.
void run(Lock& lock, Stream* stream, const OperationPtr& op) {
  op->state = Operation::State::running;
  if (op->never_finishes) {
    stream->wake.wait(lock, [] { return false; });
  }
  lock.unlock();
  if (op->delay_ms > 0) std::this_thread::sleep_for(milliseconds(op->delay_ms));
  if (op->run) op->run(*op);
  lock.lock();

  op->done_ns = now_ns();
  op->state = Operation::State::done;
  op->run = nullptr;
  op->waits.clear();
  op->keep.reset();
  stream->queue.pop_front();
  for (Stream* dependent : std::exchange(op->dependents, {})) dependent->wake.notify_all();
  stream->wake.notify_all();
  if (op->host_sees_completion) host_saw(op);
  machine().progress.notify_all();
}

void forget(Stream* stream) {
  machine().host.forget(stream->id);
  machine().streams.erase(stream);
  delete stream;
}

void work(Stream* stream) {
  Lock lock(machine().mutex);
  for (;;) {
    stream->wake.wait(lock, [&] { return !stream->queue.empty() || stream->closing; });
    if (stream->queue.empty()) break;
    const OperationPtr op = stream->queue.front();
    if (op->state == Operation::State::running) {  // By a thread of the host.
      stream->wake.wait(lock);
      continue;
    }
    if (!waits_over(*op)) {
      stream->wake.wait(lock);
      continue;
    }
    if (op->held && !op->forced) {
      const std::int64_t held_ns = now_ns() - op->submitted_ns;
      const auto left = milliseconds(settings().max_hold_ms) - std::chrono::nanoseconds(held_ns);
      if (left > left.zero()) {
        stream->wake.wait_for(lock, left);
        continue;
      }
    }
    run(lock, stream, op);
  }
  forget(stream);
}

void start_worker(Stream* stream) {
  if (std::exchange(stream->has_worker, true)) return;
  std::thread(work, stream).detach();
}

// How many of four operations this seed holds back.
bool draws_hold(const Stream& stream, std::uint64_t index) {
  const std::uint64_t device = static_cast<std::uint64_t>(stream.device);
  const std::uint64_t rate = draw(0, 0, 1) % 5;
  return draw(device, stream.place, index - stream.seeded_at) % 4 < rate;
}

// What the legacy default stream and the streams that synchronise with it owe one another.
void add_legacy_waits(Stream* stream, std::vector<OperationPtr>* waits) {
  Machine& all = machine();
  Stream* legacy = all.devices[static_cast<std::size_t>(stream->device)].legacy;
  if (stream->kind == StreamKind::legacy) {
    for (const Stream* other : all.streams) {
      if (other != stream && other->device == stream->device && other->blocks_with_legacy() &&
          other->last != nullptr) {
        waits->push_back(other->last);
      }
    }
  } else if (stream->blocks_with_legacy() && legacy != nullptr && legacy->last != nullptr) {
    waits->push_back(legacy->last);
  }
}

// Default streams have places of their own: when they are made depends on the threads.
constexpr std::uint64_t kLegacyPlace = 1000000;
constexpr std::uint64_t kThreadPlace = 1000001;

std::uint64_t place_for(const Stream* stream) {
  switch (stream->kind) {
    case StreamKind::legacy: return kLegacyPlace;
    case StreamKind::per_thread: return kThreadPlace;
    case StreamKind::created: break;
  }
  return machine().devices[static_cast<std::size_t>(stream->device)].streams_made++;
}

}  // namespace

void place_again(Lock&) {
  Machine& all = machine();
  for (Device& device : all.devices) device.streams_made = 0;
  std::vector<Stream*> streams(all.streams.begin(), all.streams.end());
  std::sort(streams.begin(), streams.end(),
            [](const Stream* a, const Stream* b) { return a->id < b->id; });
  for (Stream* stream : streams) {
    stream->seeded_at = stream->submitted;
    if (!stream->closing) stream->place = place_for(stream);
  }
}

Stream* make_stream(Lock&, int device, StreamKind kind, unsigned flags, int priority) {
  Machine& all = machine();
  Stream* stream = new Stream;
  stream->id = all.next_id++;
  stream->device = device;
  stream->kind = kind;
  stream->flags = flags;
  stream->priority = priority;
  stream->place = place_for(stream);
  all.streams.insert(stream);
  return stream;
}

void close_stream(Lock&, Stream* stream) {
  stream->closing = true;
  if (stream->has_worker) {
    stream->wake.notify_all();
  } else if (stream->queue.empty()) {
    forget(stream);
  } else {
    start_worker(stream);
  }
}

OperationPtr enqueue(Lock& lock, Stream* stream, Submission submission) {
  const auto op = std::make_shared<Operation>();
  Waits waits = std::move(submission.waits);
  if (submission.prepare) submission.run = submission.prepare(waits);
  op->what = std::move(submission.what);
  op->run = std::move(submission.run);
  op->accesses = std::move(submission.accesses);
  op->keep = std::move(submission.keep);
  op->stream = stream;
  op->stream_id = stream->id;
  op->stream_name = name_of(stream);
  op->index = ++stream->submitted;
  op->is_marker = submission.is_marker;
  op->host_sees_completion = submission.host_sees_completion;
  op->never_finishes = submission.never_finishes;
  op->delay_ms = submission.delay_ms;
  op->submitted_ns = now_ns();
  op->held = !op->is_marker && draws_hold(*stream, op->index);

  add_legacy_waits(stream, &waits.promised);
  op->clock = stream->clock;
  op->clock.merge(machine().host);
  for (const OperationPtr& wait : waits.promised) op->clock.merge(wait->clock);
  for (const auto* list : {&waits.promised, &waits.unpromised}) {
    for (const OperationPtr& wait : *list) {
      if (wait->done()) continue;
      wait->dependents.push_back(stream);
      op->waits.push_back(wait);
    }
  }
  op->clock.advance(stream->id, op->index);
  stream->clock = op->clock;
  stream->last = op;
  stream->queue.push_back(op);
  check_order(op);
  if (submission.enqueued) submission.enqueued(op);

  const bool first = stream->queue.size() == 1 && op->waits.empty();
  if (first && !op->held && submission.pace == Pace::inline_run && !op->never_finishes &&
      op->delay_ms == 0) {
    run(lock, stream, op);
    return op;
  }
  start_worker(stream);
  stream->wake.notify_all();
  if (first && !op->held && submission.pace == Pace::awaited && op->delay_ms == 0) {
    machine().progress.wait_for(lock, kAwaited, [&] { return op->done(); });
  }
  return op;
}

void force(Lock&, const OperationPtr& op) {
  std::vector<OperationPtr> todo{op};
  while (!todo.empty()) {
    const OperationPtr next = todo.back();
    todo.pop_back();
    if (next->done() || next->forced) continue;
    for (const OperationPtr& before : next->stream->queue) {
      if (before->index > next->index) break;
      if (std::exchange(before->forced, true)) continue;
      todo.insert(todo.end(), before->waits.begin(), before->waits.end());
    }
    next->stream->wake.notify_all();
  }
}

void wait_for(Lock& lock, const OperationPtr& op) {
  if (!op->done()) {
    force(lock, op);
    machine().progress.wait(lock, [&] { return op->done(); });
  }
  host_saw(op);
}

bool poll(Lock& lock, const OperationPtr& op, int* polls) {
  if (!op->done()) {
    const std::uint64_t place = op->stream->place;
    const std::uint64_t patience = draw(place, op->index - op->stream->seeded_at, 2) % 3;
    if (static_cast<std::uint64_t>(++*polls) > patience) force(lock, op);
  }
  if (!op->done()) return false;
  *polls = 0;
  host_saw(op);
  return true;
}

void hold_completion(Operation& op) {
  const std::uint64_t device = static_cast<std::uint64_t>(op.stream->device);
  if (draw(device + 1000, op.stream->place, op.index - op.stream->seeded_at) % 2 == 0) return;
  Lock lock(machine().mutex);
  op.stream->wake.wait_for(lock, milliseconds(settings().max_hold_ms), [&] { return op.forced; });
}

std::string name_of(const Stream* stream) {
  char text[96];
  const char* kind = stream->kind == StreamKind::legacy       ? "the legacy default stream"
                     : stream->kind == StreamKind::per_thread ? "a per-thread default stream"
                                                              : "stream";
  if (stream->kind == StreamKind::created) {
    std::snprintf(text, sizeof(text), "stream %llu (%p) of device %d",
                  static_cast<unsigned long long>(stream->place), static_cast<const void*>(stream),
                  stream->device);
  } else {
    std::snprintf(text, sizeof(text), "%s of device %d", kind, stream->device);
  }
  return text;
}

bool is_live(Lock&, const Stream* stream) {
  const std::set<Stream*>& all = machine().streams;
  return all.count(const_cast<Stream*>(stream)) != 0 && !stream->closing;
}

void wait_for_device(Lock& lock, int device) {
  std::vector<OperationPtr> newest;
  for (const Stream* stream : machine().streams) {
    if ((device == -1 || stream->device == device) && stream->last != nullptr) {
      newest.push_back(stream->last);
    }
  }
  for (const OperationPtr& op : newest) force(lock, op);
  for (const OperationPtr& op : newest) wait_for(lock, op);
}

}  // namespace comm::simulated::detail
