// The loop on Gloo over TCP. Its reduce-scatter is an object that is made once for a buffer, which it
// reduces in place: making it is not timed, and that the result is not in `recv` is to its favour. RANK, WORLD_SIZE and GLOO_STORE (an empty folder) come from the environment.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <memory>
#include <vector>

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

void add_bf16(std::uint16_t* into, const std::uint16_t* from, std::size_t n) {
  peers::add_bf16(into, from, n);
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
  void release(char* memory, std::size_t) {
    reduce_scatter_.reset();
    sent_.reset();
    received_.reset();
    std::free(memory);
  }

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
  void reduce_scatter(char* send, char*, std::size_t block, bool bf16) {
    if (reduce_scatter_ == nullptr) {
      static const gloo::ReductionFunction<std::uint16_t> kSumBf16(gloo::CUSTOM, &add_bf16);
      if (bf16)
        reduce_scatter_ = make_reduce_scatter<std::uint16_t>(send, block, &kSumBf16);
      else
        reduce_scatter_ =
            make_reduce_scatter<float>(send, block, gloo::ReductionFunction<float>::sum);
    }
    reduce_scatter_->run();
  }
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
  void send_recv(char* send, char* recv, std::size_t bytes) {
    if (sent_ == nullptr) {
      sent_ = context_->createUnboundBuffer(send, bytes);
      received_ = context_->createUnboundBuffer(recv, bytes);
    }
    received_->recv((rank_ + world_ - 1) % world_, 0);
    sent_->send((rank_ + 1) % world_, 0);
    sent_->waitSend();
    received_->waitRecv();
  }

 private:
  template <class T>
  std::unique_ptr<gloo::Algorithm> make_reduce_scatter(char* memory, std::size_t block,
                                                       const gloo::ReductionFunction<T>* sum) {
    const int each = static_cast<int>(block / sizeof(T));
    return std::make_unique<gloo::ReduceScatterHalvingDoubling<T>>(
        context_, std::vector<T*>{reinterpret_cast<T*>(memory)}, each * world_,
        std::vector<int>(static_cast<std::size_t>(world_), each), sum);
  }

  int rank_;
  int world_;
  std::shared_ptr<gloo::Context> context_;
  // For the buffers of now.
  std::unique_ptr<gloo::Algorithm> reduce_scatter_;
  std::unique_ptr<gloo::transport::UnboundBuffer> sent_;
  std::unique_ptr<gloo::transport::UnboundBuffer> received_;
};

}  // namespace

int main(int argc, char** argv) {
  const peers::Arguments arguments = peers::parse(argc, argv);
  Gloo gloo(std::atoi(std::getenv("RANK")), std::atoi(std::getenv("WORLD_SIZE")),
            std::getenv("GLOO_STORE"));
  peers::run(gloo, arguments);
  return 0;
}
