// The loop on comm's Host backend. COMM_LOOP_SYMMETRIC=1: buffers from symmetric_alloc.
#include "comm/backends/host.h"
#include "comm/communicator.h"
#include "comm/float_types.h"
#include "loop.h"

namespace {

void must(const comm::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "comm_loop: %s\n", status.message());
  std::exit(1);
}

template <class T>
void must(const comm::Result<T>& result) {
  must(result.status());
}

template <class T>
comm::DeviceSpan<T> as(char* memory, std::size_t bytes) {
  return {reinterpret_cast<T*>(memory), bytes / sizeof(T)};
}

class Comm {
 public:
  explicit Comm(comm::Communicator<comm::Host> communicator)
      : communicator_(std::move(communicator)),
        symmetric_(std::getenv("COMM_LOOP_SYMMETRIC") != nullptr) {}

  int rank() const { return communicator_.rank(); }
  int world() const { return communicator_.world_size(); }
  void barrier() { must(communicator_.barrier_wait()); }
  int agree(int value) {
    must(communicator_.broadcast(comm::DeviceSpan<int>(&value, 1), 0));
    return value;
  }
  char* allocate(std::size_t bytes) {
    if (!symmetric_) return peers::allocate_pages(bytes);
    comm::Result<void*> memory = communicator_.symmetric_alloc(bytes);
    must(memory);
    return static_cast<char*>(*memory);
  }
  void release(char* memory, std::size_t) {
    if (symmetric_)
      must(communicator_.symmetric_free(memory));
    else
      std::free(memory);
  }

  void all_reduce(char* buffer, std::size_t bytes, bool bf16) {
    if (bf16)
      must(communicator_.all_reduce(as<comm::bf16>(buffer, bytes)));
    else
      must(communicator_.all_reduce(as<float>(buffer, bytes)));
  }
  void all_gather(char* send, char* recv, std::size_t block) {
    must(communicator_.all_gather(as<char>(send, block), as<char>(recv, block * ranks())));
  }
  void reduce_scatter(char* send, char* recv, std::size_t block, bool bf16) {
    if (bf16) {
      must(communicator_.reduce_scatter(as<comm::bf16>(send, block / 2 * 2 * ranks()),
                                        as<comm::bf16>(recv, block)));
    } else {
      must(communicator_.reduce_scatter(as<float>(send, block / 4 * 4 * ranks()),
                                        as<float>(recv, block)));
    }
  }
  void broadcast(char* buffer, std::size_t bytes) {
    must(communicator_.broadcast(as<char>(buffer, bytes), 0));
  }
  void all_to_all(char* send, char* recv, std::size_t block) {
    must(
        communicator_.all_to_all(as<char>(send, block * ranks()), as<char>(recv, block * ranks())));
  }
  void send_recv(char* send, char* recv, std::size_t bytes) {
    must(communicator_.send_recv(as<char>(send, bytes), (rank() + 1) % world(),
                                 as<char>(recv, bytes), (rank() + world() - 1) % world()));
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(world()); }

  comm::Communicator<comm::Host> communicator_;
  bool symmetric_;
};

}  // namespace

int main(int argc, char** argv) {
  comm::Result<comm::Communicator<comm::Host>> made = comm::Communicator<comm::Host>::create();
  must(made);
  Comm comm(std::move(*made));
  peers::run(comm, peers::parse(argc, argv));
  return 0;
}
