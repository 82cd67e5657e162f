#include "comm/testing/simulated/nccl/message.h"

namespace comm::simulated::detail {

const char* name_of(CallKind kind) {
  switch (kind) {
    case CallKind::all_reduce: return "ncclAllReduce";
    case CallKind::broadcast: return "ncclBroadcast";
    case CallKind::reduce: return "ncclReduce";
    case CallKind::all_gather: return "ncclAllGather";
    case CallKind::reduce_scatter: return "ncclReduceScatter";
    case CallKind::all_to_all: return "ncclAlltoAll";
    case CallKind::gather: return "ncclGather";
    case CallKind::scatter: return "ncclScatter";
    case CallKind::send: return "ncclSend";
    case CallKind::recv: return "ncclRecv";
    case CallKind::control: return "a call on the host";
  }
  return "unknown";
}

std::string describe(const Call& call) {
  std::string text = name_of(call.kind);
  text += "(count " + std::to_string(call.count);
  text += std::string(", ") + name_of(static_cast<ncclDataType_t>(call.type));
  switch (call.kind) {
    case CallKind::all_reduce:
    case CallKind::reduce_scatter:
      text += std::string(", ") + name_of(static_cast<Reduction>(call.reduction));
      break;
    case CallKind::reduce:
      text += std::string(", ") + name_of(static_cast<Reduction>(call.reduction));
      [[fallthrough]];
    case CallKind::broadcast:
    case CallKind::gather:
    case CallKind::scatter: text += ", root " + std::to_string(call.root); break;
    case CallKind::send:
    case CallKind::recv: text += ", peer " + std::to_string(call.root); break;
    default: break;
  }
  return text + ")";
}

}  // namespace comm::simulated::detail
