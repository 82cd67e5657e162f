#pragma once

/// One rank's place in one communicator: a mailbox for what the others say, and the ways to them. A
/// rank of this process is reached directly, one of another process through a Link. Messages that
/// come early wait; a wait ends when the message comes or the endpoint is stopped (abort, revoke).
/// Thread-safe; it calls nothing that takes the machine's mutex while its own is held.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "comm/testing/simulated/nccl/message.h"

namespace comm::simulated::detail {

class Link;

/// Where an endpoint is. Plain, since it is sent as it is.
struct Address {
  std::uint64_t process = 0;   // Token of the process.
  std::uint64_t endpoint = 0;  // Id within the process.
  std::int32_t pid = 0;
  std::int32_t device = 0;
  std::int32_t bus_id = 0;
  std::int32_t version = 0;
};

class Endpoint : public std::enable_shared_from_this<Endpoint> {
 public:
  static std::shared_ptr<Endpoint> make();
  ~Endpoint();
  static std::shared_ptr<Endpoint> find(std::uint64_t id);

  std::uint64_t id() const { return id_; }

  /// Becomes rank `rank` of `addresses.size()`; from then on the others can be sent to.
  void join(int rank, const std::vector<Address>& addresses, std::string name);

  void send(int to, Message message);

  /// Waits for a message; false when stopped first.
  bool receive(Channel channel, std::uint64_t sequence, int from, Message* message);

  /// Whether it has come already.
  bool has(Channel channel, std::uint64_t sequence, int from);

  /// This rank's collective number `sequence` is `call`; what the others say of that number is
  /// compared with it, and a mismatch reported. False when they are known to disagree already.
  bool agree(std::uint64_t sequence, const Call& call);
  bool disagreed(std::uint64_t sequence);

  /// Collective `sequence` is over here: what still comes for it is compared, and not kept.
  void finish(std::uint64_t sequence);

  /// Blocks until stopped.
  void wait_until_stopped();

  /// Ends the waits of operations, now and later (revoke); what the host exchanges goes on.
  void stop_operations();

  /// Ends all waits, now and later (abort).
  void stop();
  bool stopped();

  /// Tells the peers goodbye, so that the end of the connection is no death.
  void leave();

  /// From now on says nothing to anybody.
  void vanish();

  /// A peer whose process ended without a goodbye; -1: none.
  int dead_peer();

  /// Called for each collective or point-to-point message that arrives, without locks held.
  void on_arrival(std::function<void(const Message&)> callback);

  void deliver(Message message);
  void lost(int from);

 private:
  using Key = std::tuple<Channel, std::uint64_t, int>;

  struct Peer {
    Address address;
    std::weak_ptr<Endpoint> local;
    std::shared_ptr<Link> link;
    bool is_local = false;
    bool said_goodbye = false;
  };

  struct Agreement {
    bool known = false;
    bool broken = false;
    Call mine;
    std::map<int, Call> theirs;
  };

  bool compare(std::uint64_t sequence, Agreement* agreement, int from, std::string* text);

  std::uint64_t id_ = 0;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Key, Message> mail_;
  std::map<std::uint64_t, Agreement> agreements_;
  std::vector<Peer> peers_;
  std::string name_;
  std::uint64_t finished_ = 0;
  int rank_ = -1;
  int dead_peer_ = -1;
  bool stopped_ = false;  // For operations.
  bool all_stopped_ = false;
  bool silent_ = false;
  std::function<void(const Message&)> callback_;
};

}  // namespace comm::simulated::detail
