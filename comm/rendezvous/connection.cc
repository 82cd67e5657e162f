#include "comm/rendezvous/connection.h"

#include "comm/rendezvous/sockets.h"

namespace comm::detail {

void Connection::send(SharedFrame frame) {
  if (state == State::dead || problem_errno != 0) return;
  output.push_back(std::move(frame));
  // A failure shows up when the service looks at this connection again.
  if (output.size() == 1) flush();
}

bool Connection::flush() {
  if (problem_errno != 0) return false;
  while (!output.empty()) {
    const ByteSpan rest = ByteSpan(*output.front()).subspan(output_offset);
    const Moved m = send_some(fd.get(), rest);
    if (m.kind == Moved::would_block) return true;
    if (m.kind != Moved::some) {
      problem_errno = m.errno_value;
      output.clear();
      return false;
    }
    output_offset += m.bytes;
    if (output_offset == output.front()->size()) {
      output.pop_front();
      output_offset = 0;
    }
  }
  return true;
}

}  // namespace comm::detail
