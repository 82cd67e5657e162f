// Large data is fetched from the memory of its owner, where the kernel lets it; where it does not, or
// stops to, results are the same.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstring>

#include "tests/host/ranks.h"

namespace {

using comm::DeviceSpan;
using ranks::HostCommunicator;
using ranks::Processes;
using ranks::Watchdog;

// Odd, and such that a block of it is fetched and does not fit into a ring.
constexpr std::size_t kCount = 150'001;

/// From here on this process may not read others.
bool forbid_reading() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof filter / sizeof *filter, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Block `block` of what `rank` gives; an odd address.
struct Data {
  explicit Data(std::size_t n) : bytes(n + 1) {}
  DeviceSpan<std::uint8_t> span() { return {bytes.data() + 1, bytes.size() - 1}; }
  std::uint8_t* begin() { return bytes.data() + 1; }
  std::vector<std::uint8_t> bytes;
};

std::uint8_t value(int rank, int block, std::size_t i) {
  return static_cast<std::uint8_t>(static_cast<std::size_t>(rank * 31 + block * 7) + i * 13);
}

void fill(std::uint8_t* at, int rank, int block) {
  for (std::size_t i = 0; i < kCount; ++i) at[i] = value(rank, block, i);
}

bool is(const std::uint8_t* at, int rank, int block) {
  for (std::size_t i = 0; i < kCount; ++i)
    if (at[i] != value(rank, block, i)) return false;
  return true;
}

/// Every operation that moves, with the buffers overwritten as soon as it returns. 0, or which one
/// went wrong.
int move_everything(HostCommunicator& c) {
  const int n = c.world_size();
  const auto all = static_cast<std::size_t>(n) * kCount;
  const int next = (c.rank() + 1) % n;
  const int before = (c.rank() + n - 1) % n;
  const auto block = [](Data& d, int r) {
    return d.begin() + static_cast<std::size_t>(r) * kCount;
  };
  Data one(kCount);
  Data many(all);
  Data got(all);
  const auto reset = [&] {
    fill(one.begin(), c.rank(), 0);
    for (int r = 0; r < n; ++r) fill(block(many, r), c.rank(), r);
    std::memset(got.begin(), 0xff, all);
  };

  reset();
  if (!c.all_gather(one.span(), got.span()).ok()) return 11;
  std::memset(one.begin(), 0, kCount);
  for (int r = 0; r < n; ++r)
    if (!is(block(got, r), r, 0)) return 12;

  reset();
  fill(block(got, c.rank()), c.rank(), 0);  // In place.
  if (!c.all_gather(DeviceSpan(block(got, c.rank()), kCount), got.span()).ok()) return 13;
  for (int r = 0; r < n; ++r)
    if (!is(block(got, r), r, 0)) return 14;

  for (int root = 0; root < n; ++root) {
    reset();
    if (!c.broadcast(one.span(), root).ok()) return 21;
    if (!is(one.begin(), root, 0)) return 22;

    reset();
    if (!c.gather(one.span(), got.span(), root).ok()) return 31;
    std::memset(one.begin(), 0, kCount);
    for (int r = 0; c.rank() == root && r < n; ++r)
      if (!is(block(got, r), r, 0)) return 32;

    reset();
    if (!c.scatter(many.span(), one.span(), root).ok()) return 41;
    std::memset(many.begin(), 0, all);
    if (!is(one.begin(), root, c.rank())) return 42;
  }

  reset();
  if (!c.all_to_all(many.span(), got.span()).ok()) return 51;
  std::memset(many.begin(), 0, all);
  for (int r = 0; r < n; ++r)
    if (!is(block(got, r), r, c.rank())) return 52;

  for (int i = 0; i < 3; ++i) {  // More than one message a ring.
    reset();
    if (!c.send_recv(one.span(), next, DeviceSpan(got.begin(), kCount), before).ok()) return 61;
    std::memset(one.begin(), 0, kCount);
    if (!is(got.begin(), before, 0)) return 62;
  }

  reset();
  {
    auto group = c.group();
    for (int r = 0; r < n; ++r) {
      if (!c.send_to(DeviceSpan(block(many, r), kCount), r).ok()) return 71;
      if (!c.recv_from(DeviceSpan(block(got, r), kCount), r).ok()) return 72;
    }
    if (!group.end().ok()) return 73;
  }
  for (int r = 0; r < n; ++r)
    if (!is(block(got, r), r, c.rank())) return 74;
  return 0;
}

void check_all(Processes& processes, int size) {
  for (int r = 0; r < size; ++r) CHECK(processes.wait_for(r) == 0);
}

}  // namespace

TEST_CASE("processes move large data, which may be overwritten as soon as an operation returns") {
  for (const int size : {2, 3}) {
    const Watchdog watchdog("move");
    Processes processes(size, [](HostCommunicator& c) { return move_everything(c); });
    check_all(processes, size);
  }
}

TEST_CASE("threads move large data") {
  const Watchdog watchdog("move, threads");
  ranks::as_threads(3, [](HostCommunicator& c, ranks::Failures& failures) {
    if (const int wrong = move_everything(c); wrong != 0) failures.add(std::to_string(wrong));
  });
}

TEST_CASE("where one rank may not read the others, all go through shared memory") {
  const Watchdog watchdog("forbidden from the start");
  Processes processes(
      3, [](HostCommunicator& c) { return move_everything(c); },
      [](comm::Host::Config& config) {
        if (config.launch->rank == 1 && !forbid_reading()) _exit(90);
      });
  check_all(processes, 3);
}

TEST_CASE("where a rank cannot read the others any more, results are the same") {
  const Watchdog watchdog("forbidden later");
  Processes processes(3, [](HostCommunicator& c) {
    if (const int wrong = move_everything(c); wrong != 0) return wrong;
    if (c.rank() == 1 && !forbid_reading()) return 90;
    const int wrong = move_everything(c);
    return wrong != 0 ? wrong : move_everything(c);
  });
  check_all(processes, 3);
}

TEST_CASE("messages come through the ring where they cannot be fetched") {
  const Watchdog watchdog("messages, forbidden later");
  Processes processes(2, [](HostCommunicator& c) {
    if (c.rank() == 1 && !forbid_reading()) return 90;
    for (int i = 0; i < 5; ++i) {
      Data out(kCount);
      Data in(kCount);
      fill(out.begin(), c.rank(), i);
      const int other = 1 - c.rank();
      if (!c.send_recv(out.span(), other, in.span(), other).ok()) return 1;
      if (!is(in.begin(), other, i)) return 2;
      std::uint8_t small = static_cast<std::uint8_t>(c.rank());
      std::uint8_t theirs = 9;
      if (!c.send_recv(DeviceSpan(&small, 1), other, DeviceSpan(&theirs, 1), other).ok() ||
          theirs != other)
        return 3;
    }
    return 0;
  });
  check_all(processes, 2);
}
