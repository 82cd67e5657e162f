#pragma once

/// Between processes: abstract Unix sockets, which leave nothing behind when a process is killed.
/// Each process listens on one, named by its token; a rank opens one connection to each rank of
/// another process for what it says to it, and the other side reads it into its Endpoint on a
/// thread. End of file without a goodbye is a death. Thread-safe.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "comm/testing/simulated/nccl/message.h"

namespace comm::simulated::detail {

/// Identifies this process; listening on its socket has begun when it returns. A child made by fork
/// gets its own.
std::uint64_t process_token();

class Link {
 public:
  /// Null when the process is gone.
  static std::shared_ptr<Link> open(std::uint64_t process, std::uint64_t endpoint, int from);
  explicit Link(int descriptor) : descriptor_(descriptor) {}
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  bool send(const Message& message);

 private:
  std::mutex mutex_;
  int descriptor_;
};

/// Sockets in the abstract namespace; -1 on failure.
int listen_on(const std::string& name);
int connect_to(const std::string& name);

/// False at end of file or on an error.
bool read_all(int descriptor, void* bytes, std::size_t size);
bool write_all(int descriptor, const void* bytes, std::size_t size);

}  // namespace comm::simulated::detail
