#include "comm/testing/simulated/settings.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <string_view>

namespace comm::simulated {
namespace {

[[noreturn]] void refuse(const char* name, const char* value, const char* wanted) {
  std::fprintf(stderr, "comm-sim: %s=%s: wanted %s\n", name, value, wanted);
  std::abort();
}

template <class Number>
void read_number(const char* name, Number* number) {
  const char* text = std::getenv(name);
  if (text == nullptr) return;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, *number);
  if (error != std::errc() || stop != end) refuse(name, text, "a number");
}

// Whether the variable says `yes` (true) or `no` (false, also when it is not set).
bool read_choice(const char* name, std::string_view yes, std::string_view no) {
  const char* text = std::getenv(name);
  if (text == nullptr || text == no) return false;
  if (text == yes) return true;
  refuse(name, text, yes.data());
}

Settings from_environment() {
  Settings settings;
  const char* seed = std::getenv("COMM_SIM_SEED");
  if (seed != nullptr && std::string_view(seed) == "random") {
    settings.seed = std::random_device()();
    std::fprintf(stderr, "comm-sim: COMM_SIM_SEED=%llu\n",
                 static_cast<unsigned long long>(settings.seed));
  } else {
    read_number("COMM_SIM_SEED", &settings.seed);
  }
  const char* devices = std::getenv("COMM_SIM_DEVICES");
  if (devices != nullptr && std::string_view(devices) == "none") {
    settings.has_driver = false;
    settings.devices = 0;
  } else {
    read_number("COMM_SIM_DEVICES", &settings.devices);
  }
  read_number("COMM_SIM_MAX_HOLD_MS", &settings.max_hold_ms);
  read_number("COMM_SIM_COMPUTE_CAPABILITY", &settings.compute_capability);
  if (const char* strict = std::getenv("COMM_SIM_STRICT"); strict != nullptr) {
    const std::string_view word = strict;
    if (word == "abort") {
      settings.strict = Strict::abort;
    } else if (word == "fail") {
      settings.strict = Strict::fail;
    } else if (word != "report") {
      refuse("COMM_SIM_STRICT", strict, "report, fail or abort");
    }
  }
  settings.peer_death_is_an_error = read_choice("COMM_SIM_PEER_DEATH", "error", "silent");
  settings.serialize_communicators = !read_choice("COMM_SIM_CONCURRENT_COMMUNICATORS", "1", "0");
  settings.connect_lazily = !read_choice("NCCL_RUNTIME_CONNECT", "0", "1");
  return settings;
}

struct Store {
  std::mutex mutex;
  Settings settings = from_environment();
};

Store& store() {
  static Store& store = *new Store;
  return store;
}

// The finalizer of SplitMix64: every bit of the input reaches every bit of the output.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

Settings settings() {
  const std::lock_guard lock(store().mutex);
  return store().settings;
}

void set_settings(const Settings& settings) {
  const std::lock_guard lock(store().mutex);
  store().settings = settings;
}

namespace detail {

std::uint64_t draw(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return mix(mix(mix(mix(settings().seed) ^ a) ^ b) ^ c);
}

}  // namespace detail
}  // namespace comm::simulated
