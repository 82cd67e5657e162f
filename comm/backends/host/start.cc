/// How a world begins: the ranks meet at the rendezvous, rank 0 makes the shared file and hands it
/// over, all attach to it and begin to watch each other, and tell each other how that went.

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "comm/backends/host/hand_over.h"
#include "comm/backends/host/state.h"
#include "comm/rendezvous/out_of_band.h"

namespace comm::detail::host {

namespace {

using Milliseconds = std::chrono::milliseconds;

/// What ranks tell each other first.
struct Introduction {
  char machine[40];               ///< The kernel's boot id: different on every machine and boot.
  std::uint64_t process_numbers;  ///< The PID namespace; a PID means nothing outside of it.
  std::int32_t pid;
  std::int32_t node;  ///< Of NUMA, where it runs.
  PeerMemory::Sample sample;
  cpu_set_t cores;  ///< That it may run on: launchers often give each rank one of its own.
};

/// Rank 0's part, told to all.
struct Offer {
  HandOver::Token token;
  std::uint64_t offset;
};

Introduction introduction(const PeerMemory& memory) {
  Introduction self{};
  self.sample = memory.own_sample();
  if (sched_getaffinity(0, sizeof self.cores, &self.cores) != 0) CPU_SET(0, &self.cores);
  self.pid = getpid();
  self.node = current_node();
  struct stat space {};
  if (stat("/proc/self/ns/pid", &space) == 0) self.process_numbers = space.st_ino;
  if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re"); file != nullptr) {
    if (std::fgets(self.machine, sizeof self.machine, file) == nullptr) self.machine[0] = '\0';
    std::fclose(file);
  }
  return self;
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

std::span<const std::byte> text_of(const Status& status) {
  const std::string_view text = status.ok() ? "" : status.message();
  return std::as_bytes(std::span<const char>(text));
}

std::string text_of(const Bytes& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// In nanoseconds; what is too long to be said in them has no end.
std::int64_t nanoseconds(Milliseconds t) {
  return t.count() > kForever / 1'000'000 ? kForever : t.count() * 1'000'000;
}

class Start {
 public:
  Start(const Host::Config& config, std::shared_ptr<OutOfBand> channel, Milliseconds timeout)
      : channel_(std::move(channel)),
        timeout_(timeout),
        deadline_ns_(deadline_after(nanoseconds(timeout))),
        slow_wait_ns_(nanoseconds(config.slow_wait)),
        waiting_(config.waiting) {
    world_ = std::make_shared<World>();
    world_->out_of_band = channel_;
    world_->rank = channel_ == nullptr ? 0 : channel_->rank();
    world_->size = channel_ == nullptr ? 1 : channel_->world_size();
    world_->epoch = channel_ == nullptr ? 0 : channel_->epoch();
    world_->slot_bytes = config.slot_bytes;
    world_->timeout_ns = nanoseconds(config.collective_timeout);
    world_->wakes_are_exact = prepare_barrier_everywhere();
    members_.resize(static_cast<std::size_t>(world_->size));
    std::iota(members_.begin(), members_.end(), 0);
  }

  Result<std::unique_ptr<Team>> run(std::uint64_t epoch) {
    if (channel_ == nullptr) {
      world_->epoch = epoch;
      Status made = make_file();
      if (!made.ok()) return made;
      return Team::attach(world_, members_, 0, offset_);
    }
    Status met = introduce();
    if (!met.ok()) return met;
    Status shared = world_->rank == 0 ? offer() : accept();
    if (!shared.ok()) return shared;
    Result<std::unique_ptr<Team>> team = Team::attach(world_, members_, world_->rank, offset_);
    Status ready = team.ok() ? Status() : std::move(team).status();
    if (ready.ok()) ready = watch();
    if (ready.ok()) (*team)->lines(world_->rank).reads_peers.store(can_read_all());
    Status all = agree(std::move(ready));
    if (!all.ok()) return all;
    world_->reads_peers = true;
    for (int r = 0; r < world_->size; ++r)
      world_->reads_peers = world_->reads_peers && (*team)->lines(r).reads_peers.load();
    (*team)->set_reads_peers(world_->reads_peers);
    return team;
  }

 private:
  Status make_file() {
    Result<SharedFile> file = SharedFile::create();
    if (!file.ok()) return std::move(file).status();
    world_->file = std::move(*file);
    const Layout layout = Layout::of(world_->size, world_->slot_bytes);
    Result<std::uint64_t> place = world_->file.reserve(
        layout.total(), "its slots and rings", pieces_of(layout, world_->nodes_of(members_)));
    if (!place.ok()) return std::move(place).status();
    offset_ = *place;
    return {};
  }

  Status introduce() {
    const Introduction self = introduction(world_->memory);
    Result<std::vector<Bytes>> all = channel_->all_gather(bytes_of(self), timeout_);
    if (!all.ok()) return std::move(all).status();
    cpu_set_t cores;
    CPU_ZERO(&cores);
    for (int r = 0; r < world_->size; ++r) {
      const Bytes& told = (*all)[static_cast<std::size_t>(r)];
      Introduction& other = introductions_[r];
      if (told.size() != sizeof other)
        return make_error(StatusCode::mismatch, 0, "rank %d has another version of comm", r);
      std::memcpy(&other, told.data(), sizeof other);
      if (std::strncmp(other.machine, self.machine, sizeof self.machine) != 0)
        return make_error(StatusCode::rendezvous, 0,
                          "rank %d of %d and rank %d are on different machines: Host is for ranks "
                          "that share one; use Nccl between machines",
                          world_->rank, world_->size, r);
      world_->nodes.push_back(other.node);
      CPU_OR(&cores, &cores, &other.cores);
    }
    world_->waiting = Waiting(waiting_, world_->size, CPU_COUNT(&cores));
    world_->waiting.slow_ns = slow_wait_ns_;
    return {};
  }

  /// On rank 0. Others learn of a failure by the empty offer that they get instead.
  Status offer() {
    Status made = make_file();
    Result<HandOver> door = made.ok() ? HandOver::listen(name()) : std::move(made);
    Offer offer{};
    if (door.ok()) offer = {door->token(), offset_};
    const Status failed = door.ok() ? Status() : door.status().copy();
    Result<Bytes> told =
        channel_->broadcast(failed.ok() ? bytes_of(offer) : text_of(failed), 0, timeout_);
    if (!failed.ok()) return failed.copy();
    if (!told.ok()) return std::move(told).status();
    return door->serve(world_->file.fd(), world_->size, deadline_ns_,
                       [this] { return channel_->check(); });
  }

  Status accept() {
    Result<Bytes> told = channel_->broadcast({}, 0, timeout_);
    if (!told.ok()) return std::move(told).status();
    Offer offer{};
    if (told->size() != sizeof offer)
      return make_error(StatusCode::internal, 0, "rank 0: %s", text_of(*told).c_str());
    std::memcpy(&offer, told->data(), sizeof offer);
    Result<UniqueFd> fd = HandOver::receive(name(), offer.token, world_->rank, deadline_ns_,
                                            [this] { return channel_->check(); });
    Result<SharedFile> file = fd.ok() ? SharedFile::adopt(std::move(*fd)) : std::move(fd).status();
    if (!file.ok()) {
      channel_->notify(file.message());  // Rank 0 would wait for this rank.
      return std::move(file).status();
    }
    world_->file = std::move(*file);
    offset_ = offer.offset;
    return {};
  }

  Status watch() {
    const Introduction& self = introductions_[world_->rank];
    for (int r = 0; r < world_->size; ++r) {
      const Introduction& other = introductions_[r];
      if (other.pid == self.pid && other.process_numbers == self.process_numbers) continue;
      if (other.process_numbers != self.process_numbers) continue;
      Status watched = world_->peers.watch(r, other.pid);
      if (!watched.ok()) return watched;
    }
    return {};
  }

  bool can_read_all() {
    bool all = true;
    for (int r = 0; r < world_->size; ++r) {
      const Introduction& other = introductions_[r];
      all = all && other.process_numbers == introductions_[world_->rank].process_numbers &&
            world_->memory.admit(r, other.pid, other.sample);
    }
    return all;
  }

  /// A rank that could not attach makes all fail, with its own words.
  Status agree(Status own) {
    Result<std::vector<Bytes>> all = channel_->all_gather(text_of(own), timeout_);
    if (!own.ok()) return own;
    if (!all.ok()) return std::move(all).status();
    for (std::size_t r = 0; r < all->size(); ++r)
      if (!(*all)[r].empty())
        return make_error(StatusCode::rendezvous, 0, "rank %zu: %s", r, text_of((*all)[r]).c_str());
    return {};
  }

  std::string name() const { return "comm-host-" + channel_->session(); }

  std::shared_ptr<OutOfBand> channel_;
  Milliseconds timeout_;
  std::int64_t deadline_ns_;
  std::int64_t slow_wait_ns_;
  HostWaitPolicy waiting_;
  std::shared_ptr<World> world_;
  std::vector<int> members_;
  std::uint64_t offset_ = 0;
  Introduction introductions_[kMaxRanks];
};

}  // namespace

Result<std::unique_ptr<Team>> start(const Host::Config& config, const LaunchConfig& launch) {
  Status valid = launch.validate();
  if (!valid.ok()) return valid;
  if (launch.world_size > kMaxRanks)
    return make_error(StatusCode::unsupported, 0,
                      "Host on rank %d: %d ranks are more than the %d that it can serve; use Nccl",
                      launch.rank, launch.world_size, kMaxRanks);
  if (config.slot_bytes > std::size_t{64} * 1024 * 1024)
    return make_error(StatusCode::invalid_argument, 0,
                      "Host::Config::slot_bytes is %zu; at most 64 MiB make sense",
                      config.slot_bytes);
  const HostWaitPolicy& waiting = config.waiting;
  if (waiting.spins < 0 || waiting.spins_on_shared_core < 0 || waiting.yield.count() < 0 ||
      waiting.first_sleep.count() <= 0 || waiting.longest_sleep < waiting.first_sleep ||
      waiting.longest_sleep > HostWaitPolicy::kLongestSleep)
    return make_error(
        StatusCode::invalid_argument, 0,
        "Host::Config::waiting on rank %d: numbers of looks and times are not negative, and "
        "0 < first_sleep <= longest_sleep <= 1 s, since a peer that ends while a rank "
        "sleeps is found out after that sleep",
        launch.rank);
  if (launch.world_size == 1) return Start(config, nullptr, launch.init_timeout).run(0);
  RendezvousConfig rendezvous;
  rendezvous.launch = launch;
  rendezvous.backend = "host";
  rendezvous.backend_version = "1";
  rendezvous.fingerprint = "slot_bytes=" + std::to_string(config.slot_bytes);
  rendezvous.log = config.log;
  rendezvous.log_levels = config.log_levels;
  Result<std::unique_ptr<OutOfBand>> channel = OutOfBand::join(std::move(rendezvous));
  if (!channel.ok()) return std::move(channel).status();
  return Start(config, std::shared_ptr<OutOfBand>(std::move(*channel)), launch.init_timeout).run(0);
}

Result<std::unique_ptr<Team>> restart(const Host::Config& config, Team& broken) {
  World& old = broken.world();
  // From here on the rendezvous speaks of the ranks to come. And whoever is still busy with the old
  // team shall stop.
  old.is_superseded.store(true);
  broken.publish(
      make_error(StatusCode::unhealthy, 0, "%s reconnects", broken.name(broken.rank()).text));
  if (old.out_of_band == nullptr)
    return Start(config, nullptr, config.reconnect_timeout).run(old.epoch + 1);
  Status met = old.out_of_band->rejoin(config.reconnect_timeout);
  if (!met.ok()) return met;
  return Start(config, old.out_of_band, config.reconnect_timeout).run(0);
}

}  // namespace comm::detail::host
