#include "comm/testing/simulated/nccl/bootstrap.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "comm/testing/simulated/nccl/link.h"
#include "comm/testing/simulated/report.h"

namespace comm::simulated::detail {
namespace {

constexpr char kIdMagic[8] = {'c', 'o', 'm', 'm', '-', 's', 'i', 'm'};

struct Greeting {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint64_t ids_digest = 0;
  Address address;
};

struct Root {
  pid_t pid = 0;  // A child made by fork has a copy of the table, and no part in the service.
  int listener = -1;
  int users = 0;
};

struct Roots {
  std::mutex mutex;
  std::map<std::uint64_t, Root> by_number;
};

Roots& roots() {
  static Roots& roots = *new Roots;
  return roots;
}

std::string socket_name(std::uint64_t number) {
  char name[64];
  std::snprintf(name, sizeof(name), "comm-sim-root-%016llx",
                static_cast<unsigned long long>(number));
  return name;
}

// Why a greeting ends the root's service, or null.
const char* objection(const Greeting& greeting, const std::vector<int>& descriptors,
                      const Greeting& first) {
  if (greeting.size != first.size) return "world sizes differ";
  if (greeting.ids_digest != first.ids_digest) return "the lists of unique ids differ";
  if (greeting.rank < 0 || greeting.rank >= greeting.size) return "no such rank";
  if (descriptors[static_cast<std::size_t>(greeting.rank)] != -1) return "that rank was taken";
  return nullptr;
}

void serve(int listener, std::uint64_t number) {
  std::vector<int> descriptors;
  std::vector<Address> addresses;
  Greeting first;
  int missing = -1;
  bool gave_up = false;
  while (missing != 0) {
    const int descriptor = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor < 0) break;
    Greeting greeting;
    if (!read_all(descriptor, &greeting, sizeof(greeting))) {
      close(descriptor);
      continue;
    }
    if (missing == -1) {
      first = greeting;
      missing = greeting.size;
      descriptors.assign(static_cast<std::size_t>(greeting.size), -1);
      addresses.resize(descriptors.size());
    }
    const char* why = gave_up ? nullptr : objection(greeting, descriptors, first);
    if (why != nullptr) {
      gave_up = true;
      report(Violation::mismatch,
             "ncclCommInitRank: rank %d of %d (pid %d) and rank %d of %d (pid %d) with one unique "
             "id %016llx: %s",
             greeting.rank, greeting.size, greeting.address.pid, first.rank, first.size,
             first.address.pid, static_cast<unsigned long long>(number), why);
    }
    if (gave_up) continue;  // All of them wait for ever; the descriptor stays open.
    const std::size_t rank = static_cast<std::size_t>(greeting.rank);
    descriptors[rank] = descriptor;
    addresses[rank] = greeting.address;
    --missing;
  }
  {
    const std::lock_guard lock(roots().mutex);
    roots().by_number.erase(number);
    close(listener);
  }
  for (int descriptor : descriptors) {
    if (descriptor == -1) continue;
    if (missing == 0) write_all(descriptor, addresses.data(), addresses.size() * sizeof(Address));
    close(descriptor);
  }
}

}  // namespace

ncclResult_t make_unique_id(ncclUniqueId* id) {
  std::random_device random;
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  const int listener = listen_on(socket_name(number));
  if (listener == -1) return ncclSystemError;
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->internal, kIdMagic, sizeof(kIdMagic));
  std::memcpy(id->internal + sizeof(kIdMagic), &number, sizeof(number));
  {
    const std::lock_guard lock(roots().mutex);
    roots().by_number[number] = {getpid(), listener, 0};
  }
  std::thread(serve, listener, number).detach();
  return ncclSuccess;
}

void retain_root(std::uint64_t number) {
  const std::lock_guard lock(roots().mutex);
  const auto found = roots().by_number.find(number);
  if (found != roots().by_number.end()) ++found->second.users;
}

void release_root(std::uint64_t number) {
  const std::lock_guard lock(roots().mutex);
  const auto found = roots().by_number.find(number);
  if (found == roots().by_number.end() || found->second.pid != getpid()) return;
  if (--found->second.users == 0) shutdown(found->second.listener, SHUT_RDWR);
}

std::uint64_t number_of(const ncclUniqueId& id) {
  if (std::memcmp(id.internal, kIdMagic, sizeof(kIdMagic)) != 0) return 0;
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal + sizeof(kIdMagic), sizeof(number));
  return number;
}

ncclResult_t meet(const ncclUniqueId& id, int size, int rank, const Address& mine,
                  std::uint64_t ids_digest, const std::function<bool()>& stopped,
                  std::vector<Address>* addresses) {
  const std::uint64_t number = number_of(id);
  if (number == 0) return ncclInvalidArgument;
  const int descriptor = connect_to(socket_name(number));
  if (descriptor == -1) return ncclRemoteError;  // Its root is gone: the id was used already.
  Greeting greeting;
  greeting.rank = rank;
  greeting.size = size;
  greeting.ids_digest = ids_digest;
  greeting.address = mine;
  ncclResult_t result = ncclRemoteError;
  if (write_all(descriptor, &greeting, sizeof(greeting))) {
    pollfd wait{descriptor, POLLIN, 0};
    while (!stopped() && poll(&wait, 1, 5) == 0) {
    }
    addresses->resize(static_cast<std::size_t>(size));
    if (stopped()) {
      result = ncclInternalError;
    } else if (read_all(descriptor, addresses->data(), addresses->size() * sizeof(Address))) {
      result = ncclSuccess;
    }
  }
  close(descriptor);
  return result;
}

}  // namespace comm::simulated::detail
