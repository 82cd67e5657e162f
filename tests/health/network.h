#pragma once

/// `Network` gives each rank of a test a network of its own: a network namespace, with a cable (veth)
/// to a bridge in another. `cut` makes packets from and to a rank vanish without a word; `mend` lets
/// them through again. The cables end with the last process of the test.
///
/// A process that calls `enter` makes its TCP sockets in its rank's network; Unix sockets stay those
/// of the test's, since what they carry (shared memory, the simulated NCCL) stands for other hardware.
/// To that end network.cc defines `socket` for the whole program.
///
///     std::string why;
///     auto network = Network::make(3, why);        // Null where the machine gives no namespaces.
///     if (network == nullptr) MESSAGE("NOT RUN: ", why);

#include <memory>
#include <string>
#include <vector>

#include "comm/rendezvous/listener.h"

namespace comm::test {

class Network {
 public:
  /// While the process has one thread: it moves to a network namespace of its own.
  static std::unique_ptr<Network> make(int ranks, std::string& why);
  Network(const Network&) = delete;
  ~Network();

  static std::string address_of(int rank) { return "10.77.0." + std::to_string(rank + 1); }

  /// For rank 0, in its network.
  std::shared_ptr<Listener> listen() const;

  /// In the process of a rank: from now on its TCP sockets belong to the rank's network.
  void enter(int rank) const;

  enum class Cut {
    dark,        ///< The switch is off: the rank's own side sees it, too.
    unplugged,   ///< Beyond the first switch; what is sent vanishes.
    other_side,  ///< Those that are cut so still reach each other.
  };
  void cut(int rank, Cut how) const;
  void mend(int rank) const;

 private:
  explicit Network(int ranks) : namespaces_(static_cast<std::size_t>(ranks), -1) {}
  bool build(std::string& why);
  void unplug(int rank) const;
  void plug_into(int bridge, int rank) const;
  void ask_bridge(int bridge, unsigned long request, int rank) const;
  void power(int rank, bool on) const;

  std::vector<int> namespaces_;
  int own_ = -1;
  int control_ = -1;  ///< A socket of the bridge's network, for requests to it.
};

}  // namespace comm::test
