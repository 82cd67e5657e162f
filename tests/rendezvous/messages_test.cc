#include "comm/rendezvous/messages.h"

#include <doctest/doctest.h>

#include <limits>

#include "comm/rendezvous/proof.h"

using namespace comm::detail;

namespace {

// The frame's body, or nothing where the reader does not take it.
bool body_of(Side sender, const ByteVector& wire, Frame& frame, FrameReader& reader) {
  reader = FrameReader(sender, false);
  reader.append(wire);
  return reader.next(frame) == FrameReader::Outcome::frame && reader.buffered() == 0;
}

Hello sample_hello() {
  Hello hello;
  hello.rank = 3;
  hello.world_size = 8;
  hello.epoch = ~std::uint64_t{0};
  hello.remaining_ms = 1234;
  hello.instance[5] = std::byte{7};
  hello.process = {42, 1u << 31, 4026531836u, {}};
  hello.job_id = "job";
  hello.host = "host-a";
  hello.backend = "nccl";
  hello.backend_version = "2.28.9";
  hello.fingerprint = "";
  hello.nonce[0] = std::byte{1};
  hello.mac[31] = std::byte{2};
  return hello;
}

template <class Message>
void check_only_whole(const Message& message, Side sender, bool may_be_longer = false) {
  FrameReader reader(sender);
  Frame frame;
  const ByteVector wire = message.encode();
  REQUIRE(body_of(sender, wire, frame, reader));
  const ByteVector body(frame.body.begin(), frame.body.end());
  Message copy;
  CHECK(copy.decode(body));
  CHECK(copy.encode() == wire);
  for (std::size_t n = 0; n < body.size(); ++n) {
    Message part;
    const bool taken = part.decode(ByteSpan(body).first(n));
    if (!may_be_longer) CHECK_MESSAGE(!taken, "with ", n, " of ", body.size(), " bytes");
  }
  ByteVector longer = body;
  longer.push_back(std::byte{0});
  Message more;
  CHECK(more.decode(longer) == may_be_longer);
}

}  // namespace

TEST_CASE("messages: what is encoded is decoded, whole or not at all") {
  check_only_whole(Greeting{kProtocolVersion, true, {}}, Side::root);
  check_only_whole(sample_hello(), Side::worker);
  check_only_whole(Verdict{Reason::duplicate_rank, 7, {1, 2, 3, {}}, "why", {}}, Side::root);
  check_only_whole(Progress{"2 of 3 joined"}, Side::root);
  check_only_whole(Start{9, {}}, Side::root);
  check_only_whole(Failed{FailureKind::lost, 2, "gone"}, Side::root);
  check_only_whole(Departed{4, 17}, Side::root);
  check_only_whole(Leave{17}, Side::worker);
  check_only_whole(Call{3}, Side::worker);
  check_only_whole(Call{3}, Side::root);
  check_only_whole(Notify{"broken"}, Side::worker);
  check_only_whole(Rejoin{5, 1000}, Side::worker);
  const std::string payload = "payload";
  const ByteSpan bytes = std::as_bytes(std::span(payload));
  check_only_whole(Contribution{1, ExchangeKind::broadcast, 2, 3000, bytes}, Side::worker, true);
  check_only_whole(Outcome{1, OutcomeCode::timeout, bytes}, Side::root, true);
}

TEST_CASE("messages: another protocol version is read as far as its number") {
  Hello hello;
  ByteWriter w;
  w.number<std::uint16_t>(99);
  CHECK(hello.decode(w.view()));
  CHECK(hello.protocol == 99);
  Greeting greeting;
  CHECK(greeting.decode(w.view()));
  CHECK(greeting.protocol == 99);
}

TEST_CASE("messages: texts beyond their limit are cut by the sender and refused by the receiver") {
  Hello hello = sample_hello();
  hello.job_id.assign(300, 'x');
  FrameReader reader(Side::worker);
  Frame frame;
  REQUIRE(body_of(Side::worker, hello.encode(), frame, reader));
  Hello copy;
  REQUIRE(copy.decode(frame.body));
  CHECK(copy.job_id.size() == Hello::kMaxText);

  ByteWriter w;
  w.text(std::string(1001, 'x'));
  CHECK_FALSE(Notify().decode(w.view()));
}

