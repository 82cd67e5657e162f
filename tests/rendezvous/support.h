#pragma once

/// What the tests of the rendezvous share: ranks as threads, strangers that speak raw bytes, and a
/// watchdog that names the test that hangs.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "comm/rendezvous/bytes.h"
#include "comm/rendezvous/frames.h"
#include "comm/rendezvous/listener.h"
#include "comm/rendezvous/messages.h"
#include "comm/rendezvous/out_of_band.h"
#include "comm/rendezvous/unique_fd.h"

namespace comm::test {

/// Ends the process, with the name, if it lives for longer than `limit`.
class Watchdog {
 public:
  explicit Watchdog(const char* name, std::chrono::seconds limit = std::chrono::seconds(60));
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();
};

/// Lines that ranks log, collected.
class LogLines {
 public:
  std::function<void(std::string_view)> sink();
  bool contains(std::string_view text) const;
  std::size_t count() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// A job whose ranks are threads of this process.
class Job {
 public:
  explicit Job(int world_size);

  RendezvousConfig config(int rank) const;
  std::uint16_t port() const { return base.launch.root_port; }

  /// Lets go of the port: from now on rank 0 binds it by number.
  void close_listener() { listener_.reset(); }

  /// Runs `body` for each of the ranks at once and waits for all.
  void run(const std::vector<int>& ranks, const std::function<void(int rank)>& body) const;
  void run(const std::function<void(int rank)>& body) const;

  /// Changed before it is used: what all configurations start from.
  RendezvousConfig base;
  LogLines log;

 private:
  int world_size_;
  std::shared_ptr<Listener> listener_;
};

/// A client that says what a test wants it to.
class Stranger {
 public:
  /// Connects to 127.0.0.1.
  explicit Stranger(std::uint16_t port);

  bool connected() const { return static_cast<bool>(fd_); }
  bool say(std::string_view bytes);
  bool say(detail::ByteSpan bytes);

  /// The next frame's body; false at the end of the stream or after `timeout`.
  bool hear(detail::FrameType type, detail::ByteVector& body,
            std::chrono::milliseconds timeout = std::chrono::seconds(10));

  /// Reads the greeting, answers with the hello, reads the verdict; false where there is none.
  bool introduce(detail::Hello hello, detail::Verdict& verdict, const std::string& secret = "");

  /// Whether the other side ends the connection in time.
  bool is_hung_up(std::chrono::milliseconds timeout);
  void reset();  ///< Ends with RST instead of FIN.
  void close() { fd_.reset(); }

 private:
  detail::UniqueFd fd_;
  detail::FrameReader reader_{detail::Side::root};
};

/// A hello as a rank of `job` would send it.
detail::Hello hello_of(const RendezvousConfig& config);

inline detail::ByteSpan bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
std::string text_of(const Bytes& bytes);

/// Descriptors and threads of this process.
std::size_t open_descriptors();
std::size_t thread_count();

}  // namespace comm::test
