#pragma once

/// `DeviceSpan<T>` is a pointer and a count of elements in memory that the host may not be able to
/// read: it names memory and never dereferences it, so unlike `std::span` it has no `operator[]`.
/// It owns nothing. `DeviceSpan<std::byte>` is the untyped form.
///
///     comm::DeviceSpan activations(device_pointer, count);
///     comm::DeviceSpan whole(vector);                            // anything with data() and size()
///     auto raw = comm::DeviceSpan<float>::at(cu_device_ptr, count);  // a CUdeviceptr

#include <cstddef>
#include <type_traits>

#include "comm/element.h"

namespace comm {

template <class T>
class DeviceSpan {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;

  constexpr DeviceSpan() = default;
  constexpr DeviceSpan(T* data, std::size_t size) : data_(data), size_(size) {}

  template <class U>
    requires(!std::same_as<U, T> && std::is_convertible_v<U (*)[], T (*)[]>)
  constexpr DeviceSpan(DeviceSpan<U> other) : data_(other.data()), size_(other.size()) {}  // NOLINT

  /// From a contiguous range that outlives this span, such as `std::span` or `std::vector`.
  template <class Range>
    requires requires(Range& r) {
      { r.size() } -> std::convertible_to<std::size_t>;
      requires std::is_convertible_v < std::remove_pointer_t<decltype(r.data())>(*)
      [], T(*)[] > ;
    } &&(!requires {
      typename std::remove_cvref_t<Range>::comm_device_span;
    }) constexpr DeviceSpan(Range&& range)  // NOLINT: a range is a span, as in std
        : data_(range.data()), size_(range.size()) {
    }

    /// From a driver API address (`CUdeviceptr`).
    static DeviceSpan at(unsigned long long address, std::size_t size) {
      return {reinterpret_cast<T*>(address), size};
    }

    constexpr T* data() const {
      return data_;
    }
    constexpr std::size_t size() const {
      return size_;
    }
    constexpr std::size_t size_bytes() const {
      return size_ * sizeof(T);
    }
    constexpr bool empty() const {
      return size_ == 0;
    }

    /// `count` elements from `offset`. Unchecked, as `std::span::subspan`.
    constexpr DeviceSpan subspan(std::size_t offset, std::size_t count) const {
      return {size_ == 0 ? data_ : data_ + offset, count};
    }
    constexpr DeviceSpan first(std::size_t count) const {
      return {data_, count};
    }

    using comm_device_span = void;

   private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

template <class T>
DeviceSpan(T*, std::size_t) -> DeviceSpan<T>;

template <class Range>
DeviceSpan(Range&& range) -> DeviceSpan<std::remove_pointer_t<decltype(range.data())>>;

}  // namespace comm
