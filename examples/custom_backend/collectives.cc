#include "examples/custom_backend/collectives.h"

#include <cstring>

#include "examples/custom_backend/arithmetic.h"

namespace example {
namespace {

using comm::Operation;

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memmove(to, from, bytes);  // Pointers of nothing may be null.
}

std::byte* at(void* base, std::size_t offset) {
  return base == nullptr ? nullptr : static_cast<std::byte*>(base) + offset;
}

const std::byte* at(const void* base, std::size_t offset) {
  return base == nullptr ? nullptr : static_cast<const std::byte*>(base) + offset;
}

std::string in_words(const Call& call) {
  const comm::OperationInfo& info = call.info;
  std::string words = to_string(info.operation);
  words += " of " + std::to_string(info.count) + " " + to_string(info.type);
  if (info.reduces) words += std::string(", ") + to_string(info.op);
  if (info.root >= 0) words += ", root " + std::to_string(info.root);
  return words;
}

/// The reduction of `count` elements of every call.
std::vector<std::byte> reduced(const std::vector<Call>& calls, std::size_t count) {
  const comm::OperationInfo& info = calls[0].info;
  std::vector<Contribution> from;
  for (const Call& call : calls) from.push_back({call.send, call.info.op.factor()});
  std::vector<std::byte> result(count * size_of(info.type));
  combine(info.type, info.op.kind(), from, count, result.data());
  return result;
}

/// What every call sends, one after the other.
std::vector<std::byte> gathered(const std::vector<Call>& calls, std::size_t bytes) {
  std::vector<std::byte> all(calls.size() * bytes);
  for (std::size_t r = 0; r < calls.size(); ++r) copy(all.data() + r * bytes, calls[r].send, bytes);
  return all;
}

/// Gives block r of `all` to call r.
void deal(const std::vector<Call>& calls, const std::vector<std::byte>& all, std::size_t bytes) {
  for (std::size_t r = 0; r < calls.size(); ++r) copy(calls[r].recv, all.data() + r * bytes, bytes);
}

void exchange(const std::vector<Call>& calls) {
  const std::size_t size = size_of(calls[0].info.type);
  std::vector<std::size_t> sent(calls.size(), 0);
  for (std::size_t to = 0; to < calls.size(); ++to) {
    std::size_t received = 0;
    for (std::size_t from = 0; from < calls.size(); ++from) {
      const std::size_t bytes = calls[from].send_counts[to] * size;
      copy(at(calls[to].recv, received), at(calls[from].send, sent[from]), bytes);
      sent[from] += bytes;
      received += bytes;
    }
  }
}

}  // namespace

std::string disagreement(const std::vector<Call>& calls) {
  const Call& first = calls[0];
  for (std::size_t r = 1; r < calls.size(); ++r) {
    const comm::OperationInfo &a = first.info, &b = calls[r].info;
    if (a.operation != b.operation || a.type != b.type || a.count != b.count || a.root != b.root ||
        a.op.kind() != b.op.kind()) {
      return "rank 0 called " + in_words(first) + ", rank " + std::to_string(r) + " called " +
             in_words(calls[r]);
    }
  }
  if (first.info.operation != Operation::all_to_all_v) return {};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (std::size_t j = 0; j < calls.size(); ++j) {
      if (calls[i].send_counts[j] == calls[j].recv_counts[i]) continue;
      return "all_to_all_v: rank " + std::to_string(i) + " sends " +
             std::to_string(calls[i].send_counts[j]) + " elements to rank " + std::to_string(j) +
             ", which expects " + std::to_string(calls[j].recv_counts[i]);
    }
  }
  return {};
}

void run(const std::vector<Call>& calls) {
  const comm::OperationInfo& info = calls[0].info;
  const std::size_t bytes = info.count * size_of(info.type);
  const auto root = static_cast<std::size_t>(info.root < 0 ? 0 : info.root);
  switch (info.operation) {
    case Operation::all_reduce: {
      const std::vector<std::byte> result = reduced(calls, info.count);
      for (const Call& call : calls) copy(call.recv, result.data(), bytes);
      break;
    }
    case Operation::reduce: {
      const std::vector<std::byte> result = reduced(calls, info.count);
      copy(calls[root].recv, result.data(), bytes);
      break;
    }
    case Operation::reduce_scatter:
      deal(calls, reduced(calls, calls.size() * info.count), bytes);
      break;
    case Operation::all_gather: {
      const std::vector<std::byte> all = gathered(calls, bytes);
      for (const Call& call : calls) copy(call.recv, all.data(), all.size());
      break;
    }
    case Operation::gather: {
      const std::vector<std::byte> all = gathered(calls, bytes);
      copy(calls[root].recv, all.data(), all.size());
      break;
    }
    case Operation::scatter: {
      std::vector<std::byte> all(calls.size() * bytes);
      copy(all.data(), calls[root].send, all.size());
      deal(calls, all, bytes);
      break;
    }
    case Operation::broadcast:
      for (const Call& call : calls) copy(call.recv, calls[root].recv, bytes);
      break;
    case Operation::all_to_all:
    case Operation::all_to_all_v: exchange(calls); break;
    default: break;  // A barrier: to have met is all.
  }
}

}  // namespace example
