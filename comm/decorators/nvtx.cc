#include "comm/decorators/nvtx.h"

#include <nvtx3/nvToolsExt.h>

namespace comm::detail {
namespace {

/// The tool's handle of the domain: the same for all communicators, made when it is first needed.
nvtxDomainHandle_t domain() noexcept {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("comm");
  return handle;
}

}  // namespace

NvtxRange::NvtxRange(Operation operation, std::uint64_t bytes) noexcept {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = to_string(operation);
  attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  attributes.payload.ullValue = bytes;
  (void)nvtxDomainRangePushEx(domain(), &attributes);
}

NvtxRange::~NvtxRange() {
  (void)nvtxDomainRangePop(domain());
}

}  // namespace comm::detail
