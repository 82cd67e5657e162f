#pragma once

/// The reduction operation of one call: NCCL's own, or a pre-multiplied sum, which is made for one
/// communicator and one type and goes when the call has returned (NCCL has taken what it needs).

#include <nccl.h>

#include "comm/data_type.h"
#include "comm/reduce_op.h"

namespace comm::detail::nccl {

class CallOp {
 public:
  /// Under the device lock, as every call into NCCL.
  CallOp(ReduceOp op, DataType type, ncclComm_t comm) noexcept;
  CallOp(const CallOp&) = delete;
  CallOp& operator=(const CallOp&) = delete;
  ~CallOp();

  ncclResult_t result() const { return result_; }
  ncclRedOp_t get() const { return op_; }

 private:
  ncclComm_t comm_;
  ncclRedOp_t op_ = ncclSum;
  ncclResult_t result_ = ncclSuccess;
  bool is_made_ = false;
};

}  // namespace comm::detail::nccl
