// Every operation, every fault, several world sizes, with and without a CUDA graph: each case ends
// within its deadline, on every rank, with an error that says who or what, or with the right result;
// and afterwards all ranks come back.
//
//     fault_product [--cases=N] [--seed=N] [--seconds=N] [--only=OPERATION] [--table] [--check=FILE]
//
// Without --cases it runs them all, which takes minutes. --table prints what came of each operation
// and fault as the table of docs/reliability.md; --check looks whether a file has a table of that form.

#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "comm/backends/nccl.h"
#include "comm/rendezvous/listener.h"
#include "comm/testing/simulated/report.h"
#include "tests/health/board.h"
#include "tests/health/device_buffers.h"
#include "tests/health/faults.h"
#include "tests/health/outcome_table.h"

namespace {

using namespace comm;
using namespace comm::test;
using std::chrono::milliseconds;

constexpr milliseconds kDeadline{300};
/// What a machine with other work to do may add to the deadline.
constexpr std::int64_t kSlackMs = 10'000;
constexpr std::size_t kMostCount = 3000;

struct Case {
  Kind kind;
  Trouble trouble;
  bool captured;
  std::size_t count;
  int victim;
};

/// What a rank was told, and how it stood afterwards.
struct Outcome {
  Status status;
  std::int64_t took_ms = 0;
  bool right = true;
};

/// Ranks as threads, which all run the same cases one after the other.
class World {
 public:
  World(int size, const std::vector<Case>& cases, OutcomeTable& table, std::int64_t until_ms)
      : size_(size),
        cases_(cases),
        table_(table),
        until_ms_(until_ms),
        step_(size),
        outcomes_(static_cast<std::size_t>(size)) {}

  /// The number of complaints.
  int run() {
    auto listener = Listener::bind("127.0.0.1", 0);
    if (!listener.ok()) return 1;
    listener_ = std::move(*listener);
    std::vector<std::thread> threads;
    std::thread watch([this] { watch_over(); });
    for (int rank = 0; rank < size_; ++rank) threads.emplace_back([this, rank] { live(rank); });
    for (std::thread& thread : threads) thread.join();
    is_over_ = true;
    watch.join();
    return complaints_;
  }
  int cases_run() const { return cases_run_; }

 private:
  NcclConfig config(int rank) const {
    NcclConfig config;
    config.launch = LaunchConfig::local(rank, size_, listener_->port());
    if (rank == 0) config.launch->listener = listener_;
    config.launch->init_timeout = std::chrono::seconds(60);
    config.device = rank;
    config.collective_timeout = kDeadline;
    config.reconnect_timeout = std::chrono::seconds(15);
    config.close_timeout = std::chrono::seconds(2);
    config.abort_timeout = std::chrono::seconds(5);
    config.receive_buffer_bytes = 8192;
    config.one_shot_bytes = 1024;
    config.log = [](std::string_view) {};
    return config;
  }

  void live(int rank) {
    (void)cudaSetDevice(rank);
    const DeviceBuffers memory(size_, kMostCount);
    auto made = Communicator<Nccl>::create(config(rank));
    if (!made.ok()) return complain("create: " + std::string(made.message()));
    std::optional<Communicator<Nccl>> c(std::move(*made));
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      if (rank == 0) begin(i);
      step_.arrive_and_wait();
      if (is_stopped_) break;
      one_case(*c, cases_[i], memory, rank);
      step_.arrive_and_wait();
      if (rank == 0) judge(cases_[i]);
      if (!is_harmless(cases_[i].trouble)) come_back(c, cases_[i], memory, rank);
      step_.arrive_and_wait();
    }
  }

  void begin(std::size_t i) {
    is_stopped_ = complaints_ > 5 || (until_ms_ != 0 && now_ms() > until_ms_);
    if (is_stopped_) return;
    ++cases_run_;
    began_ms_ = now_ms();
    simulated::clear_faults();
    (void)simulated::take_reports();
    const Case& c = cases_[i];
    current_ = &c;
    inject(c.trouble, native_call(c.kind, size_, c.count * sizeof(float)), c.victim);
  }

