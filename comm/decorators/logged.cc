#include "comm/decorators/logged.h"

#include "comm/log_line.h"

namespace comm::detail {
namespace {

bool counts_bytes(Operation operation) {
  return operation == Operation::register_buffer || operation == Operation::symmetric_alloc;
}

bool moves_elements(Operation operation) {
  return operation <= Operation::send_recv;
}

bool has_stream(Operation operation) {
  return operation <= Operation::barrier || operation == Operation::synchronize;
}

}  // namespace

void write_log_line(LogSink sink, const LogEntry& entry, StatusCode code,
                    const char* message) noexcept {
  const OperationInfo& info = entry.info;
  LogSource source{entry.rank, entry.world_size};
  if (entry.sequence != 0) source.epoch = entry.epoch;
  LogLine line(source);
  if (entry.sequence != 0) line.add(" seq=%llu", static_cast<unsigned long long>(entry.sequence));
  line.add(" op=%s", to_string(info.operation));
  if (moves_elements(info.operation)) {
    line.add(" type=%s count=%zu bytes=%zu", to_string(info.type), info.count,
             info.count * size_of(info.type));
  } else if (counts_bytes(info.operation)) {
    line.add(" bytes=%zu", info.count);
  }
  if (info.reduces) {
    line.add(" reduce=%s", to_string(info.op));
    if (info.op.kind() == ReduceOp::Kind::premul_sum) line.add("(%g)", info.op.factor());
  }
  if (info.root >= 0) line.add(" root=%d", info.root);
  if (info.peer >= 0) line.add(" peer=%d", info.peer);
  if (entry.source >= 0) line.add(" source=%d", entry.source);
  if (info.operation == Operation::split) line.add(" color=%d", entry.color);
  if (has_stream(info.operation)) {
    line.add(" stream=%s", info.stream.is_given() ? "given" : "own");
  }
  line.add(" result=%s", to_string(code));
  if (code != StatusCode::ok) line.add(": %s", message);
  sink(line.finish());
}

}  // namespace comm::detail
