#pragma once

/// The one place that knows which version of NCCL brought what. Each call that is younger than the
/// oldest supported version (2.18) has a wrapper here, which is there whatever the header; where the
/// header lacks the call the wrapper answers `ncclInvalidUsage` and its `has_` function is false.
/// Nobody else asks for NCCL_VERSION_CODE.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>

#include "comm/data_type.h"
#include "comm/reduce_op.h"

#if NCCL_VERSION_CODE < 21800
#error "comm needs NCCL 2.18 or later: set NCCL_HOME to one"
#endif

namespace comm::detail::nccl {

/// The version of the library that is loaded, as NCCL_VERSION_CODE; 0 if it does not say.
int loaded_version() noexcept;

/// Known to the header and to the library that is loaded.
inline bool reaches(int since) noexcept {
  return NCCL_VERSION_CODE >= since && loaded_version() >= since;
}

inline bool has_registration() noexcept {
  return reaches(21903);
}
inline bool has_float8() noexcept {
  return reaches(22403);
}
inline bool has_windows() noexcept {
  return reaches(22703);
}
inline bool has_shrink() noexcept {
  return reaches(22703);
}
inline bool has_native_all_to_all() noexcept {
  return reaches(22803);
}  // Gather, Scatter too.
inline bool has_ranks_on_one_gpu() noexcept {
  return reaches(23003);
}

ncclResult_t mem_alloc(void** memory, std::size_t bytes) noexcept;
ncclResult_t mem_free(void* memory) noexcept;
ncclResult_t register_buffer(ncclComm_t comm, void* buffer, std::size_t bytes,
                             void** handle) noexcept;
ncclResult_t deregister_buffer(ncclComm_t comm, void* handle) noexcept;

/// A window, or nullptr: also with `ncclSuccess`, where the GPUs have no symmetric memory.
ncclResult_t window_register(ncclComm_t comm, void* buffer, std::size_t bytes,
                             void** window) noexcept;
ncclResult_t window_deregister(ncclComm_t comm, void* window) noexcept;

ncclResult_t shrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* made,
                    ncclConfig_t* config, bool abort_parent) noexcept;

ncclResult_t all_to_all(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                        ncclComm_t comm, cudaStream_t stream) noexcept;
ncclResult_t gather(const void* send, void* recv, std::size_t count, ncclDataType_t type, int root,
                    ncclComm_t comm, cudaStream_t stream) noexcept;
ncclResult_t scatter(const void* send, void* recv, std::size_t count, ncclDataType_t type, int root,
                     ncclComm_t comm, cudaStream_t stream) noexcept;

/// By the number of `DataType`. Float8 has its number even where the header does not spell it.
inline constexpr std::uint8_t kNativeTypes[kDataTypeCount] = {
    ncclInt8,    ncclUint8,    ncclInt32,   ncclUint32,  ncclInt64, ncclUint64,
    ncclFloat16, ncclBfloat16, ncclFloat32, ncclFloat64, 10,        11,
};

constexpr ncclDataType_t native(DataType type) {
  return static_cast<ncclDataType_t>(kNativeTypes[static_cast<int>(type)]);
}

/// Float8 can be moved by any NCCL: as bytes.
constexpr ncclDataType_t native_to_move(DataType type) {
  return size_of(type) == 1 ? ncclUint8 : native(type);
}

inline constexpr std::uint8_t kNativeOps[] = {ncclSum, ncclProd, ncclMin,
                                              ncclMax, ncclAvg,  ncclSum};

/// Of every kind but `premul_sum`, which needs one made for it.
constexpr ncclRedOp_t native(ReduceOp op) {
  return static_cast<ncclRedOp_t>(kNativeOps[static_cast<int>(op.kind())]);
}

/// "ncclSystemError"; also of results that this header does not know.
const char* name_of(ncclResult_t result) noexcept;

}  // namespace comm::detail::nccl
