#include "comm/rendezvous/listener.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "comm/rendezvous/address.h"
#include "comm/rendezvous/root_listener.h"
#include "comm/rendezvous/sockets.h"
#include "tests/rendezvous/support.h"

using namespace comm;
using namespace comm::test;
using detail::Deadline;
using detail::SocketAddress;
using std::chrono::seconds;

namespace {

SocketAddress numeric(const std::string& text, std::uint16_t port = 80) {
  SocketAddress address;
  REQUIRE_MESSAGE(detail::parse_numeric(text, port, address), text);
  return address;
}

bool joins(const RendezvousConfig& config) {
  const auto channel = OutOfBand::join(config);
  if (!channel.ok()) MESSAGE(std::string(channel.message()));
  return channel.ok() && (*channel)->barrier(seconds(20)).ok();
}

// A path that is free and in a directory of this test alone.
std::string scratch_path() {
  static int count = 0;
  const char* directory = std::getenv("TEST_TMPDIR");
  return std::string(directory != nullptr ? directory : "/tmp") + "/comm_rendezvous_" +
         std::to_string(::getpid()) + "_" + std::to_string(++count);
}

}  // namespace

TEST_CASE("addresses: texts, ports and loopback") {
  CHECK(numeric("127.0.0.1").text() == "127.0.0.1:80");
  CHECK(numeric("::1", 5).text() == "[::1]:5");
  CHECK(numeric("unix:x").text() == "unix:x");
  for (const char* text : {"127.0.0.1", "127.0.1.1", "::1", "::ffff:127.0.0.1", "unix:x"}) {
    CHECK_MESSAGE(numeric(text).is_loopback(), text);
    CHECK_MESSAGE(detail::names_this_host_only(text), text);
  }
  for (const char* text : {"10.0.0.1", "0.0.0.0", "::", "fd00::1", "::ffff:10.0.0.1"}) {
    CHECK_MESSAGE(!numeric(text).is_loopback(), text);
  }
  SocketAddress address;
  for (const char* text : {"", "host", "127.0.0.1:80", "unix:", "1.2.3.4.5"}) {
    CHECK_MESSAGE(!detail::parse_numeric(text, 1, address), text);
  }
  CHECK_FALSE(detail::parse_numeric("unix:" + std::string(108, 'x'), 1, address));
}

TEST_CASE("addresses: a name that does not exist is an error within the deadline") {
  const auto found = detail::resolve("no-such-host.invalid", 1, Deadline::in(seconds(5)));
  CHECK_FALSE(found.ok());
  CHECK(std::string(found.message()).find("no-such-host.invalid") != std::string::npos);
}

TEST_CASE("listener: port 0 takes a free port, and descriptors do not leak into other programs") {
  const auto listener = Listener::bind("127.0.0.1", 0);
  REQUIRE(listener.ok());
  CHECK((*listener)->port() != 0);
  CHECK((*listener)->address() == "127.0.0.1");
  CHECK((::fcntl((*listener)->fd(), F_GETFD) & FD_CLOEXEC) != 0);
  const auto second = Listener::bind("127.0.0.1", (*listener)->port());
  CHECK(second.status().native_code() == EADDRINUSE);
  CHECK(std::string(second.message()).find(std::to_string((*listener)->port())) !=
        std::string::npos);
}

TEST_CASE("listener: an interface's name stands for its address") {
  const auto listener = Listener::bind("lo", 0);
  REQUIRE(listener.ok());
  CHECK((*listener)->address() == "127.0.0.1");
  CHECK_FALSE(Listener::bind("no-such-interface0", 0).ok());
}

TEST_CASE("listener: a descriptor that is no listener is refused") {
  const auto refused = Listener::adopt(0);
  CHECK_FALSE(refused.ok());
  CHECK(std::string(refused.message()).find("not a listening socket") != std::string::npos);
}

TEST_CASE("FAULTS 5: 2,000 open and close cycles on a fixed port and on port 0") {
  const Watchdog watchdog("cycles", seconds(300));
  // The port is fixed from the first cycle on; whoever closes first is the server.
  Job job(2);
  const std::uint16_t port = job.port();
  job.close_listener();
  const RendezvousConfig root = job.config(0), worker = job.config(1);
  CHECK(root.launch.root_port == port);
  int joined = 0;
  for (int cycle = 0; cycle < 1000; ++cycle) {
    std::thread other([&] {
      const auto channel = OutOfBand::join(worker);
      if (channel.ok() && cycle % 2 == 0) (*channel)->barrier(seconds(20)).ignore();
    });
    const auto channel = OutOfBand::join(root);
    if (!channel.ok()) MESSAGE(std::string(channel.message()));
    joined += channel.ok() ? 1 : 0;
    if (channel.ok() && cycle % 2 == 0) (*channel)->barrier(seconds(20)).ignore();
    if (channel.ok()) (*channel)->leave();
    other.join();
  }
  CHECK(joined == 1000);
  for (int cycle = 0; cycle < 1000; ++cycle) {
    const Job fresh(2);
    std::thread other([&] { CHECK(OutOfBand::join(fresh.config(1)).ok()); });
    joined += OutOfBand::join(fresh.config(0)).ok() ? 1 : 0;
    other.join();
  }
  CHECK(joined == 2000);
}

