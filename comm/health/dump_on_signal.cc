#include "comm/health/dump_on_signal.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "comm/log.h"

namespace comm {
namespace {

// A signal handler is called without a context, and a signal's disposition belongs to the process:
// this much has to be global. The low half of a signal's word counts its arrivals; the high half
// counts the other reasons to look up.
constexpr std::uint32_t kArrival = 1;
constexpr std::uint32_t kNudge = 1 << 16;
constexpr std::uint32_t kArrivals = kNudge - 1;

using Word = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 4);

std::array<Word, NSIG> words;

void wake_all(Word& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void wait_while(Word& word, std::uint32_t value) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

extern "C" void comm_dump_on_signal(int signal) {
  const int before = errno;
  Word& word = words[static_cast<std::size_t>(signal)];
  word.fetch_add(kArrival, std::memory_order_relaxed);  // A carry is one nudge too many, no more.
  wake_all(word);
  errno = before;
}

/// How many use each signal, and what it did before.
class Dispositions {
 public:
  Status take(int signal) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Use& use = uses_[static_cast<std::size_t>(signal)];
    if (use.count == 0) {
      struct sigaction before {};
      if (::sigaction(signal, nullptr, &before) != 0) return refused(signal, std::strerror(errno));
      const bool has_handler = (before.sa_flags & SA_SIGINFO) != 0 ||
                               (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN);
      if (has_handler)
        return refused(signal, "this process has a handler for it already; choose another one");
      struct sigaction ours {};
      ours.sa_handler = comm_dump_on_signal;
      ours.sa_flags = SA_RESTART | SA_ONSTACK;
      ::sigfillset(&ours.sa_mask);
      if (::sigaction(signal, &ours, nullptr) != 0) return refused(signal, std::strerror(errno));
      use.before = before;
    }
    ++use.count;
    return {};
  }

  void give_back(int signal) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Use& use = uses_[static_cast<std::size_t>(signal)];
    if (--use.count == 0) ::sigaction(signal, &use.before, nullptr);
  }

  static Status refused(int signal, const char* why) {
    return make_error(StatusCode::invalid_argument, 0, "DumpOnSignal::install: signal %d: %s",
                      signal, why);
  }

 private:
  struct Use {
    int count = 0;
    struct sigaction before {};
  };
  std::mutex mutex_;
  std::array<Use, NSIG> uses_;
};

Dispositions& dispositions() {
  // Never destroyed: an object of static storage may outlive it otherwise.
  static auto* all = new Dispositions;
  return *all;
}

bool comes_from_a_fault(int signal) {
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
    if (signal == fault) return true;
  return false;
}

/// Shared with the thread, which may have to be left behind.
struct Watch {
  Watch(Word& of, FlightRecorder what) : word(of), recorder(std::move(what)) {}

  void run() {
    std::uint32_t dumped = first & kArrivals;
    for (;;) {
      const std::uint32_t seen = word.load();
      if (is_over.load()) break;
      if ((seen & kArrivals) == dumped) {
        wait_while(word, seen);
        continue;
      }
      dumped = seen & kArrivals;
      const Status written = recorder.dump(DumpReason::signal);
      if (!written.ok()) LogSink()((std::string("comm: ") + written.message() + "\n").c_str());
    }
    const std::lock_guard<std::mutex> lock(mutex);
    has_ended = true;
    ended.notify_all();
  }

  Word& word;
  const FlightRecorder recorder;
  std::uint32_t first = word.load();
  std::atomic<bool> is_over{false};
  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;
};

/// The thread gets no signal: the engine may want them elsewhere.
int start(const std::shared_ptr<Watch>& watch, pthread_t& thread) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  auto* argument = new std::shared_ptr<Watch>(watch);
  const int error = ::pthread_create(
      &thread, nullptr,
      [](void* shared) -> void* {
        const std::unique_ptr<std::shared_ptr<Watch>> own(
            static_cast<std::shared_ptr<Watch>*>(shared));
        (*own)->run();
        return nullptr;
      },
      argument);
  if (error != 0) delete argument;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

}  // namespace

struct DumpOnSignal::Waiter {
  int signal;
  pid_t pid = ::getpid();
  std::shared_ptr<Watch> watch;
  pthread_t thread{};
  bool has_thread = false;

  Waiter(int number, std::shared_ptr<Watch> shared) : signal(number), watch(std::move(shared)) {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  ~Waiter() {
    if (::getpid() != pid) return;  // The thread is the parent's, and so is the disposition.
    dispositions().give_back(signal);
    if (!has_thread) return;
    watch->is_over.store(true);
    watch->word.fetch_add(kNudge);
    wake_all(watch->word);
    std::unique_lock<std::mutex> lock(watch->mutex);
    const bool in_time =
        watch->ended.wait_for(lock, std::chrono::seconds(5), [&] { return watch->has_ended; });
    lock.unlock();
    if (in_time)
      ::pthread_join(thread, nullptr);
    else
      ::pthread_detach(thread);
  }
};

Result<DumpOnSignal> DumpOnSignal::install(int signal, FlightRecorder recorder) {
  if (signal <= 0 || signal >= NSIG)
    return Dispositions::refused(signal, "there is no such signal");
  if (comes_from_a_fault(signal))
    return Dispositions::refused(signal, "faults raise it, and a process cannot go on after one");
  if (!recorder.has_destination()) {
    return Dispositions::refused(
        signal, recorder.is_recording()
                    ? "the recorder has no place for a dump; set COMM_RECORDER_DIR, "
                      "or RecorderOptions::directory or sink"
                    : "nothing is recorded here");
  }
  auto watch =
      std::make_shared<Watch>(words[static_cast<std::size_t>(signal)], std::move(recorder));
  Status taken = dispositions().take(signal);
  if (!taken.ok()) return taken;
  auto waiter = std::make_unique<Waiter>(signal, watch);
  const int error = start(watch, waiter->thread);
  if (error != 0)
    return make_error(StatusCode::internal, error, "DumpOnSignal::install: no thread: %s",
                      std::strerror(error));
  waiter->has_thread = true;
  return DumpOnSignal(std::move(waiter));
}

DumpOnSignal::DumpOnSignal(std::unique_ptr<Waiter> waiter) noexcept : waiter_(std::move(waiter)) {}
DumpOnSignal::DumpOnSignal(DumpOnSignal&&) noexcept = default;
DumpOnSignal& DumpOnSignal::operator=(DumpOnSignal&&) noexcept = default;
DumpOnSignal::~DumpOnSignal() = default;

}  // namespace comm
