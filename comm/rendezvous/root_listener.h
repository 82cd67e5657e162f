#pragma once

/// Which address rank 0 listens on, and how others learn it. In order: a listener that was handed
/// over; the configured bind address or interface; the address of rank 0 itself where it is one of
/// this host's; and only where nothing else is right, all addresses. Without a secret anything but
/// loopback is warned about. A job on several hosts never listens on loopback alone, also where the
/// host's own name stands for 127.0.1.1.

#include <memory>
#include <string>
#include <vector>

#include "comm/launch/launch_config.h"
#include "comm/logger.h"
#include "comm/rendezvous/deadline.h"
#include "comm/rendezvous/listener.h"
#include "comm/result.h"

namespace comm::detail {

Result<std::shared_ptr<Listener>> open_root_listener(const LaunchConfig& launch, Deadline deadline,
                                                     Logger& log);

/// A file of lines "host port", one for each address that rank 0 can be reached at; it appears
/// whole or not at all, and is taken away with this object unless somebody has replaced it.
class PublishedAddress {
 public:
  static Result<std::unique_ptr<PublishedAddress>> publish(const std::string& path,
                                                           const Listener& listener);
  PublishedAddress(const PublishedAddress&) = delete;
  PublishedAddress& operator=(const PublishedAddress&) = delete;
  ~PublishedAddress();

 private:
  PublishedAddress(std::string path, std::string content)
      : path_(std::move(path)), content_(std::move(content)) {}

  std::string path_;
  std::string content_;
};

struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;
};

/// What a published file says; empty while it is not there or not complete.
std::vector<HostAndPort> read_published(const std::string& path);

}  // namespace comm::detail
