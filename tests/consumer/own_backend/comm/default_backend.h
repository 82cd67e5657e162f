#pragma once

/// The backend of this workspace: SingleGpu that says by its type that it is another.

#include "comm/backends/single_gpu.h"

namespace engine {

class OwnBackend : public comm::SingleGpu {
 public:
  static constexpr comm::Result<OwnBackend> create(const Config&) { return OwnBackend(); }
  static constexpr comm::Result<OwnBackend> split(const comm::ops::Split&) { return OwnBackend(); }
  static constexpr comm::Result<OwnBackend> shrink(const comm::ops::Shrink&) {
    return OwnBackend();
  }
};

}  // namespace engine

namespace comm {

using DefaultBackend = engine::OwnBackend;

}  // namespace comm