  void one_case(Communicator<Nccl>& c, const Case& which, const DeviceBuffers& memory, int rank) {
    Task task{which.kind, which.count, 0, static_cast<int>(which.count)};
    memory.fill(input(task, rank, size_));
    Outcome& outcome = outcomes_[static_cast<std::size_t>(rank)];
    outcome = Outcome();
    const std::int64_t began = now_ms();
    const bool is_victim = rank == which.victim;
    step_.arrive_and_wait();
    if (is_victim && which.trouble == Trouble::leaves) {
      outcome.status = c.backend().close();
    } else if (is_victim && which.trouble == Trouble::aborts) {
      outcome.status = c.abort();
    } else if (!is_victim || which.trouble != Trouble::absent) {
      if (is_victim && which.trouble == Trouble::other_call)
        task.kind = which.kind == Kind::all_gather ? Kind::all_reduce_max : Kind::all_gather;
      const auto call = [&] {
        return test::run(c, task, memory.send(), memory.recv(), Stream(memory.stream), kDeadline);
      };
      Captured graph(memory.stream);
      Status s = which.captured ? graph.launch(call) : call();
      if (s.ok()) s = c.synchronize(Stream(memory.stream), kDeadline);
      outcome.took_ms = now_ms() - began;
      if (s.ok()) outcome.right = memory.holds(expected(task, rank, size_));
      outcome.status = std::move(s);
      // What NCCL was to do is over before its graph goes and its memory is used again.
      if (!outcome.status.ok()) c.abort().ignore();
    }
  }

  void judge(const Case& which) {
    int failed = 0;
    std::string kinds;
    for (int rank = 0; rank < size_; ++rank) {
      const Outcome& o = outcomes_[static_cast<std::size_t>(rank)];
      const std::string message = o.status.message();
      if (o.took_ms > 3 * kDeadline.count() + kSlackMs)
        complain(describe(which, rank) + "took " + std::to_string(o.took_ms) + " ms: " + message);
      if (o.status.ok() && !o.right && which.trouble != Trouble::other_call &&
          which.trouble != Trouble::lost_event)
        complain(describe(which, rank) + "ok with a wrong result");
      const bool acts = rank == which.victim &&
                        (which.trouble == Trouble::absent || which.trouble == Trouble::aborts ||
                         which.trouble == Trouble::leaves);
      if (o.status.ok() || acts) continue;
      ++failed;
      table_.add(which.kind, which.trouble, to_string(o.status.code()));
      if (is_harmless(which.trouble)) complain(describe(which, rank) + message);
      if (!is_named(which, message)) complain(describe(which, rank) + "names nobody: " + message);
    }
    if (failed == 0) table_.add(which.kind, which.trouble, "ok");
    const bool must_fail =
        !is_harmless(which.trouble) && which.trouble != Trouble::lost_event && !may_pass(which);
    if (failed == 0 && must_fail) complain(describe(which, 0) + "nobody was told");
    // These lead to what the simulation reports, by their nature.
    if (which.trouble == Trouble::other_call || which.trouble == Trouble::lost_event) return;
    for (const simulated::Report& report : simulated::take_reports())
      complain(describe(which, 0) + "reported: " + report.text);
  }

  /// Where the others need nothing of the victim, or it has nobody to wait for.
  bool may_pass(const Case& which) const {
    if (which.kind == Kind::send_to_recv_from && size_ % 2 == 1 && which.victim == size_ - 1)
      return true;
    // Where data flows one way, a rank may be done before the victim's part is missed.
    const bool one_way = which.kind == Kind::broadcast || which.kind == Kind::broadcast_async ||
                         which.kind == Kind::recv_command_u32 || which.kind == Kind::reduce ||
                         which.kind == Kind::gather || which.kind == Kind::scatter;
    return one_way && (which.trouble == Trouble::peer_dies || which.trouble == Trouble::absent ||
                       which.trouble == Trouble::leaves || which.trouble == Trouble::aborts ||
                       which.trouble == Trouble::never_ends);
  }

