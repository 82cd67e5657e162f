#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "comm/health/recorder_dump.h"
#include "comm/health/recorder_notes.h"
#include "comm/log.h"

namespace comm::detail {
namespace {

bool write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

Status cannot_write(const std::string& path) {
  const int error = errno;
  return make_error(StatusCode::internal, error,
                    "flight recorder: cannot write %s: %s; is the folder there, and may this "
                    "process write to it?",
                    path.c_str(), std::strerror(error));
}

/// A name for what may hold a '/', or anything else that the engine chose.
std::string in_file_name(std::string name) {
  for (char& c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!is_plain) c = '.';
  }
  return name.substr(0, 100);
}

/// Of its own for each recorder and epoch: a later dump of the same replaces an earlier one.
std::string file_name(const RecorderRing& ring) {
  const RecorderRing::Notes& notes = ring.notes();
  const std::lock_guard<std::mutex> lock(notes.mutex);
  char text[320];
  std::snprintf(text, sizeof text, "comm_trace_rank%d_of_%d_%s_epoch%" PRIu64 "_%" PRId64 ".json",
                notes.rank, notes.world_size, in_file_name(notes.options.name).c_str(),
                ring.epoch(), notes.made.realtime_ns / 1000);
  return text;
}

}  // namespace

Status write_dump(const RecorderRing& ring, const std::string& path, DumpReason reason) {
  const std::string json = recorder_json(ring, reason);
  // Two threads may write the same dump; each has a file until it is whole.
  char unique[64];
  std::snprintf(unique, sizeof unique, ".%d.%p", static_cast<int>(::getpid()),
                static_cast<const void*>(json.data()));
  const std::string partial = path + unique;
  const int fd = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return cannot_write(path);
  const bool is_written = write_all(fd, json);
  Status failure;
  if (!is_written) failure = cannot_write(path);
  if (::close(fd) != 0 && failure.ok()) failure = cannot_write(path);
  if (failure.ok() && ::rename(partial.c_str(), path.c_str()) != 0) failure = cannot_write(path);
  if (!failure.ok()) ::unlink(partial.c_str());
  return failure;
}

bool has_destination(const RecorderRing& ring) {
  const RecorderOptions& options = ring.notes().options;
  return options.sink != nullptr || !options.directory.empty();
}

Status deliver_dump(const RecorderRing& ring, DumpReason reason) {
  const RecorderOptions& options = ring.notes().options;
  if (options.sink != nullptr) {
    const std::string json = recorder_json(ring, reason);
    options.sink(options.context, json.data(), json.size());
    return {};
  }
  if (options.directory.empty())
    return make_error(StatusCode::invalid_argument, 0,
                      "flight recorder: no place for a dump; set COMM_RECORDER_DIR, or "
                      "RecorderOptions::directory or sink, or use dump_to");
  return write_dump(ring, options.directory + "/" + file_name(ring), reason);
}

void dump_after_failure(const RecorderRing& ring) noexcept {
  if (!has_destination(ring)) return;
  const Status written = deliver_dump(ring, DumpReason::failure);
  if (written.ok()) return;
  {
    const std::lock_guard<std::mutex> lock(ring.notes().mutex);
    if (ring.notes().has_complained) return;
    ring.notes().has_complained = true;
  }
  LogSink()((std::string("comm: ") + written.message() + "\n").c_str());
}

}  // namespace comm::detail