TEST_CASE("root: an abstract socket of this host serves as an address") {
  const Watchdog watchdog("abstract socket");
  Job job(3);
  job.base.launch.root_address = "unix:comm-test-" + std::to_string(::getpid());
  job.base.launch.root_port = 0;
  job.close_listener();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    RendezvousConfig config = job.config(rank);
    ranks.emplace_back([config] { CHECK(joins(config)); });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_CASE("root: IPv6, names, and the port that a file publishes") {
  const Watchdog watchdog("addresses");
  const std::string path = scratch_path();
  struct Way {
    const char* address;
    std::string file;
  };
  std::vector<Way> ways = {{"localhost", ""}, {"127.0.0.1", path}};
  if (Listener::bind("::1", 0).ok()) ways.push_back({"::1", ""});
  for (const Way& way : ways) {
    Job job(2);
    job.close_listener();
    std::vector<RendezvousConfig> configs = {job.config(0), job.config(1)};
    std::vector<std::thread> ranks;
    for (RendezvousConfig& config : configs) {
      config.launch.root_address = way.address;
      config.launch.rendezvous_file = way.file;
      ranks.emplace_back([&config] { CHECK(joins(config)); });
    }
    for (std::thread& rank : ranks) rank.join();
  }
  CHECK(::access(path.c_str(), F_OK) != 0);  // Taken away with the job.
}

TEST_CASE("root: a file left by a job that was killed is replaced, and believed by nobody") {
  const Watchdog watchdog("stale file");
  const std::string path = scratch_path();
  const Job stale(2);  // Listens, greets nobody.
  std::ofstream(path) << "127.0.0.1 1\n127.0.0.1 " << stale.port() << "\nend\n";
  Job job(2);
  job.close_listener();
  std::vector<std::thread> ranks;
  for (const int rank : {1, 0}) {
    RendezvousConfig config = job.config(rank);
    config.launch.rendezvous_file = path;
    ranks.emplace_back([config] { CHECK(joins(config)); });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_CASE("root: a file that is half written is not there yet") {
  const std::string path = scratch_path();
  std::ofstream(path) << "127.0.0.1 5\n";
  CHECK(detail::read_published(path).empty());
  std::ofstream(path) << "127.0.0.1 5\n::1 6\nend\n";
  REQUIRE(detail::read_published(path).size() == 2);
  CHECK(detail::read_published(path)[1].host == "::1");
  ::unlink(path.c_str());
}

TEST_CASE(
    "FAULTS 12: a job on several hosts does not listen on loopback, whatever its name means") {
  const Watchdog watchdog("127.0.1.1");
  LogLines lines;
  detail::Logger log(lines.sink(), LogLevels(), comm::LogPart::rendezvous, 0, 2);
  LaunchConfig launch;
  launch.world_size = 2;
  launch.local_world_size = 1;
  launch.root_address = "localhost.localdomain";
  // Any name that is loopback here does; Debian's hosts file maps a host's own one to 127.0.1.1.
  if (!detail::resolve(launch.root_address, 1, Deadline::in(seconds(5))).ok()) {
    launch.root_address = "ip6-localhost";
  }
  const auto named = detail::open_root_listener(launch, Deadline::in(seconds(20)), log);
  REQUIRE_MESSAGE(named.ok(), std::string(named.message()));
  CHECK_FALSE(detail::local_address((*named)->fd()).is_loopback());
  CHECK(lines.contains("listening on all addresses"));
  CHECK(lines.contains("without a secret"));

  // An address that was chosen wins, and a job on this host alone stays on loopback.
  launch.bind_address = "127.0.0.1";
  const auto chosen = detail::open_root_listener(launch, Deadline::in(seconds(20)), log);
  REQUIRE(chosen.ok());
  CHECK((*chosen)->address() == "127.0.0.1");
  launch.bind_address.clear();
  launch.local_world_size = 2;
  launch.root_address = "localhost";
  const auto local = detail::open_root_listener(launch, Deadline::in(seconds(20)), log);
  REQUIRE(local.ok());
  CHECK(detail::local_address((*local)->fd()).is_loopback());
}

TEST_CASE("FAULTS 12: what a file publishes for several hosts is no loopback address") {
  LogLines lines;
  detail::Logger log(lines.sink(), LogLevels(), comm::LogPart::rendezvous, 0, 2);
  LaunchConfig launch;
  launch.world_size = 2;
  launch.rendezvous_file = scratch_path();
  SocketAddress outward;
  const bool has_network = detail::outward_address(0, outward);
  const auto listener = detail::open_root_listener(launch, Deadline::in(seconds(20)), log);
  REQUIRE(listener.ok());
  // A machine without any network has only loopback to offer.
  CHECK(detail::local_address((*listener)->fd()).is_loopback() == !has_network);
}
