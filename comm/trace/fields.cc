#include "comm/trace/fields.h"

#include <limits>
#include <string>

namespace comm::trace {
namespace {

// So that a sum of two of them is a time, too.
constexpr std::uint64_t kLatest = std::uint64_t{1} << 61;
constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kLargestInt = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kMostRanks = 1 << 20;
constexpr std::uint64_t kMostCollectives = std::uint64_t{1} << 44;

template <class T>
const char* set_number(T& to, const Value& value, std::uint64_t most) {
  if (value.kind != Value::unsigned_number) return "no whole number from 0 on";
  if (value.number > most) return "too large";
  to = static_cast<T>(value.number);
  return nullptr;
}

const char* set_text(std::string& to, const Value& value) {
  constexpr std::size_t kLongest = 4096;
  if (value.kind != Value::string) return "no text";
  if (value.text.size() > kLongest) return "too long";
  to.clear();
  // For a terminal: no control characters.
  for (const char c : value.text) to += c >= ' ' && c != '\x7f' ? c : ' ';
  return nullptr;
}

/// By its name, of the first `count` of an enumeration.
template <class Enum>
const char* set_name(Enum& to, const Value& value, int count, const char* problem) {
  if (value.kind != Value::string) return "no text";
  for (int i = 0; i < count; ++i) {
    const Enum candidate = static_cast<Enum>(i);
    if (value.text != to_string(candidate)) continue;
    to = candidate;
    return nullptr;
  }
  return problem;
}

const char* set_code(StatusCode& to, const Value& value) {
  return set_name(to, value, static_cast<int>(StatusCode::internal) + 1, "no result of comm's");
}

const char* set_signed(std::int32_t& to, const Value& value) {
  if (value.kind == Value::negative) {
    const auto number = static_cast<std::int64_t>(value.number);
    if (number < std::numeric_limits<std::int32_t>::min()) return "too small";
    to = static_cast<std::int32_t>(number);
    return nullptr;
  }
  return set_number(to, value, kLargestInt);
}

const char* set_reduction(std::uint8_t& to, const Value& value) {
  if (value.kind != Value::string) return "no text";
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max,
                            ReduceOp::avg, ReduceOp::premul_sum(1)}) {
    if (value.text != to_string(op)) continue;
    to = static_cast<std::uint8_t>(op.kind());
    return nullptr;
  }
  return "no reduction of comm's";
}

const char* set_communicator(Dump& dump, std::string_view key, const Value& value) {
  if (key == "name") return set_text(dump.name, value);
  if (key == "rank") return set_number(dump.rank, value, kMostRanks);
  if (key == "world_size") return set_number(dump.world_size, value, kMostRanks);
  if (key == "epoch") return set_number(dump.epoch, value, kAny);
  if (key == "collectives") return set_number(dump.collectives, value, kMostCollectives);
  return nullptr;
}

const char* set_failure(Failure& failure, std::string_view key, const Value& value) {
  if (key == "seq") return set_number(failure.seq, value, kAny);
  if (key == "code") return set_code(failure.code, value);
  if (key == "message") return set_text(failure.message, value);
  return nullptr;
}

}  // namespace

Section section_of(std::string_view key) {
  if (key == "communicator") return Section::communicator;
  if (key == "process") return Section::process;
  if (key == "clock") return Section::clock;
  if (key == "ring") return Section::ring;
  if (key == "failure") return Section::failure;
  if (key == "entries") return Section::entries;
  return Section::unknown;
}

const char* set_root(Root& root, std::string_view key, const Value& value) {
  if (key == "format") {
    if (value.kind != Value::string || value.text != "comm-flight-recorder")
      return "not \"comm-flight-recorder\"";
    root.is_dump = true;
  } else if (key == "version") {
    if (value.kind != Value::unsigned_number || value.number != 1)
      return "not 1, the version that this program reads";
    root.has_version = true;
  } else if (section_of(key) != Section::unknown &&
             !(section_of(key) == Section::failure && value.kind == Value::null)) {
    return key == "entries" ? "no list" : "no object";
  }
  return nullptr;
}

const char* set_section(Dump& dump, Section section, std::string_view key, const Value& value) {
  switch (section) {
    case Section::communicator: return set_communicator(dump, key, value);
    case Section::failure: return set_failure(dump.failure, key, value);
    case Section::process:
      if (key == "host") return set_text(dump.host, value);
      if (key == "pid") return set_number(dump.pid, value, kLargestInt);
      if (key == "created_unix_ns") return set_number(dump.created, value, kLatest);
      return nullptr;
    case Section::clock:
      if (key == "origin_unix_ns") return set_number(dump.origin, value, kLatest);
      if (key == "dumped_ns") return set_number(dump.dumped, value, kLatest);
      return nullptr;
    case Section::ring:
      if (key == "submissions") return set_number(dump.submissions, value, kAny);
      if (key == "refused") return set_number(dump.refused, value, kAny);
      return nullptr;
    case Section::root:
    case Section::entries:
    case Section::unknown: break;
  }
  return nullptr;
}

const char* set_entry(Entry& entry, std::string_view key, const Value& value) {
  if (key == "seq") return set_number(entry.seq, value, kAny);
  if (key == "epoch") return set_number(entry.epoch, value, kAny);
  if (key == "collective") return set_number(entry.collective, value, kMostCollectives);
  if (key == "op")
    return set_name(entry.op, value, static_cast<int>(Operation::abort) + 1,
                    "no operation of comm's");
  if (key == "type") return set_name(entry.type, value, kDataTypeCount, "no type of comm's");
  if (key == "count" || key == "excluded") return set_number(entry.count, value, kAny);
  // Where there is a type the count says the same.
  if (key == "bytes") return entry.count != 0 ? nullptr : set_number(entry.count, value, kAny);
  if (key == "reduce") return set_reduction(entry.reduction, value);
  if (key == "root" || key == "peer" || key == "color") return set_signed(entry.partner, value);
  if (key == "source") return set_number(entry.source, value, kLargestInt);
  if (key == "recv_count") return set_number(entry.recv_count, value, kAny);
  if (key == "stream") return set_number(entry.stream, value, kLargestInt);
  if (key == "submitted_ns") return set_number(entry.submitted, value, kLatest);
  if (key == "complete_ns" || key == "failed_ns") return set_number(entry.ended, value, kLatest);
  if (key == "state") return set_name(entry.state, value, 4, "no state");
  if (key == "result") return set_code(entry.result, value);
  if (key == "in_group") {
    if (value.kind != Value::boolean) return "neither true nor false";
    entry.in_group = value.number != 0;
  }
  return nullptr;
}

}  // namespace comm::trace
