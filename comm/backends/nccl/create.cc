#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "comm/backends/nccl/entry.h"
#include "comm/backends/nccl/native.h"
#include "comm/kernels/sum.h"

namespace comm::detail::nccl {
namespace {

/// Where this rank computes, as the others are told.
struct Place {
  char host[128];
  char bus[32];
  std::int64_t process;
};

/// The host's name, and what no other host has even if it has the same name.
void name_host(char* host, std::size_t size) {
  char name[64] = "";
  (void)::gethostname(name, sizeof name - 1);
  char boot[40] = "";
  if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re"); file != nullptr) {
    (void)!std::fscanf(file, "%39s", boot);
    std::fclose(file);
  }
  std::snprintf(host, size, "%s %s", name, boot);
}

Status find_device(State& state) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0)
    return make_error(
        StatusCode::cuda, static_cast<int>(error),
        "create: there is no GPU to use on this machine: %s (%s). NCCL needs an NVIDIA "
        "GPU and its driver; without one use the host backend or a single rank",
        cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error),
        cudaGetErrorName(error == cudaSuccess ? cudaErrorNoDevice : error));
  const LaunchConfig& launch = *state.config.launch;
  state.device = state.config.device >= 0 ? state.config.device : launch.local_rank;
  if (state.device >= count)
    return make_error(
        StatusCode::invalid_argument, 0,
        "create: rank %d wants GPU %d, but this process sees %d; start no more ranks a "
        "host than it has GPUs, or set NcclConfig::device (CUDA_VISIBLE_DEVICES also "
        "hides GPUs)",
        launch.rank, state.device, count);
  state.lock = &DeviceLock::of_device(state.device);
  int major = 0;
  (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, state.device);
  state.reduces_float8 = major >= 9 && has_float8();
  return {};
}

/// Who is to wait for ever may give the greatest number there is, which nanoseconds cannot hold.
template <class Duration>
void limit(Duration& time) {
  time = std::min<Duration>(time, std::chrono::hours(24 * 365 * 100));
}

void limit_times(NcclConfig& config) {
  for (auto* time : {&config.collective_timeout, &config.reconnect_timeout, &config.close_timeout,
                     &config.abort_timeout, &config.slow_wait})
    limit(*time);
  for (auto* time : {&config.waiting.spin, &config.waiting.yield, &config.waiting.longest_sleep})
    limit(*time);
}

/// What must be the same on all ranks, since it decides which messages they exchange.
std::string fingerprint_of(const NcclConfig& config) {
  char text[160];
  std::snprintf(text, sizeof text, "mode=%s receive_buffer=%zu one_shot=%zu one_shot_max_ranks=%d",
                config.mode == NcclMode::blocking ? "blocking" : "non_blocking",
                config.receive_buffer_bytes, config.one_shot_bytes, config.one_shot_max_ranks);
  return text;
}

Status join(State& state) {
  RendezvousConfig rendezvous;
  rendezvous.launch = *state.config.launch;
  rendezvous.backend = "nccl";
  const int version = loaded_version();
  rendezvous.backend_version = std::to_string(version / 10000) + "." +
                               std::to_string(version / 100 % 100) + "." +
                               std::to_string(version % 100);
  rendezvous.fingerprint = fingerprint_of(state.config);
  rendezvous.log = state.config.log;
  rendezvous.log_levels = state.config.log_levels;
  Result<std::unique_ptr<OutOfBand>> channel = OutOfBand::join(std::move(rendezvous));
  if (!channel.ok()) return std::move(channel).status();
  state.channel = std::move(*channel);
  state.rank = state.channel->rank();
  state.world_size = state.channel->world_size();
  state.epoch.store(state.channel->epoch());
  state.open_log();
  return {};
}

Status bring_up(State& state, const Deadline& deadline) {
  Status done = check_places(state, deadline);
  if (done.ok()) done = state.connect(deadline);
  if (done.ok()) done = state.allocate();
  if (done.ok()) done = state.start_watchdog();
  if (done.ok()) done = state.warm_up(deadline);
  if (done.ok()) done = state.channel->barrier(deadline.remaining());
  return done;
}

}  // namespace

Status check_places(State& state, const Deadline& deadline) {
  Place mine{};
  name_host(mine.host, sizeof mine.host);
  mine.process = ::getpid();
  const cudaError_t error = cudaDeviceGetPCIBusId(mine.bus, sizeof mine.bus, state.device);
  if (error != cudaSuccess)
    return state.cuda_error(error, Operation::attempt_reconnect, "cudaDeviceGetPCIBusId");
  Result<std::vector<Bytes>> told =
      state.channel->all_gather(std::as_bytes(std::span(&mine, 1)), deadline.remaining());
  if (!told.ok()) return std::move(told).status();

  const char* shared = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (shared != nullptr && std::strcmp(shared, "1") == 0 && has_ranks_on_one_gpu()) return {};
  std::vector<Place> places(told->size());
  for (std::size_t r = 0; r < places.size(); ++r) {
    if ((*told)[r].size() != sizeof(Place))
      return make_error(StatusCode::rendezvous, 0, "rank %zu runs another version of comm", r);
    std::memcpy(&places[r], (*told)[r].data(), sizeof(Place));
  }
  for (std::size_t b = 0; b < places.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (std::strcmp(places[a].bus, places[b].bus) != 0) continue;
      if (std::strcmp(places[a].host, places[b].host) != 0) continue;
      return make_error(StatusCode::invalid_argument, 0,
                        "ranks %zu and %zu both use GPU %s of host %.63s (processes %lld and "
                        "%lld); NCCL needs one GPU for each rank: check LOCAL_RANK, "
                        "CUDA_VISIBLE_DEVICES or NcclConfig::device",
                        a, b, places[a].bus, places[a].host,
                        static_cast<long long>(places[a].process),
                        static_cast<long long>(places[b].process));
    }
  }
  return {};
}

