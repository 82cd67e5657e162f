#pragma once

/// `Group` submits the operations called while it lives together: two ranks that each send and then
/// receive do not wait for each other inside one. Made by `Communicator::group()`.
///
///     {
///       auto group = communicator.group();
///       communicator.send_to(right, next).ignore();
///       communicator.recv_from(left, previous).ignore();
///       if (comm::Status s = group.end(); !s.ok()) return s;
///     }
///
/// The group closes on every path: `end()` reports what came of it; a guard destroyed before that,
/// on an early return, closes the group and lets the communicator's health tell. Results are valid
/// after the group has ended. A guard stays on the thread that made it and is not moved, since
/// NCCL counts groups by thread; the communicator stays where it is while the guard lives.

#include "comm/backend.h"

namespace comm {

template <Backend B>
class [[nodiscard]] Group {
 public:
  constexpr explicit Group(B& backend)
      : backend_(&backend), started_(backend.group_start({})), is_open_(started_.ok()) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  constexpr ~Group() {
    if (is_open_) end().ignore();
  }

  /// Whether the group could be opened.
  constexpr const Status& status() const { return started_; }

  /// Ends the group. The error is that of the start, of any member, or of the end; ok the second
  /// time.
  constexpr Status end() {
    if (!is_open_) return started_.ok() ? Status() : started_.copy();
    is_open_ = false;
    return backend_->group_end({});
  }

 private:
  B* backend_;
  Status started_;
  bool is_open_;
};

/// Where no data moves there is nothing to hold together, and the guard is an empty class.
template <Backend B>
  requires(!B::moves_data)
class [[nodiscard]] Group<B> {
 public:
  constexpr explicit Group(B&) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  constexpr ~Group() {}

  static constexpr Status status() { return {}; }
  static constexpr Status end() { return {}; }
};

}  // namespace comm
