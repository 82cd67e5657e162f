#include "comm/rendezvous/messages.h"

namespace comm::detail {
namespace {

constexpr std::size_t kMaxReport = 1000;

ByteVector frame(FrameType type, const ByteWriter& body) {
  return encode_frame(type, body.view());
}

void write(ByteWriter& w, const ProcessId& p) {
  w.number<std::uint32_t>(p.pid);
  w.number<std::uint64_t>(p.start_time);
  w.number<std::uint64_t>(p.pid_namespace);
  w.bytes(p.boot);
}

bool read(ByteReader& r, ProcessId& p) {
  return r.number(p.pid) && r.number(p.start_time) && r.number(p.pid_namespace) && r.array(p.boot);
}

template <class Enum>
bool read_enum(ByteReader& r, Enum& value, Enum last) {
  std::uint8_t raw = 0;
  if (!r.number(raw) || raw > static_cast<std::uint8_t>(last)) return false;
  value = static_cast<Enum>(raw);
  return true;
}

}  // namespace

ByteVector Greeting::encode() const {
  ByteWriter w;
  w.number<std::uint16_t>(protocol);
  w.number<std::uint16_t>(demands_secret ? 1 : 0);
  w.bytes(nonce);
  return frame(FrameType::greeting, w);
}

bool Greeting::decode(ByteSpan body) {
  ByteReader r(body);
  std::uint16_t flags = 0;
  if (!r.number(protocol)) return false;
  // Another version may look different from here on; it is enough to know that it is another.
  if (protocol != kProtocolVersion) return true;
  if (!r.number(flags) || flags > 1) return false;
  demands_secret = flags == 1;
  return r.array(nonce) && r.at_end();
}

ByteVector Hello::encode_without_mac() const {
  ByteWriter w;
  w.number<std::uint16_t>(protocol);
  w.number<std::uint16_t>(0);
  w.number<std::uint32_t>(rank);
  w.number<std::uint32_t>(world_size);
  w.number<std::uint64_t>(epoch);
  w.number<std::uint32_t>(remaining_ms);
  w.bytes(instance);
  write(w, process);
  for (const std::string* text : {&job_id, &host, &backend, &backend_version, &fingerprint}) {
    w.text(*text, kMaxText);
  }
  w.bytes(nonce);
  return std::move(w).take();
}

ByteVector Hello::encode() const {
  ByteWriter w;
  w.bytes(encode_without_mac());
  w.bytes(mac);
  return frame(FrameType::hello, w);
}

bool Hello::decode(ByteSpan body) {
  ByteReader r(body);
  if (!r.number(protocol)) return false;
  if (protocol != kProtocolVersion) return true;
  if (!r.skip_zeros(2) || !r.number(rank) || !r.number(world_size) || !r.number(epoch) ||
      !r.number(remaining_ms) || !r.array(instance) || !read(r, process)) {
    return false;
  }
  for (std::string* text : {&job_id, &host, &backend, &backend_version, &fingerprint}) {
    if (!r.text(*text, kMaxText)) return false;
  }
  return r.array(nonce) && r.array(mac) && r.at_end();
}

ByteVector Verdict::encode_without_mac() const {
  ByteWriter w;
  w.number<std::uint8_t>(static_cast<std::uint8_t>(reason));
  w.number<std::uint8_t>(0);
  w.number<std::uint16_t>(0);
  w.number<std::uint64_t>(epoch);
  write(w, root);
  w.text(text, kMaxReport);
  return std::move(w).take();
}

ByteVector Verdict::encode() const {
  ByteWriter w;
  w.bytes(encode_without_mac());
  w.bytes(mac);
  return frame(FrameType::verdict, w);
}

bool Verdict::decode(ByteSpan body) {
  ByteReader r(body);
  return read_enum(r, reason, kLastReason) && r.skip_zeros(3) && r.number(epoch) && read(r, root) &&
         r.text(text, kMaxReport) && r.array(mac) && r.at_end();
}

ByteVector Progress::encode() const {
  ByteWriter w;
  w.text(text, kMaxReport);
  return frame(FrameType::progress, w);
}

bool Progress::decode(ByteSpan body) {
  ByteReader r(body);
  return r.text(text, kMaxReport) && r.at_end();
}

ByteVector Start::encode() const {
  ByteWriter w;
  w.number<std::uint64_t>(epoch);
  w.bytes(session);
  return frame(FrameType::start, w);
}

bool Start::decode(ByteSpan body) {
  ByteReader r(body);
  return r.number(epoch) && r.array(session) && r.at_end();
}

const char* to_string(ExchangeKind kind) {
  switch (kind) {
    case ExchangeKind::barrier: return "barrier";
    case ExchangeKind::broadcast: return "broadcast";
    case ExchangeKind::all_gather: return "all_gather";
    case ExchangeKind::among: return "exchange";
  }
  return "unknown exchange";
}

ByteVector Contribution::encode() const {
  ByteWriter w;
  w.number<std::uint64_t>(sequence);
  w.number<std::uint8_t>(static_cast<std::uint8_t>(kind));
  w.number<std::uint8_t>(0);
  w.number<std::uint16_t>(0);
  w.number<std::uint32_t>(root);
  w.number<std::uint32_t>(timeout_ms);
  w.bytes(payload);
  return frame(FrameType::contribution, w);
}

bool Contribution::decode(ByteSpan body) {
  ByteReader r(body);
  if (!r.number(sequence) || !read_enum(r, kind, ExchangeKind::among) || !r.skip_zeros(3) ||
      !r.number(root) || !r.number(timeout_ms)) {
    return false;
  }
  payload = r.rest();
  return payload.size() <= kMaxContribution;
}

namespace {

/// Beside the size, which is never as large.
constexpr std::uint32_t kSumsBit = std::uint32_t{1} << 31;

}  // namespace

ByteVector Among::encode() const {
  ByteWriter w;
  w.number<std::uint64_t>(id);
  w.number<std::uint64_t>(number);
  w.number<std::uint32_t>(rank);
  w.number<std::uint32_t>(size | (sums ? kSumsBit : 0));
  w.bytes(payload);
  return std::move(w).take();
}

bool Among::decode(ByteSpan bytes) {
  ByteReader r(bytes);
  if (!r.number(id) || !r.number(number) || !r.number(rank) || !r.number(size)) return false;
  sums = (size & kSumsBit) != 0;
  size &= ~kSumsBit;
  payload = r.rest();
  return rank < size && (!sums || payload.size() >= sizeof(std::uint64_t));
}

ByteVector Outcome::encode() const {
  ByteWriter w;
  w.number<std::uint64_t>(sequence);
  w.number<std::uint8_t>(static_cast<std::uint8_t>(code));
  w.number<std::uint8_t>(0);
  w.number<std::uint16_t>(0);
  w.bytes(payload);
  return frame(FrameType::outcome, w);
}

bool Outcome::decode(ByteSpan body) {
  ByteReader r(body);
  if (!r.number(sequence) || !read_enum(r, code, OutcomeCode::peer_lost) || !r.skip_zeros(3)) {
    return false;
  }
  payload = r.rest();
  return true;
}

ByteVector Failed::encode() const {
  ByteWriter w;
  w.number<std::uint8_t>(static_cast<std::uint8_t>(kind));
  w.number<std::uint8_t>(0);
  w.number<std::uint16_t>(0);
  w.number<std::uint32_t>(rank);
  w.text(text, kMaxReport);
  return frame(FrameType::failed, w);
}

bool Failed::decode(ByteSpan body) {
  ByteReader r(body);
  return read_enum(r, kind, FailureKind::mismatch) && r.skip_zeros(3) && r.number(rank) &&
         r.text(text, kMaxReport) && r.at_end();
}

ByteVector Departed::encode() const {
  ByteWriter w;
  w.number<std::uint32_t>(rank);
  w.number<std::uint64_t>(done);
  return frame(FrameType::departed, w);
}

bool Departed::decode(ByteSpan body) {
  ByteReader r(body);
  return r.number(rank) && r.number(done) && r.at_end();
}

ByteVector Leave::encode() const {
  ByteWriter w;
  w.number<std::uint64_t>(done);
  return frame(FrameType::leave, w);
}

bool Leave::decode(ByteSpan body) {
  ByteReader r(body);
  return r.number(done) && r.at_end();
}

ByteVector Call::encode() const {
  ByteWriter w;
  w.number<std::uint64_t>(number);
  return frame(FrameType::call, w);
}

bool Call::decode(ByteSpan body) {
  ByteReader r(body);
  return r.number(number) && r.at_end();
}

ByteVector Notify::encode() const {
  ByteWriter w;
  w.text(text, kMaxText);
  return frame(FrameType::notify, w);
}

bool Notify::decode(ByteSpan body) {
  ByteReader r(body);
  return r.text(text, kMaxText) && r.at_end();
}

ByteVector Rejoin::encode() const {
  ByteWriter w;
  w.number<std::uint64_t>(epoch);
  w.number<std::uint32_t>(timeout_ms);
  return frame(FrameType::rejoin, w);
}

bool Rejoin::decode(ByteSpan body) {
  ByteReader r(body);
  return r.number(epoch) && r.number(timeout_ms) && r.at_end();
}

}  // namespace comm::detail
