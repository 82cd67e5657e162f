// The loop on Gloo over TCP. Gloo has no reduce-scatter of this shape and no send_recv call, so those
// are not measured. RANK, WORLD_SIZE and GLOO_STORE (an empty folder) come from the environment.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "loop.h"

namespace {

void sum_f32(void* into, const void* a, const void* b, std::size_t n) {
  auto* out = static_cast<float*>(into);
  const auto* x = static_cast<const float*>(a);
  const auto* y = static_cast<const float*>(b);
  for (std::size_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

void sum_bf16(void* into, const void* a, const void* b, std::size_t n) {
  if (into != a) std::memmove(into, a, n * 2);
  peers::add_bf16(static_cast<std::uint16_t*>(into), static_cast<const std::uint16_t*>(b), n);
}

class Gloo {
 public:
  Gloo(int rank, int world, const char* store) : rank_(rank), world_(world) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore files(store);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, world);
    context->connectFullMesh(files, device);
    context_ = context;
  }

  int rank() const { return rank_; }
  int world() const { return world_; }
  void barrier() {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  int agree(int value) {
    gloo::BroadcastOptions options(context_);
    options.setOutput(&value, 1);
    options.setRoot(0);
    gloo::broadcast(options);
    return value;
  }
  char* allocate(std::size_t bytes) { return peers::allocate_pages(bytes); }
  void release(char* memory, std::size_t) { std::free(memory); }

  void all_reduce(char* buffer, std::size_t bytes, bool bf16) {
    gloo::AllreduceOptions options(context_);
    if (bf16) {
      options.setOutput(reinterpret_cast<std::uint16_t*>(buffer), bytes / 2);
      options.setReduceFunction(&sum_bf16);
    } else {
      options.setOutput(reinterpret_cast<float*>(buffer), bytes / 4);
      options.setReduceFunction(&sum_f32);
    }
    gloo::allreduce(options);
  }
  void all_gather(char* send, char* recv, std::size_t block) {
    gloo::AllgatherOptions options(context_);
    options.setInput(send, block);
    options.setOutput(recv, block * static_cast<std::size_t>(world_));
    gloo::allgather(options);
  }
  void reduce_scatter(char*, char*, std::size_t, bool) {}
  void broadcast(char* buffer, std::size_t bytes) {
    gloo::BroadcastOptions options(context_);
    options.setOutput(buffer, bytes);
    options.setRoot(0);
    gloo::broadcast(options);
  }
  void all_to_all(char* send, char* recv, std::size_t block) {
    const std::size_t whole = block * static_cast<std::size_t>(world_);
    gloo::AlltoallOptions options(context_);
    options.setInput(send, whole);
    options.setOutput(recv, whole);
    gloo::alltoall(options);
  }
  void send_recv(char*, char*, std::size_t) {}

 private:
  int rank_;
  int world_;
  std::shared_ptr<gloo::Context> context_;
};

}  // namespace

int main(int argc, char** argv) {
  const peers::Arguments arguments = peers::parse(argc, argv);
  if (arguments.op == "reduce_scatter" || arguments.op == "send_recv") return 0;
  Gloo gloo(std::atoi(std::getenv("RANK")), std::atoi(std::getenv("WORLD_SIZE")),
            std::getenv("GLOO_STORE"));
  peers::run(gloo, arguments);
  return 0;
}
