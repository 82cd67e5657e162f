#pragma once

/// `Face<B>` is what the typed operations of `Communicator<B>` have in common: the backend, the
/// argument check that is compiled only where data moves, and the choice of the span that holds a
/// result. Not for use outside `communicator.h`.

#include <type_traits>
#include <utility>

#include "comm/argument_check.h"
#include "comm/backend.h"
#include "comm/device_span.h"

namespace comm {

/// May be received into.
template <class T>
concept Receivable = Transportable<T> && Writable<T>;

/// May be reduced where it lies.
template <class T>
concept ReducibleInPlace = Reducible<T> && Writable<T>;

/// Counts of blocks need a unit that the backend knows: an element type, or bytes.
template <class T>
concept Countable = Reducible<T> ||(Transportable<T> && sizeof(T) == 1);

namespace detail {

/// What a backend is told of a span of `T`: elements where `T` is one, bytes otherwise.
template <class T>
inline constexpr DataType moved_type =
    is_element<std::remove_cv_t<T>> ? element_type<std::remove_cv_t<T>> : DataType::u8;

template <class T>
constexpr std::size_t moved_count(DeviceSpan<T> span) {
  return is_element<std::remove_cv_t<T>> ? span.size() : span.size_bytes();
}

/// `S` is `T` or `const T`: the contribution of an operation whose result is of `T`.
template <class S, class T>
concept SendOf = Writable<T> && std::same_as<std::remove_const_t<S>, T>;

template <Backend B>
class Face {
 protected:
  constexpr explicit Face(B backend) noexcept : backend_(std::move(backend)) {}

  template <class Checks>
  constexpr Status check([[maybe_unused]] Operation operation, [[maybe_unused]] Checks checks) {
    if constexpr (B::moves_data) {
      ArgumentCheck c(operation, backend_.rank(), backend_.world_size());
      checks(c);
      return c.take();
    } else {
      return {};
    }
  }

  template <class S, class T>
  static constexpr Result<DeviceSpan<S>> result(DeviceSpan<S> send, DeviceSpan<T> recv,
                                                Status done) {
    if (!done.ok()) return done;
    if constexpr (B::moves_data) return DeviceSpan<S>(recv);
    return send;
  }

  template <class S, class T>
  constexpr Result<DeviceSpan<S>> result_on(int root, DeviceSpan<S> send, DeviceSpan<T> recv,
                                            Status done) const {
    if (done.ok() && B::moves_data && backend_.rank() != root) return DeviceSpan<S>();
    return result(send, recv, std::move(done));
  }

  [[no_unique_address]] B backend_;
};

}  // namespace detail
}  // namespace comm
