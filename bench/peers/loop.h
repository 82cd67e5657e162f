#pragma once

/// The timing loop that comm and its peers share, so that only the library differs. A `Peer` has
/// rank(), world(), barrier(), agree(int) (rank 0's value everywhere) and the operations below. A
/// sample is a batch of calls that takes at least 20 us; rank 0 prints "bytes p50 p99" in us, the
/// slowest rank's view of a batch being bounded by the batches themselves, which are collective.
///
///     LOOP [-op NAME] [-type f32|bf16] [-b BYTES] [-e BYTES] [-n SAMPLES] [-sizes BYTES,BYTES]
///          [-misalign BYTES]    buffers begin so far from a page; whole elements
///          [-fresh 1]           each rank writes its buffers before each call, as an engine does, so
///                               that nobody still has a peer's data in its cache; calls are timed one
///                               by one after a barrier, and the figure is the mean over ranks

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace peers {

struct Arguments {
  std::string op = "all_reduce";
  bool bf16 = false;
  std::size_t min_bytes = 8;
  std::size_t max_bytes = std::size_t{64} << 20;
  int samples = 20;
  std::size_t misalign = 0;
  bool fresh = false;
  std::vector<std::size_t> sizes;  ///< Empty: powers of two times min_bytes, up to max_bytes.
};

inline Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "-op")
      a.op = value;
    else if (flag == "-type")
      a.bf16 = value == "bf16";
    else if (flag == "-b")
      a.min_bytes = std::stoull(value);
    else if (flag == "-e")
      a.max_bytes = std::stoull(value);
    else if (flag == "-n")
      a.samples = std::stoi(value);
    else if (flag == "-misalign")
      a.misalign = std::stoull(value);
    else if (flag == "-fresh")
      a.fresh = value == "1";
    else if (flag == "-sizes")
      for (std::size_t at = 0; at < value.size(); at = value.find_first_of(',', at) + 1) {
        a.sizes.push_back(std::stoull(value.substr(at)));
        if (value.find(',', at) == std::string::npos) break;
      }
  }
  if (a.sizes.empty())
    for (std::size_t bytes = a.min_bytes; bytes <= a.max_bytes; bytes *= 2)
      a.sizes.push_back(bytes);
  return a;
}

/// What a peer without bf16 is given as its reduction: bits to float, one add, rounded to nearest
/// even. Branch-free, so that the compiler vectorises it.
inline void add_bf16(std::uint16_t* into, const std::uint16_t* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float sum = __builtin_bit_cast(float, std::uint32_t{into[i]} << 16) +
                      __builtin_bit_cast(float, std::uint32_t{from[i]} << 16);
    const auto bits = __builtin_bit_cast(std::uint32_t, sum);
    into[i] = static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
  }
}

/// One size: `bytes` is what a rank contributes (all_reduce, broadcast, send_recv), or the whole of
/// all ranks' blocks (all_gather, reduce_scatter, all_to_all), as in nccl-tests.
template <class Peer>
void call(Peer& peer, const Arguments& a, char* send, char* recv, std::size_t bytes) {
  const std::size_t block = bytes / static_cast<std::size_t>(peer.world());
  if (a.op == "all_reduce")
    peer.all_reduce(recv, bytes, a.bf16);
  else if (a.op == "all_gather")
    peer.all_gather(send, recv, block);
  else if (a.op == "reduce_scatter")
    peer.reduce_scatter(send, recv, block, a.bf16);
  else if (a.op == "broadcast")
    peer.broadcast(recv, bytes);
  else if (a.op == "all_to_all")
    peer.all_to_all(send, recv, block);
  else if (a.op == "send_recv")
    peer.send_recv(send, recv, bytes);
}

template <class Peer>
double time(Peer& peer, const Arguments& a, char* send, char* recv, std::size_t bytes, int batch) {
  using Clock = std::chrono::steady_clock;
  std::chrono::duration<double, std::micro> took{};
  if (a.fresh) {
    for (int i = 0; i < batch; ++i) {
      std::memset(send, 0, bytes);
      std::memset(recv, 0, bytes);
      peer.barrier();
      const auto begin = Clock::now();
      call(peer, a, send, recv, bytes);
      took += Clock::now() - begin;
    }
  } else {
    const auto begin = Clock::now();
    for (int i = 0; i < batch; ++i) call(peer, a, send, recv, bytes);
    took = Clock::now() - begin;
  }
  return took.count() / batch;
}

/// The mean of the ranks' figures.
template <class Peer>
double over_ranks(Peer& peer, double own) {
  const auto figure = static_cast<float>(own);
  char* const memory = peer.allocate(sizeof figure);
  std::memcpy(memory, &figure, sizeof figure);
  peer.all_reduce(memory, sizeof figure, false);
  float sum = 0;
  std::memcpy(&sum, memory, sizeof sum);
  peer.barrier();
  peer.release(memory, sizeof figure);
  return static_cast<double>(sum) / peer.world();
}

template <class Peer>
void run(Peer& peer, const Arguments& a) {
  constexpr int kProbes = 50;
  // Ranks that were just started may share a core for a while; every library gets the same time to
  // have them spread.
  constexpr auto kSettling = std::chrono::milliseconds(200);
  const auto start = std::chrono::steady_clock::now();
  while (peer.agree(std::chrono::steady_clock::now() - start < kSettling ? 1 : 0) != 0) {
  }
  for (const std::size_t bytes : a.sizes) {
    char* const sends = peer.allocate(bytes + a.misalign);
    char* const recvs = peer.allocate(bytes + a.misalign);
    char* const send = sends + a.misalign;
    char* const recv = recvs + a.misalign;
    std::memset(send, 0, bytes);
    std::memset(recv, 0, bytes);
    const auto batch_for = [&](double us) {
      return peer.agree(static_cast<int>(std::clamp(20 / std::max(us, 1e-3) + 1, 1.0, 1000.0)));
    };
    time(peer, a, send, recv, bytes, 1);
    int batch = batch_for(time(peer, a, send, recv, bytes, 1));
    if (batch > 1) batch = batch_for(time(peer, a, send, recv, bytes, kProbes));
    std::vector<double> samples;
    for (int i = -5; i < a.samples; ++i) {
      const double sample = time(peer, a, send, recv, bytes, batch);
      if (i >= 0) samples.push_back(sample);
    }
    std::sort(samples.begin(), samples.end());
    double p50 = samples[samples.size() / 2];
    if (a.fresh) p50 = over_ranks(peer, p50);
    if (peer.rank() == 0) {
      std::printf("%zu %.4f %.4f\n", bytes, p50, samples[(samples.size() * 99) / 100]);
      std::fflush(stdout);
    }
    peer.barrier();
    peer.release(recvs, bytes + a.misalign);
    peer.release(sends, bytes + a.misalign);
  }
}

inline char* allocate_pages(std::size_t bytes) {
  return static_cast<char*>(std::aligned_alloc(4096, (bytes / 4096 + 1) * 4096));
}

}  // namespace peers