  /// Either which rank, or which call of which library failed.
  bool is_named(const Case& which, const std::string& message) const {
    const std::string victim = std::to_string(which.victim);
    for (const char* word : {"rank ", "ranks ", ", ", "and "})
      for (std::size_t at = message.find(word + victim); at != std::string::npos;
           at = message.find(word + victim, at + 1))
        if (message.compare(at + std::strlen(word) + victim.size(), 4, " of ") != 0 ||
            which.trouble == Trouble::cuda_fails || which.trouble == Trouble::fails ||
            which.trouble == Trouble::async_error || which.trouble == Trouble::aborts)
          return true;
    // NCCL tells nobody who stands still; the message must say that all have come.
    return message.find("stands still") != std::string::npos &&
           (which.trouble == Trouble::never_ends || which.trouble == Trouble::peer_dies ||
            which.trouble == Trouble::blocks || which.trouble == Trouble::other_call ||
            which.trouble == Trouble::lost_event);
  }

  void come_back(std::optional<Communicator<Nccl>>& c, const Case& which,
                 const DeviceBuffers& memory, int rank) {
    simulated::clear_faults();
    if (rank == which.victim && which.trouble == Trouble::leaves) {
      c.reset();
      auto again = Communicator<Nccl>::create(config(rank));
      if (!again.ok()) {
        complain(describe(which, rank) + "create: " + again.message());
        std::_Exit(1);  // The other ranks have nobody to go on with.
      }
      c.emplace(std::move(*again));
    } else {
      Status back = c->attempt_reconnect();
      // Rank 0 may leave only now, and turns those away that wait for it to begin.
      for (int i = 0; which.trouble == Trouble::leaves && !back.ok() && i < 50; ++i)
        back = c->attempt_reconnect();
      if (!back.ok())
        return complain(describe(which, rank) + "attempt_reconnect: " + back.message());
    }
    const Task task{Kind::all_reduce, 10, 0, 1};
    memory.fill(input(task, rank, size_));
    Status s = test::run(*c, task, memory.send(), memory.recv(), Stream(memory.stream));
    if (s.ok()) s = c->synchronize(Stream(memory.stream), std::chrono::seconds(60));
    if (!s.ok() || !memory.holds(expected(task, rank, size_)))
      complain(describe(which, rank) + "after the reconnect: " + s.message());
  }

  std::string describe(const Case& c, int rank) const {
    return std::string(name_of(c.kind)) + (c.captured ? " in a graph" : "") + " of " +
           std::to_string(c.count) + ", " + name_of(c.trouble) + " on rank " +
           std::to_string(c.victim) + "; rank " + std::to_string(rank) + " of " +
           std::to_string(size_) + ": ";
  }

  void complain(const std::string& text) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (complaints_++ < 10) std::fprintf(stderr, "WRONG: %s\n", text.c_str());
  }

  void watch_over() {
    while (!is_over_) {
      std::this_thread::sleep_for(milliseconds(100));
      const std::int64_t since = now_ms() - began_ms_.load();
      if (began_ms_.load() == 0 || since < 100'000) continue;
      std::fprintf(stderr, "HUNG: %s\n", describe(*current_.load(), -1).c_str());
      std::abort();
    }
  }

  const int size_;
  const std::vector<Case>& cases_;
  OutcomeTable& table_;
  const std::int64_t until_ms_;
  std::shared_ptr<Listener> listener_;
  std::barrier<> step_;
  std::vector<Outcome> outcomes_;
  std::atomic<bool> is_stopped_{false};
  std::atomic<bool> is_over_{false};
  std::atomic<std::int64_t> began_ms_{0};
  std::atomic<const Case*> current_{nullptr};
  std::mutex mutex_;
  std::atomic<int> complaints_{0};
  int cases_run_ = 0;
};

