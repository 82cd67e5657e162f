#include "comm/testing/simulated/nccl/configuration.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "comm/testing/simulated/nccl/link.h"
#include "comm/testing/simulated/nccl/version.h"

namespace comm::simulated::detail {
namespace {

constexpr unsigned kConfigMagic = 0xcafebeef;

ncclResult_t refuse(const char* field, int value) {
  set_last_error("Invalid config %s attribute value %d", field, value);
  return ncclInvalidArgument;
}

}  // namespace

ncclResult_t read_configuration(const ncclConfig_t* config, const ncclComm* parent,
                                Configuration* options) {
  if (parent != nullptr && config == nullptr) {
    options->blocking = parent->blocking;
    options->share = parent->share;
  }
  if (config != nullptr) {
    if (config->magic != kConfigMagic) {
      set_last_error("ncclConfig_t was not made from NCCL_CONFIG_INITIALIZER");
      return ncclInvalidArgument;
    }
    constexpr int kUndefined = NCCL_CONFIG_UNDEF_INT;
    if (config->blocking != kUndefined && config->blocking != 0 && config->blocking != 1) {
      return refuse("blocking", config->blocking);
    }
    if (config->cgaClusterSize != kUndefined && config->cgaClusterSize < 0) {
      return refuse("cgaClusterSize", config->cgaClusterSize);
    }
    // As NCCL compares: an undefined maxCTAs is INT_MIN, so minCTAs alone is refused.
    if (config->minCTAs != kUndefined &&
        (config->minCTAs <= 0 || config->minCTAs > config->maxCTAs)) {
      return refuse("min/max cga", config->minCTAs);
    }
    if (config->maxCTAs != kUndefined && config->maxCTAs <= 0) {
      return refuse("min/max cga", config->maxCTAs);
    }
    if (config->splitShare != kUndefined && config->splitShare != 0 && config->splitShare != 1) {
      return refuse("splitShare", config->splitShare);
    }
    options->blocking = config->blocking != 0;
    options->share = config->splitShare == 1;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    options->share = options->share || config->shrinkShare == 1;
#endif
  }
  const char* forced = std::getenv("NCCL_COMM_BLOCKING");
  if (forced != nullptr) options->blocking = std::strcmp(forced, "0") != 0;
  return ncclSuccess;
}

CommPtr make_communicator(int size, int rank, int device, std::uint64_t number,
                          const Configuration& options) {
  const CommPtr comm = std::make_shared<ncclComm>();
  comm->device = device;
  comm->blocking = options.blocking;
  comm->share = options.share;
  comm->endpoint = Endpoint::make();
  set_place(*comm, size, rank, number);
  const std::weak_ptr<ncclComm> weak = comm;
  comm->endpoint->on_arrival([weak](const Message& message) {
    if (const CommPtr here = weak.lock()) message_arrived(*here, message);
  });
  return adopt(comm);
}

void set_place(ncclComm& comm, int size, int rank, std::uint64_t number) {
  comm.rank = rank;
  comm.size = size;
  comm.number = number;
  char name[48];
  std::snprintf(name, sizeof(name), "communicator %04llx",
                static_cast<unsigned long long>(number & 0xffff));
  comm.name = name;
  comm.sends.assign(static_cast<std::size_t>(size), 0);
  comm.receives.assign(static_cast<std::size_t>(size), 0);
}

Address address_of(const ncclComm& comm) {
  Address address;
  address.process = process_token();
  address.endpoint = comm.endpoint->id();
  address.pid = getpid();
  address.device = comm.device;
  address.bus_id = comm.device + 1;
  address.version = nccl_version();
  return address;
}

}  // namespace comm::simulated::detail