TEST_CASE("FAULTS 16: lengths that lie are refused and reserve no memory") {
  for (const std::uint64_t length :
       {std::uint64_t{1} << 12, std::uint64_t{1} << 20, std::uint64_t{0xffffffff},
        std::uint64_t{1} << 32, std::numeric_limits<std::uint64_t>::max() - 7}) {
    ByteWriter w;
    w.number<std::uint64_t>(length);
    FrameReader reader(Side::worker, false);
    reader.append(w.view());
    Frame frame;
    CHECK(reader.next(frame) == FrameReader::Outcome::malformed);
    CHECK(reader.buffered() == 8);
  }
  // Within its limit, but truncated: nothing but waiting.
  ByteWriter w;
  w.number<std::uint32_t>(64 * 1024 * 1024);
  w.number<std::uint32_t>(static_cast<std::uint32_t>(FrameType::outcome));
  w.number<std::uint8_t>(1);
  FrameReader reader(Side::root, false);
  reader.append(w.view());
  Frame frame;
  CHECK(reader.next(frame) == FrameReader::Outcome::incomplete);
  CHECK(reader.buffered() == 9);
}

TEST_CASE("frames: a frame of length zero is a hello that says nothing") {
  const ByteVector wire = encode_frame(FrameType::hello, {});
  FrameReader reader(Side::worker, false);
  reader.append(wire);
  Frame frame;
  REQUIRE(reader.next(frame) == FrameReader::Outcome::frame);
  CHECK_FALSE(Hello().decode(frame.body));
}

TEST_CASE("frames: the first wrong byte of the preface is enough") {
  for (const std::string text : {"GET / HTTP/1.1\r\n", "SSH-2.0", "\x16\x03\x01", "comm/rdw"}) {
    FrameReader reader(Side::worker);
    reader.append(std::as_bytes(std::span(text)));
    Frame frame;
    CHECK(reader.next(frame) == FrameReader::Outcome::malformed);
  }
}

TEST_CASE("frames: byte by byte is as good as at once") {
  ByteWriter w;
  w.bytes(preface());
  w.bytes(sample_hello().encode());
  w.bytes(Notify{"x"}.encode());
  FrameReader reader(Side::worker);
  int frames = 0;
  for (const std::byte& b : w.view()) {
    reader.append(ByteSpan(&b, 1));
    Frame frame;
    while (reader.next(frame) == FrameReader::Outcome::frame) ++frames;
  }
  CHECK(frames == 2);
  CHECK(reader.buffered() == 0);
}

TEST_CASE("frames: each side may send its own types only, with nothing in the reserved bytes") {
  Frame frame;
  FrameReader from_worker(Side::worker, false);
  from_worker.append(encode_frame(FrameType::start, {}));
  CHECK(from_worker.next(frame) == FrameReader::Outcome::malformed);
  FrameReader from_root(Side::root, false);
  from_root.append(encode_frame(FrameType::hello, {}));
  CHECK(from_root.next(frame) == FrameReader::Outcome::malformed);
  ByteVector reserved = encode_frame(FrameType::leave, {});
  reserved[6] = std::byte{1};
  FrameReader reader(Side::worker, false);
  reader.append(reserved);
  CHECK(reader.next(frame) == FrameReader::Outcome::malformed);
}

TEST_CASE("proof: depends on the secret, on both nonces, on every field, and on the direction") {
  REQUIRE(prepare_proofs().ok());
  Greeting greeting;
  greeting.demands_secret = true;
  const Hello hello = sample_hello();
  const Mac mac = prove_worker("secret", greeting, hello);
  CHECK(same_mac(mac, prove_worker("secret", greeting, hello)));
  CHECK_FALSE(same_mac(mac, prove_worker("Secret", greeting, hello)));
  Greeting other_greeting = greeting;
  other_greeting.nonce[0] = std::byte{1};
  CHECK_FALSE(same_mac(mac, prove_worker("secret", other_greeting, hello)));
  Hello other = hello;
  other.rank = 4;
  CHECK_FALSE(same_mac(mac, prove_worker("secret", greeting, other)));
  // Bytes that move from one field into the next.
  Hello moved = hello;
  moved.job_id = "jo";
  moved.host = "bhost-a";
  CHECK_FALSE(same_mac(mac, prove_worker("secret", greeting, moved)));
  Verdict verdict;
  CHECK_FALSE(same_mac(mac, prove_root("secret", greeting, hello, verdict)));
}