void State::plan_detours() {
  std::size_t bytes = 0;
  if (world_size == 2) bytes = config.receive_buffer_bytes;
  if (world_size >= 3 && world_size <= config.one_shot_max_ranks) bytes = config.one_shot_bytes;
  for (int t = 0; t < kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    detour_counts[t] = kernels::has_sum(type) ? bytes / size_of(type) : 0;
    const bool is_float8 = type == DataType::f8e4m3 || type == DataType::f8e5m2;
    if (is_float8 && !reduces_float8) detour_counts[t] = SIZE_MAX;
  }
}

Status State::allocate() {
  plan_detours();
  const DeviceGuard current(device);
  int lowest = 0;
  int highest = 0;
  (void)cudaDeviceGetStreamPriorityRange(&lowest, &highest);
  const cudaError_t error = cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest);
  if (error != cudaSuccess)
    return cuda_error(error, Operation::attempt_reconnect, "cudaStreamCreateWithPriority");
  std::size_t bytes = 0;
  if (world_size == 2) bytes = config.receive_buffer_bytes;
  if (world_size >= 3 && world_size <= config.one_shot_max_ranks)
    bytes = static_cast<std::size_t>(world_size) * ((config.one_shot_bytes + 15) / 16 * 16);
  Status done;
  for (Scratch& scratch : receive)
    if (done.ok()) done = scratch.allocate(bytes);
  for (Scratch& scratch : word)
    if (done.ok()) done = scratch.allocate(sizeof(std::uint32_t));
  if (!done.ok()) return done;
  for (const Scratch& scratch : receive)
    if (scratch.memory() != nullptr)
      registrations.push_back({kOwnHandle, scratch.memory(), scratch.bytes(), nullptr});
  return register_again();
}

Status State::warm_up(const Deadline& deadline) {
  // NCCL connects when it is first used, and blocks in that: here, rather than for hours in the
  // first command a worker waits for.
  {
    Entry entry(*this, Operation::attempt_reconnect, true);
    if (!entry.ok()) return entry.take();
    const cudaError_t ordered = word[0].begin(stream, {});
    if (ordered != cudaSuccess)
      return cuda_error(ordered, Operation::attempt_reconnect, "cudaStreamWaitEvent");
    void* memory = word[0].memory();
    Status sent = entry.settle(
        ncclBroadcast(memory, memory, 1, ncclUint32, 0, entry.comm(), stream), "ncclBroadcast");
    if (!sent.ok()) return sent;
    const cudaError_t recorded = word[0].end(stream, {});
    if (recorded != cudaSuccess)
      return cuda_error(recorded, Operation::attempt_reconnect, "cudaEventRecord");
  }
  return wait_for_stream(stream, Operation::attempt_reconnect, deadline);
}

Result<std::shared_ptr<State>> create(const NcclConfig& config) {
  Status done = check_version();
  if (done.ok()) done = config.validate();
  if (!done.ok()) return done;
  if (open_groups() > 0)
    return make_error(
        StatusCode::invalid_argument, 0,
        "create: this thread has a group open, and NCCL would put the new communicator "
        "off until it ends; end the group first");
  auto state = std::make_shared<State>();
  state->config = config;
  limit_times(state->config);
  if (!config.launch.has_value()) {
    Result<LaunchConfig> launch = LaunchConfig::from_env();
    if (!launch.ok()) return std::move(launch).status();
    state->config.launch = std::move(*launch);
  }
  state->config.log_levels = levels_or_environment(
      config.log_levels.has_value() ? &*config.log_levels : nullptr, config.log);
  const Deadline deadline(state->config.launch->init_timeout);
  done = find_device(*state);
  if (done.ok()) done = join(*state);
  if (!done.ok()) {
    state->is_closed = true;
    return done;
  }
  done = state->located(bring_up(*state, deadline), Operation::attempt_reconnect);
  if (!done.ok()) {
    // The others wait for this rank: they are told why it does not come.
    if (state->is_open()) state->poison(done.copy()).ignore();
    state->close().ignore();
    return done;
  }
  state->maker.store(nullptr);
  state->say(LogLevel::info, "made on GPU %d, with NCCL %d, %s", state->device, loaded_version(),
             config.mode == NcclMode::blocking ? "blocking" : "non-blocking");
  return state;
}

}  // namespace comm::detail::nccl
