#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <map>

#include "comm/health/recorded_entry.h"
#include "comm/health/recorder_dump.h"
#include "comm/health/recorder_notes.h"

namespace comm::detail {
namespace {

[[gnu::format(printf, 2, 3)]] void add(std::string& to, const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  const int size = std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (size > 0) to.append(text, std::min(static_cast<std::size_t>(size), sizeof text - 1));
}

/// What is not plain ASCII is left out: a message may have been cut inside a character.
void add_string(std::string& to, const std::string& text) {
  to += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\')
      to += '\\', to += c;
    else
      to += c >= ' ' && c <= '~' ? c : ' ';
  }
  to += '"';
}

const char* to_string(DumpReason reason) {
  switch (reason) {
    case DumpReason::request: return "request";
    case DumpReason::failure: return "failure";
    case DumpReason::signal: return "signal";
  }
  return "unknown";
}

const char* to_string(SubmissionState state) {
  switch (state) {
    case SubmissionState::started: return "started";
    case SubmissionState::returned: return "returned";
    case SubmissionState::complete: return "complete";
    case SubmissionState::failed: return "failed";
  }
  return "unknown";
}

/// Streams by number, in the order in which they first appear; 0 is the communicator's own. Handles
/// are addresses, which a dump does not show.
class StreamNumbers {
 public:
  int of(const RecordedWords& words) {
    if (!flag_of(words, RecorderRing::kStreamGiven)) return 0;
    return numbers_.try_emplace(words.stream, static_cast<int>(numbers_.size()) + 1).first->second;
  }

 private:
  std::map<std::uint64_t, int> numbers_;
};

void add_what(std::string& to, const RecordedWords& words) {
  const Operation operation = operation_of(words);
  if (moves_elements(operation)) {
    add(to, ",\"type\":\"%s\",\"count\":%" PRIu64 ",\"bytes\":%" PRIu64,
        comm::to_string(type_of(words)), words.count, words.count * size_of(type_of(words)));
  } else if (operation == Operation::register_buffer || operation == Operation::symmetric_alloc) {
    add(to, ",\"bytes\":%" PRIu64, words.count);
  } else if (operation == Operation::shrink) {
    add(to, ",\"excluded\":%" PRIu64, words.count);
  }
  if (has_reduction(words)) add(to, ",\"reduce\":\"%s\"", reduction_name(words));
  if (static_cast<ReduceOp::Kind>(words.what >> 16 & 0xff) == ReduceOp::Kind::premul_sum)
    add(to, ",\"factor\":%.17g", std::bit_cast<double>(words.extra));
  if (has_root(operation)) add(to, ",\"root\":%d", partner_of(words));
  if (operation == Operation::send_to || operation == Operation::recv_from ||
      operation == Operation::send_recv)
    add(to, ",\"peer\":%d", partner_of(words));
  if (operation == Operation::send_recv)
    add(to, ",\"source\":%" PRIu64 ",\"recv_count\":%" PRIu64, words.source, words.extra);
  if (operation == Operation::all_to_all_v) add(to, ",\"recv_count\":%" PRIu64, words.extra);
  if (operation == Operation::split)
    add(to, ",\"color\":%d,\"key\":%d", partner_of(words), static_cast<int>(words.extra));
}

void add_entry(std::string& to, const RecordedEntry& entry, const TickScale& scale,
               StreamNumbers& streams) {
  const Operation operation = operation_of(entry.words);
  add(to, "{\"seq\":%" PRIu64 ",\"epoch\":%" PRIu64, entry.sequence, entry.epoch);
  if (entry.collective != 0) add(to, ",\"collective\":%" PRIu64, entry.collective);
  add(to, ",\"op\":\"%s\"", comm::to_string(operation));
  add_what(to, entry.words);
  if (is_on_stream(operation)) add(to, ",\"stream\":%d", streams.of(entry.words));
  if (flag_of(entry.words, RecorderRing::kInGroup)) to += ",\"in_group\":true";
  const std::uint64_t submitted = scale.since_first(entry.submitted);
  add(to, ",\"submitted_ns\":%" PRIu64 ",\"state\":\"%s\"", submitted, to_string(entry.state));
  if (entry.state == SubmissionState::complete || entry.state == SubmissionState::failed)
    add(to, ",\"%s_ns\":%" PRIu64, to_string(entry.state), submitted + scale.length(entry.taken));
  if (entry.state != SubmissionState::started)
    add(to, ",\"result\":\"%s\"", comm::to_string(entry.code));
  to += '}';
}

void add_head(std::string& to, const RecorderRing& ring, DumpReason reason,
              const ClockReading& now) {
  const RecorderRing::Notes& notes = ring.notes();
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  const std::lock_guard<std::mutex> lock(notes.mutex);
  add(to, "{\"format\":\"comm-flight-recorder\",\"version\":%d,\"reason\":\"%s\",\n", kDumpVersion,
      to_string(reason));
  to += "\"communicator\":{\"name\":";
  add_string(to, notes.options.name);
  add(to, ",\"rank\":%d,\"world_size\":%d,\"epoch\":%" PRIu64 ",\"collectives\":%" PRIu64 "},\n",
      notes.rank, notes.world_size, ring.epoch(), ring.collectives());
  to += "\"process\":{\"host\":";
  add_string(to, host);
  add(to, ",\"pid\":%d,\"created_unix_ns\":%" PRId64 "},\n", static_cast<int>(::getpid()),
      notes.made.realtime_ns);
  // The clock of the operating system as it is now, also for what lies before it was set.
  const std::int64_t age = now.monotonic_ns - notes.made.monotonic_ns;
  add(to,
      "\"clock\":{\"origin_unix_ns\":%" PRId64 ",\"dumped_ns\":%" PRId64 ",\"source\":\"%s\"},\n",
      now.realtime_ns - age, age, ring.clock().source());
  add(to,
      "\"ring\":{\"capacity\":%zu,\"submissions\":%" PRIu64 ",\"refused\":%" PRIu64
      ",\"completes_on_return\":%s},\n",
      ring.capacity(), ring.submissions(), ring.refused(),
      ring.completes_on_return() ? "true" : "false");
  if (notes.has_failed) {
    add(to, "\"failure\":{\"seq\":%" PRIu64 ",\"code\":\"%s\",\"native_code\":%d,\"message\":",
        notes.failed_sequence, comm::to_string(notes.code), notes.native_code);
    add_string(to, notes.message);
    to += "},\n";
  } else {
    to += "\"failure\":null,\n";
  }
}

}  // namespace

std::string recorder_json(const RecorderRing& ring, DumpReason reason) {
  // Read before the clock: no entry is younger than the dump.
  const std::vector<RecordedEntry> entries = ring.read();
  const ClockReading now = ring.clock().read();
  const TickScale scale(ring.notes().made, now);
  std::string json;
  json.reserve(1024 + entries.size() * 256);
  add_head(json, ring, reason, now);
  json += "\"entries\":[";
  StreamNumbers streams;
  for (const RecordedEntry& entry : entries) {
    json += &entry == entries.data() ? "\n" : ",\n";
    add_entry(json, entry, scale, streams);
  }
  json += "\n]}\n";
  return json;
}

}  // namespace comm::detail
