// Arbitrary bytes through all that reads the wire: the frames, every message, the exchanges. What is
// accepted must come out of the encoder as it went in. Run by libFuzzer (libfuzzer_test.sh) and, with
// the corpus and mutations of it, by fuzz_driver.cc.

#include <cstdint>
#include <cstdlib>

#include "comm/rendezvous/exchanges.h"
#include "comm/rendezvous/frames.h"
#include "comm/rendezvous/messages.h"

using namespace comm::detail;

namespace {

// A decoded message of this protocol version stands for exactly its bytes.
template <class Message>
void try_message(const Frame& frame) {
  Message message;
  if (!message.decode(frame.body)) return;
  if constexpr (requires { message.protocol; }) {
    if (message.protocol != kProtocolVersion) return;
  }
  if (message.encode() != encode_frame(frame.type, frame.body)) std::abort();
}

void try_frame(const Frame& frame, Exchanges& exchanges) {
  switch (frame.type) {
    case FrameType::greeting: return try_message<Greeting>(frame);
    case FrameType::hello: return try_message<Hello>(frame);
    case FrameType::verdict: return try_message<Verdict>(frame);
    case FrameType::progress: return try_message<Progress>(frame);
    case FrameType::start: return try_message<Start>(frame);
    case FrameType::outcome: return try_message<Outcome>(frame);
    case FrameType::failed: return try_message<Failed>(frame);
    case FrameType::departed: return try_message<Departed>(frame);
    case FrameType::notify: return try_message<Notify>(frame);
    case FrameType::rejoin: return try_message<Rejoin>(frame);
    case FrameType::leave: return try_message<Leave>(frame);
    case FrameType::call: return try_message<Call>(frame);
    case FrameType::contribution: break;
  }
  try_message<Contribution>(frame);
  Contribution contribution;
  if (!contribution.decode(frame.body)) return;
  const std::uint32_t rank = static_cast<std::uint32_t>(contribution.timeout_ms % 3);
  static_cast<void>(exchanges.contribute(rank, contribution));
}

void read_all(Side sender, bool expect_preface, ByteSpan bytes, std::size_t cut) {
  std::size_t delivered = 0;
  Exchanges exchanges(3, [&](std::uint32_t, const SharedFrame& frame) {
    delivered += frame->size();
    Frame inner;
    FrameReader reader(Side::root, false);
    reader.append(*frame);
    if (reader.next(inner) != FrameReader::Outcome::frame) std::abort();
  });
  FrameReader reader(sender, expect_preface);
  for (const ByteSpan part : {bytes.first(cut), bytes.subspan(cut)}) {
    reader.append(part);
    Frame frame;
    FrameReader::Outcome outcome;
    while ((outcome = reader.next(frame)) == FrameReader::Outcome::frame) {
      try_frame(frame, exchanges);
    }
    if (outcome == FrameReader::Outcome::malformed) break;
  }
  exchanges.rank_gone("gone");
  if (reader.buffered() > bytes.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data) + 2, size - 2);
  const std::size_t cut = bytes.empty() ? 0 : data[1] % (bytes.size() + 1);
  read_all((data[0] & 1) != 0 ? Side::root : Side::worker, (data[0] & 2) != 0, bytes, cut);
  return 0;
}
