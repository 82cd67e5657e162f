#pragma once

/// `Result<T>` is a `T`, or the `Status` that says why there is none. Like `Status` it is
/// move-only, never throws, and is `constexpr` where it holds a value.
///
///     comm::Result<int> r = parse(text);
///     if (!r.ok()) return std::move(r).status();
///     use(*r);
///
/// To read the value of a `Result` that holds an error is undefined, as with `std::optional`.

#include <concepts>
#include <new>
#include <type_traits>
#include <utility>

#include "comm/status.h"

namespace comm {

template <class T>
class [[nodiscard]] Result {
  static_assert(std::is_nothrow_move_constructible_v<T>,
                "comm::Result<T>: T must be movable without throwing");

 public:
  using value_type = T;

  /// A value, or whatever converts to one.
  template <class U = T>
    requires(std::is_constructible_v<T, U> && !std::same_as<std::remove_cvref_t<U>, Result> &&
             !std::same_as<std::remove_cvref_t<U>, Status>)
  constexpr Result(U&& value) noexcept : storage_(std::forward<U>(value)) {}  // NOLINT

  /// An error. An ok `status` has no value to offer and so becomes an error that says this. Takes a
  /// reference, so that `return status;` moves under nvcc too.
  constexpr Result(Status&& status) noexcept  // NOLINT
      : status_(status.ok() ? Status(kNoValue) : std::move(status)), storage_() {}

  constexpr Result(Result&& other) noexcept
      : status_(std::move(other).status()),
        storage_(status_.ok() ? Storage(std::move(other.storage_.value)) : Storage()) {}

  // Returns nothing, as that of Status.
  // NOLINTNEXTLINE(misc-unconventional-assign-operator)
  constexpr void operator=(Result&& other) noexcept {
    if (this == &other) return;
    if (ok() && other.ok() && std::is_move_assignable_v<T>) {
      if constexpr (std::is_move_assignable_v<T>) storage_.value = std::move(other.storage_.value);
      return;
    }
    this->~Result();
    ::new (static_cast<void*>(this)) Result(std::move(other));
  }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  [[gnu::always_inline]] constexpr ~Result() {
    if constexpr (!std::is_trivially_destructible_v<T>) {
      if (status_.ok()) storage_.value.~T();
    }
  }

  constexpr bool ok() const noexcept { return status_.ok(); }
  constexpr explicit operator bool() const noexcept { return ok(); }
  constexpr StatusCode code() const noexcept { return status_.code(); }
  constexpr const char* message() const noexcept { return status_.message(); }

  constexpr const Status& status() const& noexcept { return status_; }

  /// Takes the error out, to hand it on. Only where `!ok()`: nothing is left behind that has
  /// neither value nor error.
  constexpr Status status() && noexcept {
    return ok() ? Status() : std::exchange(status_, Status(kTaken));
  }

  constexpr T& value() & noexcept { return storage_.value; }
  constexpr const T& value() const& noexcept { return storage_.value; }
  constexpr T&& value() && noexcept { return std::move(storage_.value); }
  constexpr T& operator*() & noexcept { return storage_.value; }
  constexpr const T& operator*() const& noexcept { return storage_.value; }
  constexpr T&& operator*() && noexcept { return std::move(storage_.value); }
  constexpr T* operator->() noexcept { return &storage_.value; }
  constexpr const T* operator->() const noexcept { return &storage_.value; }

  /// Says in the code that the outcome does not matter here.
  constexpr void ignore() const noexcept {}

 private:
  static constexpr detail::StatusError kTaken{StatusCode::internal, true, 0,
                                              "(this error was handed on)"};
  static constexpr detail::StatusError kNoValue{StatusCode::internal, true, 0,
                                                "a Result was made of an ok Status, with no value"};

  // Guaranteed elision lets the members above choose which one to make without
  // `std::construct_at`, whose header alone costs more to include than all of comm.
  union Storage {
    constexpr Storage() noexcept : nothing{} {}
    template <class U>
    constexpr explicit Storage(U&& v) noexcept : value(std::forward<U>(v)) {}
    constexpr ~Storage() {}
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;

    char nothing;
    T value;
  };

  Status status_;
  Storage storage_;
};

}  // namespace comm
