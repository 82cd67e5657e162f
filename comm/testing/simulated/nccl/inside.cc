#include "comm/testing/simulated/nccl/inside.h"

#include <array>
#include <mutex>
#include <thread>

#include "comm/testing/simulated/report.h"

namespace comm::simulated::detail {
namespace {

struct Occupant {
  std::thread::id thread;
  const char* call = "";
  int depth = 0;
};

struct Occupants {
  std::mutex mutex;
  std::array<Occupant, 64> of_device;
};

// How deep this thread is in calls: only the outermost one speaks.
int& own_depth() {
  thread_local int depth = 0;
  return depth;
}

Occupants& occupants() {
  static Occupants& occupants = *new Occupants;
  return occupants;
}

}  // namespace

InsideCall::InsideCall(const char* call, int device) : device_(device) {
  const char* other = nullptr;
  {
    const std::lock_guard lock(occupants().mutex);
    Occupant& here = occupants().of_device[static_cast<std::size_t>(device)];
    if (here.depth > 0 && here.thread != std::this_thread::get_id()) {
      other = here.call;
    } else {
      here.thread = std::this_thread::get_id();
      here.call = call;
    }
    ++here.depth;
  }
  if (++own_depth() > 1 || other == nullptr) return;
  report(Violation::bad_usage,
         "%s on one thread while another is in %s on device %d: NCCL is not thread-safe on one "
         "communicator, nor on several of one device",
         call, other, device);
}

InsideCall::~InsideCall() {
  --own_depth();
  const std::lock_guard lock(occupants().mutex);
  --occupants().of_device[static_cast<std::size_t>(device_)].depth;
}

}  // namespace comm::simulated::detail
