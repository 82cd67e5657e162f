#include "comm/backends/nccl/roll_call.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {
namespace {

/// How long a rank has to answer. A watchdog looks up ten times a second, or sooner.
constexpr std::chrono::milliseconds kPatience{500};
constexpr std::uint64_t kRollCallId = 0x726f6c6c'63616c6cU;

std::string describe(int rank, const RollCall::Answer& answer) {
  std::string text = "rank " + std::to_string(rank) + " has submitted ";
  text += std::to_string(answer.submitted);
  if (answer.submitted != 0)
    text += std::string(" (last ") + to_string(static_cast<Operation>(answer.last)) + ")";
  return text;
}

/// Calls that go together have one kind.
Operation kind_of(std::uint32_t last) {
  switch (const auto operation = static_cast<Operation>(last)) {
    case Operation::broadcast_async:
    case Operation::recv_command_u32: return Operation::broadcast;
    case Operation::all_reduce_async:
    case Operation::all_reduce_deferred: return Operation::all_reduce;
    case Operation::barrier_wait: return Operation::barrier;
    case Operation::recv_from:
    case Operation::send_recv: return Operation::send_to;
    default: return operation;
  }
}

}  // namespace

std::string compare(const RollCall::Answer* answers, int count) {
  const auto less = [](const auto& a, const auto& b) { return a.submitted < b.submitted; };
  const auto* const least = std::min_element(answers, answers + count, less);
  const auto* const most = std::max_element(answers, answers + count, less);
  std::string text;
  if (least->submitted != most->submitted) {
    // Who is behind the most comes first; one of those that are not stands for them all.
    for (const auto* a = answers; a != answers + count; ++a)
      if (a->submitted != most->submitted)
        text += describe(static_cast<int>(a - answers), *a) + ", ";
    return text + describe(static_cast<int>(most - answers), *most);
  }
  // Whoever calls what most others do not.
  const auto callers = [&](const RollCall::Answer& of) {
    return std::count_if(answers, answers + count, [&](const auto& other) {
      return kind_of(other.last) == kind_of(of.last);
    });
  };
  const auto* const usual =
      std::max_element(answers, answers + count,
                       [&](const auto& a, const auto& b) { return callers(a) < callers(b); });
  for (const auto* a = answers; a != answers + count; ++a)
    if (kind_of(a->last) != kind_of(usual->last))
      text += describe(static_cast<int>(a - answers), *a) + ", ";
  if (!text.empty()) return text + describe(static_cast<int>(usual - answers), *usual);
  return "all ranks answer and have submitted the same number of operations, so a GPU, or NCCL on "
         "it, stands still";
}

void RollCall::begin_epoch() {
  const std::lock_guard<std::mutex> guard(mutex_);
  stage_ = Stage::expected;
  names_.clear();
}

bool RollCall::start() {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (stage_ != Stage::expected) return false;
  stage_ = Stage::running;
  return true;
}

void RollCall::finish(std::string names) {
  const std::lock_guard<std::mutex> guard(mutex_);
  names_ = std::move(names);
  stage_ = Stage::done;
  changed_.notify_all();
}

void RollCall::give_up() {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (stage_ == Stage::expected) stage_ = Stage::none;
  changed_.notify_all();
}

std::string RollCall::names(bool wait) {
  std::unique_lock<std::mutex> guard(mutex_);
  const auto is_known = [&] { return stage_ == Stage::none || stage_ == Stage::done; };
  if (wait) changed_.wait_for(guard, 2 * kPatience, is_known);
  return names_;
}

void State::call_roll() {
  if (channel == nullptr || is_derived || world_size == 1 || !roll.start()) return;
  const RollCall::Answer mine{__atomic_load_n(&submitted, __ATOMIC_RELAXED),
                              static_cast<std::uint32_t>(lock->operation()), 0};
  const OutOfBand::Among all{kRollCallId, epoch.load(), rank, world_size, true};
  Result<Bytes> told = channel->gather_among(all, std::as_bytes(std::span(&mine, 1)), kPatience);
  if (!told.ok()) {
    // A rank that was stopped may find the others gone on.
    const bool is_late = told.code() == StatusCode::peer_lost;
    return roll.finish(
        (is_late ? "rank " + std::to_string(rank) + " was too late to be asked; " : "") +
        told.message());
  }
  std::vector<RollCall::Answer> answers(static_cast<std::size_t>(world_size));
  if (told->size() != answers.size() * sizeof(RollCall::Answer)) return roll.finish("");
  std::memcpy(answers.data(), told->data(), told->size());
  roll.finish(compare(answers.data(), world_size));
}

}  // namespace comm::detail::nccl
