#include "comm/rendezvous/process.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace comm::detail {
namespace {

// Of /proc files that fit; empty where there is none.
std::string read_small(const char* path) {
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return "";
  char buffer[4096];
  const std::size_t n = std::fread(buffer, 1, sizeof buffer, file);
  std::fclose(file);
  return std::string(buffer, n);
}

std::uint64_t start_time_of(long pid) {
  // The main thread's, which is the process's too; the process's own file adds up all its threads.
  const std::string id = std::to_string(pid);
  const std::string stat = read_small(("/proc/" + id + "/task/" + id + "/stat").c_str());
  // The name, in parentheses, may hold anything; the start time is the 20th field behind it.
  std::size_t at = stat.rfind(')');
  for (int field = 0; field < 20 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoull(stat.c_str() + at, nullptr, 10);
}

}  // namespace

ProcessId current_process() {
  ProcessId process;
  process.pid = static_cast<std::uint32_t>(::getpid());
  process.start_time = start_time_of(::getpid());
  struct stat info {};
  if (::stat("/proc/self/ns/pid", &info) == 0) process.pid_namespace = info.st_ino;
  std::size_t digits = 0;
  for (const char c : read_small("/proc/sys/kernel/random/boot_id")) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0 || digits >= 32) continue;
    const int value = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    process.boot[digits / 2] |= static_cast<std::byte>(digits % 2 == 0 ? value << 4 : value);
    ++digits;
  }
  return process;
}

UniqueFd watch_process(const ProcessId& process, const ProcessId& self) {
  if (process.start_time == 0 || self.pid_namespace == 0 ||
      process.pid_namespace != self.pid_namespace || process.boot != self.boot ||
      process.pid == self.pid) {
    return UniqueFd();
  }
#ifdef SYS_pidfd_open
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  // Between the hello and now the pid may have gone to another process.
  if (fd && start_time_of(static_cast<long>(process.pid)) == process.start_time) return fd;
#endif
  return UniqueFd();
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace comm::detail