std::vector<Case> all_cases(int size, const std::string& only) {
  std::vector<Case> cases;
  for (int k = 0; k < kKinds; ++k) {
    if (!only.empty() && only != name_of(static_cast<Kind>(k))) continue;
    for (int t = 0; t < kTroubles; ++t)
      for (const bool captured : {false, true})
        // Either way of a small sum, and either end of a chain of ranks.
        for (const auto& [count, victim] :
             {std::pair{std::size_t{64}, 0}, {std::size_t{64}, size - 1}, {kMostCount, size / 2}})
          if (applies(static_cast<Kind>(k), static_cast<Trouble>(t), captured))
            cases.push_back(
                {static_cast<Kind>(k), static_cast<Trouble>(t), captured, count, victim});
  }
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t most = 0;
  std::uint64_t seed = 1;
  std::int64_t seconds = 0;
  std::string only;
  bool table_wanted = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const char* value = argument.c_str() + argument.find('=') + 1;
    if (argument.rfind("--cases=", 0) == 0) most = std::strtoull(value, nullptr, 10);
    if (argument.rfind("--seed=", 0) == 0) seed = std::strtoull(value, nullptr, 10);
    if (argument.rfind("--seconds=", 0) == 0) seconds = std::strtoll(value, nullptr, 10);
    if (argument.rfind("--only=", 0) == 0) only = value;
    if (argument.rfind("--check=", 0) == 0 && !OutcomeTable::is_in(value)) {
      std::fprintf(stderr, "%s lacks the table that --table prints\n", value);
      return 1;
    }
    table_wanted = table_wanted || argument == "--table";
  }
  // Processes, since most of a case is waiting: one for each world size, more where all is run.
  const int shards = most == 0 && seconds == 0 ? 3 : 1;
  constexpr int kSizes[] = {2, 3, 4, 8};
  struct Part {
    pid_t pid;
    std::FILE* out;
  };
  std::vector<Part> parts;
  for (const int size : kSizes) {
    std::vector<Case> cases = all_cases(size, only);
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(size));
    std::shuffle(cases.begin(), cases.end(), random);
    if (most != 0) cases.resize(std::min(cases.size(), most / 4));
    for (int shard = 0; shard < shards; ++shard) {
      int ends[2];
      if (pipe(ends) != 0) return 2;
      std::fflush(nullptr);
      const pid_t pid = fork();
      if (pid == 0) {
        std::vector<Case> own;
        for (std::size_t i = static_cast<std::size_t>(shard); i < cases.size();
             i += static_cast<std::size_t>(shards))
          own.push_back(cases[i]);
        OutcomeTable table;
        World world(size, own, table, seconds == 0 ? 0 : now_ms() + 1000 * seconds);
        const int complaints = world.run();
        std::FILE* out = fdopen(ends[1], "w");
        table.write(out);
        std::fprintf(out, "%d end\n", world.cases_run());
        std::fclose(out);
        std::_Exit(complaints == 0 ? 0 : 1);
      }
      close(ends[1]);
      parts.push_back({pid, fdopen(ends[0], "r")});
    }
  }
  OutcomeTable table;
  int cases_run = 0, failed = 0;
  for (const Part& part : parts) {
    cases_run += table.read(part.out);
    std::fclose(part.out);
    int status = 0;
    waitpid(part.pid, &status, 0);
    failed += status == 0 ? 0 : 1;
  }
  if (table_wanted) table.print();
  std::fprintf(stderr, "%d cases, seed %llu, %d of %zu parts with complaints\n", cases_run,
               static_cast<unsigned long long>(seed), failed, parts.size());
  return failed == 0 ? 0 : 1;
}
