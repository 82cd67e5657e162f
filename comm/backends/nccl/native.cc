#include "comm/backends/nccl/native.h"

namespace comm::detail::nccl {
namespace {

/// Stands where this header has no such call; the `has_` functions keep it from being reached.
template <class... Arguments>
[[maybe_unused]] ncclResult_t not_in_this_header(const Arguments&...) {
  return ncclInvalidUsage;
}

}  // namespace

int loaded_version() noexcept {
  static const int version = [] {
    int found = 0;
    return ncclGetVersion(&found) == ncclSuccess ? found : 0;
  }();
  return version;
}

ncclResult_t mem_alloc(void** memory, std::size_t bytes) noexcept {
#if NCCL_VERSION_CODE >= 21903
  return ncclMemAlloc(memory, bytes);
#else
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
#endif
}

ncclResult_t mem_free(void* memory) noexcept {
#if NCCL_VERSION_CODE >= 21903
  return ncclMemFree(memory);
#else
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
#endif
}

ncclResult_t register_buffer(ncclComm_t comm, void* buffer, std::size_t bytes,
                             void** handle) noexcept {
#if NCCL_VERSION_CODE >= 21903
  return ncclCommRegister(comm, buffer, bytes, handle);
#else
  return not_in_this_header(comm, buffer, bytes, handle);
#endif
}

ncclResult_t deregister_buffer(ncclComm_t comm, void* handle) noexcept {
#if NCCL_VERSION_CODE >= 21903
  return ncclCommDeregister(comm, handle);
#else
  return not_in_this_header(comm, handle);
#endif
}

ncclResult_t window_register(ncclComm_t comm, void* buffer, std::size_t bytes,
                             void** window) noexcept {
#if NCCL_VERSION_CODE >= 22703
  return ncclCommWindowRegister(comm, buffer, bytes, reinterpret_cast<ncclWindow_t*>(window),
                                NCCL_WIN_COLL_SYMMETRIC);
#else
  return not_in_this_header(comm, buffer, bytes, window);
#endif
}

ncclResult_t window_deregister(ncclComm_t comm, void* window) noexcept {
#if NCCL_VERSION_CODE >= 22703
  return ncclCommWindowDeregister(comm, static_cast<ncclWindow_t>(window));
#else
  return not_in_this_header(comm, window);
#endif
}

ncclResult_t shrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* made,
                    ncclConfig_t* config, bool abort_parent) noexcept {
#if NCCL_VERSION_CODE >= 22703
  return ncclCommShrink(comm, excluded, count, made, config,
                        abort_parent ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT);
#else
  return not_in_this_header(comm, excluded, count, made, config, abort_parent);
#endif
}

ncclResult_t all_to_all(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                        ncclComm_t comm, cudaStream_t stream) noexcept {
#if NCCL_VERSION_CODE >= 22803
  return ncclAlltoAll(send, recv, count, type, comm, stream);
#else
  return not_in_this_header(send, recv, count, type, comm, stream);
#endif
}

ncclResult_t gather(const void* send, void* recv, std::size_t count, ncclDataType_t type, int root,
                    ncclComm_t comm, cudaStream_t stream) noexcept {
#if NCCL_VERSION_CODE >= 22803
  return ncclGather(send, recv, count, type, root, comm, stream);
#else
  return not_in_this_header(send, recv, count, type, root, comm, stream);
#endif
}

ncclResult_t scatter(const void* send, void* recv, std::size_t count, ncclDataType_t type, int root,
                     ncclComm_t comm, cudaStream_t stream) noexcept {
#if NCCL_VERSION_CODE >= 22803
  return ncclScatter(send, recv, count, type, root, comm, stream);
#else
  return not_in_this_header(send, recv, count, type, root, comm, stream);
#endif
}

const char* name_of(ncclResult_t result) noexcept {
  switch (static_cast<int>(result)) {
    case 0: return "ncclSuccess";
    case 1: return "ncclUnhandledCudaError";
    case 2: return "ncclSystemError";
    case 3: return "ncclInternalError";
    case 4: return "ncclInvalidArgument";
    case 5: return "ncclInvalidUsage";
    case 6: return "ncclRemoteError";
    case 7: return "ncclInProgress";
    case 8: return "ncclTimeout";
    default: return "a result that comm does not know";
  }
}

}  // namespace comm::detail::nccl
