// A head rank that decides, and worker ranks that wait for its commands, as in a serving engine. The
// workers idle in recv_command_u32, which has no deadline and yet notices when the head is gone.
//
//   commrun -n 3 head_and_workers               two steps, then stop
//   commrun -n 3 head_and_workers --crash-head  the head is killed while the workers wait

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "comm/comm.h"
#include "examples/buffer.h"

namespace {

constexpr int kHead = 0;
enum Command : std::uint32_t { kStop, kStep };

using Communicator = comm::DefaultCommunicator;

/// What all ranks do together on a command: here, one sum.
comm::Status step(Communicator& communicator) {
  example::Buffer<float> partial(1);
  partial[0] = 0.5f;
  if (comm::Status s = communicator.all_reduce(partial.span()); !s.ok()) return s;
  if (comm::Status s = communicator.synchronize(); !s.ok()) return s;
  std::printf("rank %d: step done, sum %.1f\n", communicator.rank(),
              static_cast<double>(partial[0]));
  std::fflush(stdout);
  return {};
}

comm::Status send(Communicator& communicator, Command command) {
  example::Buffer<std::uint32_t> word(1);
  word[0] = command;
  return communicator.broadcast(word.span(), kHead);
}

comm::Status lead(Communicator& communicator, bool crash) {
  for (int i = 0; i < 2; ++i) {
    if (comm::Status s = send(communicator, kStep); !s.ok()) return s;
    if (comm::Status s = step(communicator); !s.ok()) return s;
    if (crash) std::raise(SIGKILL);
  }
  return send(communicator, kStop);
}

comm::Status work(Communicator& communicator) {
  example::Buffer<std::uint32_t> word(1);
  for (;;) {
    if (comm::Status s = communicator.recv_command_u32(word.span(), kHead); !s.ok()) return s;
    if (word[0] == kStop) break;
    if (comm::Status s = step(communicator); !s.ok()) return s;
  }
  std::printf("rank %d: told to stop\n", communicator.rank());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const bool crash = argc == 2 && std::strcmp(argv[1], "--crash-head") == 0;
  if (argc > 1 && !crash) {
    std::fprintf(stderr, "usage: head_and_workers [--crash-head]\n");
    return 2;
  }
  comm::Result<Communicator> made = Communicator::create();
  if (!made.ok()) {
    std::fprintf(stderr, "head_and_workers: %s\n", made.message());
    return 1;
  }
  comm::Status s = made->rank() == kHead ? lead(*made, crash) : work(*made);
  if (s.ok()) return 0;
  std::fprintf(stderr, "head_and_workers: %s: %s\n", comm::to_string(s.code()), s.message());
  return 1;
}
