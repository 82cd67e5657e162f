#include "comm/testing/simulated/core/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace comm::simulated::detail {
namespace {

constexpr std::size_t kRemembered = 256;
constexpr std::size_t kFilled = std::size_t{64} << 20;  // Filling more would only cost time.

std::size_t page_size() {
  static const std::size_t size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

std::size_t round_up(std::size_t size, std::size_t unit) {
  return (size + unit - 1) / unit * unit;
}

void unmap(const Allocation& allocation) {
  if (allocation.mapping != 0) {
    munmap(reinterpret_cast<void*>(allocation.mapping), allocation.mapping_size);
  }
}

}  // namespace

void* Memory::allocate(std::size_t size, MemoryKind kind, int device, const char* made_by) {
  if (size > kBytesPerDevice - used_[device]) return nullptr;
  const std::size_t page = page_size();
  const std::size_t room = round_up(size, page);
  // One more page than the guards need lets the end of the allocation meet the guard page, as far
  // as the alignment that CUDA promises (256 bytes) allows.
  const std::size_t mapping_size = room + 2 * page;
  void* mapping =
      mmap(nullptr, mapping_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  char* first = static_cast<char*>(mapping) + page;
  if (mprotect(first, room, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, mapping_size);
    return nullptr;
  }
  char* begin = size >= page ? first : first + room - round_up(size, 256);
  std::memset(begin, 0xFF, std::min(size, kFilled));

  Allocation allocation;
  allocation.begin = reinterpret_cast<std::uintptr_t>(begin);
  allocation.size = size;
  allocation.kind = kind;
  allocation.device = device;
  allocation.made_by = made_by;
  allocation.mapping = reinterpret_cast<std::uintptr_t>(mapping);
  allocation.mapping_size = mapping_size;
  std::erase_if(freed_, [&](const Allocation& old) {
    return old.begin < allocation.end() && allocation.begin < old.end();
  });
  live_[allocation.begin] = allocation;
  if (allocation.on_device()) used_[device] += size;
  return begin;
}

bool Memory::register_host(void* pointer, std::size_t size, unsigned flags) {
  const Allocation* overlap = holding(pointer);
  if (overlap != nullptr && !overlap->freed) return false;
  Allocation allocation;
  allocation.begin = reinterpret_cast<std::uintptr_t>(pointer);
  allocation.size = size;
  allocation.kind = MemoryKind::registered;
  allocation.made_by = "cudaHostRegister";
  allocation.host_flags = flags;
  live_[allocation.begin] = allocation;
  return true;
}

Allocation* Memory::starting_at(const void* pointer) {
  const auto found = live_.find(reinterpret_cast<std::uintptr_t>(pointer));
  return found == live_.end() ? nullptr : &found->second;
}

const Allocation* Memory::holding(const void* pointer) const {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto after = live_.upper_bound(address);
  if (after != live_.begin()) {
    const Allocation& allocation = std::prev(after)->second;
    // The address one past the end belongs to it too: an empty span may point there.
    if (address <= allocation.end()) return &allocation;
  }
  for (const Allocation& allocation : freed_) {
    if (allocation.begin <= address && address < allocation.end()) return &allocation;
  }
  return nullptr;
}

void Memory::release(Allocation* allocation) {
  if (allocation->on_device()) used_[allocation->device] -= allocation->size;
  if (allocation->mapping != 0) {
    void* mapping = reinterpret_cast<void*>(allocation->mapping);
    // A fresh mapping in its place gives the memory back and keeps the address taken.
    mmap(mapping, allocation->mapping_size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    allocation->freed = true;
    freed_.push_back(*allocation);
    if (freed_.size() > kRemembered) {
      unmap(freed_.front());
      freed_.pop_front();
    }
  }
  live_.erase(allocation->begin);
}

std::size_t Memory::used(int device) const {
  const auto found = used_.find(device);
  return found == used_.end() ? 0 : found->second;
}

std::string describe_bad_range(const Memory& memory, const void* pointer, std::size_t size,
                               std::size_t alignment, bool needs_device) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  char text[256];
  if (pointer == nullptr) return "the pointer is null";
  if (address % alignment != 0) {
    std::snprintf(text, sizeof(text), "%p is not aligned to %zu bytes", pointer, alignment);
    return text;
  }
  const Allocation* allocation = memory.holding(pointer);
  if (allocation == nullptr) {
    if (!needs_device) return {};
    std::snprintf(text, sizeof(text), "%p is no memory that a device can access", pointer);
    return text;
  }
  const char* state = allocation->freed ? "freed memory of" : "beyond the end of";
  if (allocation->freed || size > allocation->end() - address) {
    std::snprintf(text, sizeof(text),
                  "[%p, +%zu) is %s the %zu bytes at %p (made by %s on device %d)", pointer, size,
                  state, allocation->size, reinterpret_cast<void*>(allocation->begin),
                  allocation->made_by, allocation->device);
    return text;
  }
  return {};
}

}  // namespace comm::simulated::detail
