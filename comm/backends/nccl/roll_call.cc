#include "comm/backends/nccl/roll_call.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "comm/backends/nccl/state.h"

namespace comm::detail::nccl {
namespace {

/// How long a rank has to answer. A watchdog looks up five times a second, or sooner.
constexpr std::chrono::milliseconds kPatience{500};
/// Later than this a watchdog is not by the noise of a busy machine.
constexpr std::chrono::milliseconds kStandstill{500};
constexpr std::uint64_t kRollCallId = 0x726f6c6c'63616c6cU;
constexpr std::uint64_t kSlowWaitId = 0x736c6f77'77616974U;

std::string describe(int rank, const RollCall::Answer& answer) {
  std::string text = "rank " + std::to_string(rank) + " has submitted ";
  text += std::to_string(answer.submitted);
  // What comm submits while it makes a communicator is no call of anybody's.
  const auto last = static_cast<Operation>(answer.last);
  if (answer.submitted != 0 && last != Operation::attempt_reconnect)
    text += std::string(" (last ") + to_string(last) + ")";
  if (answer.messages != 0) text += " and " + std::to_string(answer.messages) + " messages";
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
  using Answer = RollCall::Answer;
  // Who is behind the most comes first; one of those that are not stands for them all.
  const auto list = [&](auto is_other, const Answer& usual) {
    std::string text;
    for (const Answer* a = answers; a != answers + count; ++a)
      if (is_other(*a)) text += describe(static_cast<int>(a - answers), *a) + ", ";
    return text.empty() ? text : text + describe(static_cast<int>(&usual - answers), usual);
  };
  const auto less = [](const Answer& a, const Answer& b) { return a.submitted < b.submitted; };
  const Answer& most = *std::max_element(answers, answers + count, less);
  std::string text = list([&](const Answer& a) { return a.submitted != most.submitted; }, most);
  if (!text.empty()) return text;
  // Whoever calls what most others do not.
  const auto callers = [&](const Answer& of) {
    return std::count_if(answers, answers + count, [&](const Answer& other) {
      return kind_of(other.last) == kind_of(of.last);
    });
  };
  const Answer& usual =
      *std::max_element(answers, answers + count,
                        [&](const Answer& a, const Answer& b) { return callers(a) < callers(b); });
  text = list([&](const Answer& a) { return kind_of(a.last) != kind_of(usual.last); }, usual);
  if (!text.empty()) return text;
  // Who comes back in time to answer has submitted as much as the others, but late.
  for (const Answer* a = answers; a != answers + count; ++a)
    if (a->stood_ms != 0)
      text += (text.empty() ? "rank " : ", rank ") + std::to_string(a - answers) +
              " stood still for " + std::to_string(a->stood_ms) + " ms";
  return text.empty() ? text : text + ", stopped or without a core; nobody is behind now";
}

namespace {

std::int64_t in_ms(std::chrono::steady_clock::duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

}  // namespace

void Standstill::woke(std::chrono::steady_clock::time_point since,
                      std::chrono::milliseconds asked) {
  const auto now = std::chrono::steady_clock::now();
  const auto late = now - since - asked;
  if (late < kStandstill) return;
  length_ms_.store(static_cast<std::uint32_t>(std::min<std::int64_t>(in_ms(late), 0xffff'ffff)));
  end_ms_.store(in_ms(now.time_since_epoch()));
}

std::uint32_t Standstill::within(std::chrono::milliseconds lately) const {
  const std::int64_t ago =
      in_ms(std::chrono::steady_clock::now().time_since_epoch()) - end_ms_.load();
  return ago <= lately.count() ? length_ms_.load() : 0;
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

namespace {

/// What the ranks' watchdogs say of themselves in exchange `number`, in words.
std::string ask_all(State& state, std::uint64_t id, std::uint64_t number) {
  const RollCall::Answer mine{state.collectives(),
                              static_cast<std::uint32_t>(state.last_operation()),
                              state.messages.load(std::memory_order_relaxed),
                              state.standstill.within(state.config.collective_timeout), 0};
  const OutOfBand::Among all{id, number, state.rank, state.world_size, true};
  Result<Bytes> told =
      state.channel->gather_among(all, std::as_bytes(std::span(&mine, 1)), kPatience);
  if (!told.ok()) {
    // A rank that was stopped may find the others gone on.
    const bool is_late = told.code() == StatusCode::peer_lost;
    return (is_late ? "rank " + std::to_string(state.rank) + " was too late to be asked; " : "") +
           told.message();
  }
  std::vector<RollCall::Answer> answers(static_cast<std::size_t>(state.world_size));
  if (told->size() != answers.size() * sizeof(RollCall::Answer)) return "";
  std::memcpy(answers.data(), told->data(), told->size());
  std::string text = compare(answers.data(), state.world_size);
  if (text.empty())
    text =
        "all ranks answer and have submitted the same number of operations, so a GPU, or NCCL on "
        "it, stands still";
  return text;
}

}  // namespace

void State::call_roll() {
  if (channel == nullptr || is_derived || world_size == 1 || !roll.start()) return;
  roll.finish(ask_all(*this, kRollCallId, epoch.load()));
}

void State::answer_calls() {
  const std::int64_t waited_ms = slow.waited_ms.load(std::memory_order_acquire);
  const auto complain = [&](const std::string& names) {
    slow.waited_ms.store(0);
    say(LogLevel::warn,
        "%s is not complete after %lld ms; the last operation submitted on this GPU was %s%s%s",
        to_string(slow.operation.load()), static_cast<long long>(waited_ms),
        to_string(lock->operation()), names.empty() ? "" : ". ", names.c_str());
  };
  // Ranks that do not know of each other's calls cannot answer them.
  if (channel == nullptr || is_derived || ignores_channel || world_size == 1) {
    if (waited_ms != 0) complain("");
    return;
  }
  if (channel->called() <= slow.answered) {
    if (waited_ms == 0) return;
    if (slow.asked <= slow.answered) {
      slow.asked = slow.answered + 1;
      slow.asked_at = Clock::now();
      channel->call(slow.asked);
    } else if (Clock::now() - slow.asked_at > kPatience) {
      return complain("rank 0, which carries roll calls, has left or stands still");
    }
    if (channel->called() <= slow.answered) return;
  }
  slow.answered = channel->called();
  const std::string names = ask_all(*this, mix(kSlowWaitId, epoch.load()), slow.answered);
  if (waited_ms != 0) complain(names);
}

}  // namespace comm::detail::nccl
