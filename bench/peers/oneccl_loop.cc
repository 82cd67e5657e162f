// The loop on oneCCL, for CPUs. Each call waits for its event, since the others' calls are blocking,
// and operations are not cached, as oneCCL's are not without a match id. It stands on Intel
// MPI, whose launcher sets PMI_RANK and PMI_SIZE; ONECCL_STORE is an empty folder. A send_recv of two
// blocking calls would not be the same operation, so there is none.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <oneapi/ccl.hpp>
#include <thread>
#include <vector>

#include "loop.h"

namespace {

// Rank 0's address, by a file that appears whole.
ccl::shared_ptr_class<ccl::kvs> meet(int rank, const std::filesystem::path& store) {
  const std::filesystem::path path = store / "address";
  if (rank == 0) {
    ccl::shared_ptr_class<ccl::kvs> kvs = ccl::create_main_kvs();
    const ccl::kvs::address_type address = kvs->get_address();
    std::ofstream(store / "part", std::ios::binary)
        .write(address.data(), static_cast<std::streamsize>(address.size()));
    std::filesystem::rename(store / "part", path);
    return kvs;
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(path) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  ccl::kvs::address_type address;
  std::ifstream(path, std::ios::binary)
      .read(address.data(), static_cast<std::streamsize>(address.size()));
  return ccl::create_kvs(address);
}

class OneCcl {
 public:
  OneCcl(int rank, int world, const char* store)
      : rank_(rank),
        world_(world),
        comm_(ccl::create_communicator(world, rank, meet(rank, store))) {}

  int rank() const { return rank_; }
  int world() const { return world_; }
  void barrier() { ccl::barrier(comm_).wait(); }
  int agree(int value) {
    ccl::broadcast(&value, 1, 0, comm_).wait();
    return value;
  }
  char* allocate(std::size_t bytes) { return peers::allocate_pages(bytes); }
  void release(char* memory, std::size_t) { std::free(memory); }

  void all_reduce(char* buffer, std::size_t bytes, bool bf16) {
    ccl::allreduce(buffer, buffer, count(bytes, bf16), type(bf16), ccl::reduction::sum, comm_)
        .wait();
  }
  void all_gather(char* send, char* recv, std::size_t block) {
    const ccl::vector_class<std::size_t> counts(static_cast<std::size_t>(world_), block);
    ccl::allgatherv(send, block, recv, counts, ccl::datatype::int8, comm_).wait();
  }
  void reduce_scatter(char* send, char* recv, std::size_t block, bool bf16) {
    ccl::reduce_scatter(send, recv, count(block, bf16), type(bf16), ccl::reduction::sum, comm_)
        .wait();
  }
  void broadcast(char* buffer, std::size_t bytes) {
    ccl::broadcast(buffer, bytes, ccl::datatype::int8, 0, comm_).wait();
  }
  void all_to_all(char* send, char* recv, std::size_t block) {
    ccl::alltoall(send, recv, block, ccl::datatype::int8, comm_).wait();
  }
  void send_recv(char*, char*, std::size_t) {}

 private:
  static std::size_t count(std::size_t bytes, bool bf16) { return bytes / (bf16 ? 2 : 4); }
  static ccl::datatype type(bool bf16) {
    return bf16 ? ccl::datatype::bfloat16 : ccl::datatype::float32;
  }

  int rank_;
  int world_;
  ccl::communicator comm_;
};

}  // namespace

int main(int argc, char** argv) {
  const peers::Arguments arguments = peers::parse(argc, argv);
  if (arguments.op == "send_recv") return 0;
  ccl::init();
  OneCcl peer(std::atoi(std::getenv("PMI_RANK")), std::atoi(std::getenv("PMI_SIZE")),
              std::getenv("ONECCL_STORE"));
  peers::run(peer, arguments);
  return 0;
}
