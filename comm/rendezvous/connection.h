#pragma once

/// One connection as rank 0's service sees it: what it has said so far, what is still to be sent to
/// it, and what it is taken for. Only the service's thread touches it.

#include <cstdint>
#include <deque>
#include <string>

#include "comm/rendezvous/deadline.h"
#include "comm/rendezvous/exchanges.h"
#include "comm/rendezvous/frames.h"
#include "comm/rendezvous/messages.h"
#include "comm/rendezvous/unique_fd.h"

namespace comm::detail {

struct Connection {
  enum class State {
    handshaking,  ///< A stranger so far, with a deadline.
    parked,       ///< Proven, and waiting for the next epoch to form.
    member,       ///< A rank.
    closing,      ///< Told its last word; what it says is not listened to.
    dead,         ///< To be destroyed before the service sleeps again.
  };

  Connection(std::uint64_t id, UniqueFd fd, std::string peer, bool expect_preface)
      : id(id), fd(std::move(fd)), peer(std::move(peer)), reader(Side::worker, expect_preface) {}

  /// Takes a frame to be sent; sends what the socket takes at once if nothing waits already.
  void send(SharedFrame frame);
  void send(ByteVector frame) { send(std::make_shared<const ByteVector>(std::move(frame))); }

  /// False when the connection is broken; `problem_errno` says how.
  bool flush();
  bool has_output() const { return !output.empty(); }

  bool is_local() const { return id == 0; }

  const std::uint64_t id;
  UniqueFd fd;
  std::string peer;  ///< Its address, for the log.
  FrameReader reader;
  State state = State::handshaking;
  Greeting greeting;
  Hello hello;                            ///< From `parked` on.
  Deadline deadline = Deadline::never();  ///< Of the handshake, or until which its owner waits.
  UniqueFd process;                       ///< Readable when the rank's process has ended.
  int problem_errno = 0;                  ///< Why sending failed.
  bool wants_write = false;               ///< What epoll was last told.
  std::deque<SharedFrame> output;
  std::size_t output_offset = 0;
};

}  // namespace comm::detail
