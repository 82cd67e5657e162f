#include "comm/argument_check.h"

#include <cstdarg>
#include <cstdio>

namespace comm::detail {
namespace {

[[gnu::format(printf, 4, 5)]] Status invalid(Operation operation, int rank, int world_size,
                                             const char* format, ...) {
  char what[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  return make_error(StatusCode::invalid_argument, 0, "%s: rank %d of %d: %s", to_string(operation),
                    rank, world_size, what);
}

}  // namespace

void ArgumentCheck::complain(const char* complaint) {
  if (status_.ok()) status_ = invalid(operation_, rank_, world_size_, "%s", complaint);
}

void ArgumentCheck::complain_about_buffer(const char* name, const void* data, std::size_t count,
                                          std::size_t element_size) {
  if (!status_.ok()) return;
  if (count > kMostBytes / element_size) {
    status_ = invalid(operation_, rank_, world_size_,
                      "%s: %zu elements of %zu bytes are more than memory can hold; check the "
                      "count for an overflow or a negative number",
                      name, count, element_size);
  } else if (data == nullptr) {
    status_ = invalid(operation_, rank_, world_size_,
                      "%s is null but its count is %zu; pass memory of %zu bytes, or count 0", name,
                      count, count * element_size);
  } else {
    status_ = invalid(operation_, rank_, world_size_,
                      "%s at %p is not aligned to its element of %zu bytes; pass an address that "
                      "is a multiple of %zu",
                      name, data, element_size, element_size);
  }
}

void ArgumentCheck::complain_about_rank(const char* name, int value) {
  if (!status_.ok()) return;
  if (world_size_ < 1) {
    return complain("this rank is in no communicator: it split with kNoColor; do not communicate");
  }
  status_ = invalid(operation_, rank_, world_size_, "%s is %d; it must be from 0 to %d", name,
                    value, world_size_ - 1);
}

void ArgumentCheck::complain_about_blocks(const char* larger, std::size_t larger_size,
                                          const char* block, std::size_t size) {
  if (!status_.ok()) return;
  status_ = invalid(operation_, rank_, world_size_,
                    "%s has %zu elements but must have %d times the %zu of %s, a block for each "
                    "rank",
                    larger, larger_size, world_size_, size, block);
}

void ArgumentCheck::complain_about_sizes(const char* a, std::size_t a_size, const char* b,
                                         std::size_t b_size) {
  if (!status_.ok()) return;
  status_ =
      invalid(operation_, rank_, world_size_,
              "%s has %zu elements and %s has %zu; they must have the same", a, a_size, b, b_size);
}

void ArgumentCheck::complain_about_counts(const char* name, std::size_t size,
                                          const std::size_t* counts) {
  if (!status_.ok()) return;
  if (counts == nullptr) {
    status_ =
        invalid(operation_, rank_, world_size_,
                "the counts of %s are null; pass one for each of the %d ranks", name, world_size_);
    return;
  }
  status_ = invalid(operation_, rank_, world_size_,
                    "the %d counts of %s do not add up to its size, %zu elements", world_size_,
                    name, size);
}

void ArgumentCheck::complain_about_overlap(Extent a, Extent b, std::uintptr_t in_place) {
  if (!status_.ok()) return;
  if (in_place == 0) {
    status_ = invalid(operation_, rank_, world_size_,
                      "%s (%p, %zu bytes) and %s (%p, %zu bytes) overlap; this operation has no "
                      "in-place form",
                      a.name, a.data, a.bytes, b.name, b.data, b.bytes);
    return;
  }
  status_ = invalid(operation_, rank_, world_size_,
                    "%s (%p, %zu bytes) and %s (%p, %zu bytes) overlap; pass disjoint buffers, or "
                    "%s at %p, which is in place",
                    a.name, a.data, a.bytes, b.name, b.data, b.bytes, a.name,
                    reinterpret_cast<const void*>(in_place));
}

}  // namespace comm::detail
