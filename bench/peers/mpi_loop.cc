// The loop on MPI: built twice, with Open MPI's and with MPICH's compiler wrapper.
#include <mpi.h>

#include "loop.h"

namespace {

void add_bf16(void* from, void* into, int* n, MPI_Datatype*) {
  peers::add_bf16(static_cast<std::uint16_t*>(into), static_cast<std::uint16_t*>(from),
                  static_cast<std::size_t>(*n));
}

class Mpi {
 public:
  Mpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &world_);
    MPI_Op_create(&add_bf16, 1, &bf16_sum_);
  }

  int rank() const { return rank_; }
  int world() const { return world_; }
  void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
  int agree(int value) {
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return value;
  }
  char* allocate(std::size_t bytes) { return peers::allocate_pages(bytes); }
  void release(char* memory, std::size_t) { std::free(memory); }

  void all_reduce(char* buffer, std::size_t bytes, bool bf16) {
    MPI_Allreduce(MPI_IN_PLACE, buffer, count(bytes, bf16), type(bf16), op(bf16), MPI_COMM_WORLD);
  }
  void all_gather(char* send, char* recv, std::size_t block) {
    const int n = static_cast<int>(block);
    MPI_Allgather(send, n, MPI_BYTE, recv, n, MPI_BYTE, MPI_COMM_WORLD);
  }
  void reduce_scatter(char* send, char* recv, std::size_t block, bool bf16) {
    MPI_Reduce_scatter_block(send, recv, count(block, bf16), type(bf16), op(bf16), MPI_COMM_WORLD);
  }
  void broadcast(char* buffer, std::size_t bytes) {
    MPI_Bcast(buffer, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
  }
  void all_to_all(char* send, char* recv, std::size_t block) {
    const int n = static_cast<int>(block);
    MPI_Alltoall(send, n, MPI_BYTE, recv, n, MPI_BYTE, MPI_COMM_WORLD);
  }
  void send_recv(char* send, char* recv, std::size_t bytes) {
    const int n = static_cast<int>(bytes);
    MPI_Sendrecv(send, n, MPI_BYTE, (rank_ + 1) % world_, 0, recv, n, MPI_BYTE,
                 (rank_ + world_ - 1) % world_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

 private:
  static int count(std::size_t bytes, bool bf16) {
    return static_cast<int>(bytes / (bf16 ? 2 : 4));
  }
  static MPI_Datatype type(bool bf16) { return bf16 ? MPI_UINT16_T : MPI_FLOAT; }
  MPI_Op op(bool bf16) const { return bf16 ? bf16_sum_ : MPI_SUM; }

  int rank_ = 0;
  int world_ = 0;
  MPI_Op bf16_sum_ = MPI_OP_NULL;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    Mpi mpi;
    peers::run(mpi, peers::parse(argc, argv));
  }
  MPI_Finalize();
  return 0;
}
