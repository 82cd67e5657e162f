#pragma once

/// `Memory` of `measure.h` for backends in host memory: page-aligned, or what peers can reach.

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "comm/device_span.h"
#include "comm/result.h"

namespace comm::perf {

struct HostMemory {
  static constexpr double kShortestSample = 20;  // us

  template <class T, class Symmetric>
  class Buffer {
   public:
    explicit Buffer(Symmetric symmetric) : symmetric_(std::move(symmetric)) {
      span_ = symmetric_.span();
    }
    explicit Buffer(std::size_t count)
        : plain_(static_cast<T*>(std::aligned_alloc(kPage, rounded(count * sizeof(T)))),
                 &std::free),
          span_(plain_.get(), count) {}

    DeviceSpan<T> span() const { return span_; }

   private:
    static constexpr std::size_t kPage = 4096;
    static std::size_t rounded(std::size_t bytes) { return (bytes / kPage + 1) * kPage; }

    std::unique_ptr<T, decltype(&std::free)> plain_{nullptr, &std::free};
    Symmetric symmetric_;
    DeviceSpan<T> span_;
  };

  template <class T>
  static Status upload(const std::vector<T>& from, DeviceSpan<T> to) {
    std::copy(from.begin(), from.end(), to.data());
    return {};
  }
  template <class T>
  static Status download(DeviceSpan<T> from, std::vector<T>& to) {
    std::copy(from.data(), from.data() + from.size(), to.begin());
    return {};
  }

  template <class T>
  static Status zero(DeviceSpan<T> span) {
    std::fill(span.data(), span.data() + span.size(), T{});
    return {};
  }

  template <class T, class Comm>
  static auto make(Comm& communicator, std::size_t count, bool symmetric) -> Result<
      Buffer<T, std::remove_cvref_t<decltype(*communicator.template symmetric_buffer<T>(1))>>> {
    using Symmetric = std::remove_cvref_t<decltype(*communicator.template symmetric_buffer<T>(1))>;
    using Made = Buffer<T, Symmetric>;
    if (!symmetric) {
      Made made(count);
      if (made.span().data() == nullptr) {
        return make_error(StatusCode::internal, 0, "comm_perf: no memory for %zu elements", count);
      }
      std::fill(made.span().data(), made.span().data() + count, T{});
      return made;
    }
    auto made = communicator.template symmetric_buffer<T>(count);
    if (!made.ok()) return std::move(made).status();
    return Made(std::move(*made));
  }
};

}  // namespace comm::perf
