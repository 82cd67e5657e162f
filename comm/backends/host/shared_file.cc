#include "comm/backends/host/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace comm::detail::host {

namespace {

// Of huge pages: a region that starts at one can be made of them.
constexpr std::size_t kUnit = 2 * 1024 * 1024;
constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 45;

/// A number from a file of the kernel's, in which it follows `key`; `otherwise` where there is none.
std::uint64_t read_number(const char* path, const char* key, std::uint64_t otherwise) {
  char text[4096];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return otherwise;
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return otherwise;
  text[n] = '\0';
  const char* at = std::strstr(text, key);
  unsigned long long value = 0;
  if (at == nullptr || std::sscanf(at + std::strlen(key), "%llu", &value) != 1) return otherwise;
  return value;
}

/// What can be claimed without the kernel ending some process for lack of memory.
std::uint64_t available_memory() {
  std::uint64_t available = ~std::uint64_t{0};
  const std::uint64_t kilobytes = read_number("/proc/meminfo", "MemAvailable:", 0);
  if (kilobytes != 0) available = kilobytes * 1024;
  const std::uint64_t most = read_number("/sys/fs/cgroup/memory.max", "", ~std::uint64_t{0});
  const std::uint64_t used = read_number("/sys/fs/cgroup/memory.current", "", 0);
  return std::min(available, most > used ? most - used : 0);
}

Status no_memory(std::size_t bytes, const char* purpose, const char* why, int native_code) {
  return make_error(StatusCode::internal, native_code,
                    "Host cannot reserve %zu bytes of shared memory (memfd) for %s: %s", bytes,
                    purpose, why);
}

}  // namespace

Mapping::~Mapping() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

Result<SharedFile> SharedFile::create() {
  UniqueFd fd(memfd_create("comm", MFD_CLOEXEC));
  if (!fd)
    return make_error(StatusCode::internal, errno,
                      "Host cannot make shared memory: memfd_create failed: %s",
                      std::strerror(errno));
  // Growing past the limit on file sizes would raise a signal: stay below it from the start.
  rlimit limit{};
  std::uint64_t size = kLargestFile;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    size = std::min<std::uint64_t>(size, limit.rlim_cur);
  if (size < kUnit)
    return no_memory(kUnit, "its head", "the limit on file sizes (ulimit -f) is below that", EFBIG);
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    return no_memory(kPage, "its head", std::strerror(errno), errno);
  if (fallocate(fd.get(), 0, 0, kPage) != 0)
    return no_memory(kPage, "its head", std::strerror(errno), errno);
  Result<SharedFile> file = adopt(std::move(fd));
  if (file.ok()) file->head().end.store(kUnit, std::memory_order_release);
  return file;
}

Result<SharedFile> SharedFile::adopt(UniqueFd fd) {
  SharedFile file;
  file.fd_ = std::move(fd);
  Result<Mapping> head = file.map(0, kPage);
  if (!head.ok()) return std::move(head).status();
  file.head_ = std::move(*head);
  return file;
}

Result<std::uint64_t> SharedFile::reserve(std::size_t bytes, const char* purpose,
                                          std::span<const Piece> pieces) {
  if (bytes > kLargestFile) return no_memory(bytes, purpose, "more than a file can hold", EFBIG);
  bytes = round_up(bytes, kPage);
  if (const std::uint64_t available = available_memory(); bytes > available) {
    char why[128];
    std::snprintf(why, sizeof why,
                  "only %llu bytes are available on this machine or in this container",
                  static_cast<unsigned long long>(available));
    return no_memory(bytes, purpose, why, ENOMEM);
  }
  const std::uint64_t offset = head().end.fetch_add(round_up(bytes, kUnit));
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return no_memory(bytes, purpose, std::strerror(errno), errno);
  if (offset + bytes > static_cast<std::uint64_t>(info.st_size))
    return no_memory(bytes, purpose, "the limit on file sizes (ulimit -f) is below that", EFBIG);

  // Pages that are faulted in may be huge ones; those that fallocate adds are not. Where the kernel
  // cannot fault in on demand (before 5.14), fallocate it is.
  Result<Mapping> mapping = map(offset, bytes);
  if (!mapping.ok()) return std::move(mapping).status();
  for (const Piece& piece : pieces) {
    prefer_node(mapping->base() + piece.offset, piece.bytes, piece.node);
    // One huge page would have to hold pieces of several nodes.
    if (piece.bytes < kUnit) madvise(mapping->base() + piece.offset, piece.bytes, MADV_NOHUGEPAGE);
  }
  int error = EINVAL;
#if defined(MADV_POPULATE_WRITE)
  error = madvise(mapping->base(), bytes, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
#endif
  if (error == EINVAL)
    error = fallocate(fd_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0
                ? 0
                : errno;
  if (error != 0) {
    discard(offset, bytes);
    return no_memory(bytes, purpose, std::strerror(error), error);
  }
  return offset;
}

void SharedFile::discard(std::uint64_t offset, std::size_t bytes) noexcept {
  const int done =
      fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(round_up(bytes, kPage)));
  static_cast<void>(done);  // The memory then stays until the last user is gone.
}

Result<Mapping> SharedFile::map(std::uint64_t offset, std::size_t bytes, bool may_be_huge) const {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(),
                    static_cast<off_t>(offset));
  if (base == MAP_FAILED)
    return make_error(StatusCode::internal, errno, "Host cannot map %zu bytes of shared memory: %s",
                      bytes, std::strerror(errno));
  if (may_be_huge)
    madvise(base, bytes, MADV_HUGEPAGE);  // As advice: nothing is lost where it is not taken.
  return Mapping(static_cast<std::byte*>(base), bytes);
}

}  // namespace comm::detail::host
