#pragma once

/// NCCL is not safe for two threads on one communicator, nor for two communicators of one device.
/// An `InsideCall` says that this thread is in such a call; another thread's that meets it there is
/// reported. Abort and queries are not counted: they are what frees or watches a call that hangs.

#include <string>

namespace comm::simulated::detail {

class InsideCall {
 public:
  InsideCall(const char* call, int device);
  ~InsideCall();
  InsideCall(const InsideCall&) = delete;
  InsideCall& operator=(const InsideCall&) = delete;

 private:
  int device_;
};

}  // namespace comm::simulated::detail
