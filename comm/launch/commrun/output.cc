#include "comm/launch/commrun/output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace comm::commrun {

void Sink::flush_some() {
  const std::size_t n = std::min(waiting_.size() - offset_, kAtOnce);
  const ssize_t written = ::write(fd_, waiting_.data() + offset_, n);
  if (written < 0) {
    broken_ = errno != EINTR && errno != EAGAIN;
    if (!broken_) return;
  }
  offset_ += broken_ ? waiting_.size() - offset_ : static_cast<std::size_t>(written);
  if (offset_ == waiting_.size() || offset_ > kMost) {
    waiting_.erase(0, offset_);
    offset_ = 0;
  }
}

void LineReader::append(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    line_ += text.substr(0, end);
    if (end == std::string_view::npos) {
      // A rank that never ends its line must not fill the memory.
      if (line_.size() >= kLongest) finish();
      return;
    }
    sink_->write(prefix_ + line_ + '\n');
    line_.clear();
    text.remove_prefix(end + 1);
  }
}

void LineReader::finish() {
  if (!line_.empty()) sink_->write(prefix_ + line_ + '\n');
  line_.clear();
}

}  // namespace comm::commrun
