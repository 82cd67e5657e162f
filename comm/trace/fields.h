#pragma once

/// The members of a dump by name: what type each has to be and where it goes. The setters return what
/// is wrong with a value ("no number"), or null. Members that are not known are left alone: a later
/// version of comm may write more.

#include <cstdint>
#include <string_view>

#include "comm/trace/dump.h"

namespace comm::trace {

struct Value {
  enum Kind { null, boolean, unsigned_number, negative, string, other };
  Kind kind = null;
  std::uint64_t number = 0;
  std::string_view text{};
};

enum class Section { root, communicator, process, clock, ring, failure, entries, unknown };

/// What the outermost object has to say before the rest counts.
struct Root {
  bool is_dump = false;
  bool has_version = false;
};

Section section_of(std::string_view key);

const char* set_root(Root& root, std::string_view key, const Value& value);
const char* set_section(Dump& dump, Section section, std::string_view key, const Value& value);
const char* set_entry(Entry& entry, std::string_view key, const Value& value);

}  // namespace comm::trace
