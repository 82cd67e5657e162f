#include "comm/rendezvous/proof.h"

#include <sodium.h>

#include <initializer_list>

namespace comm::detail {
namespace {

static_assert(sizeof(Mac) == crypto_auth_hmacsha256_BYTES);

const unsigned char* raw(const void* p) {
  return static_cast<const unsigned char*>(p);
}

// Each part goes in behind its length, so that bytes cannot move from one part into the next.
Mac mac_of(std::string_view secret, std::string_view label, std::initializer_list<ByteSpan> parts) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, raw(secret.data()), secret.size());
  const auto add = [&](ByteSpan part) {
    ByteWriter length;
    length.number<std::uint64_t>(part.size());
    crypto_auth_hmacsha256_update(&state, raw(length.view().data()), length.view().size());
    crypto_auth_hmacsha256_update(&state, raw(part.data()), part.size());
  };
  add(std::as_bytes(std::span(label)));
  for (const ByteSpan part : parts) add(part);
  Mac mac;
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(mac.data()));
  sodium_memzero(&state, sizeof state);
  return mac;
}

}  // namespace

Status prepare_proofs() {
  if (sodium_init() >= 0) return {};
  return make_error(StatusCode::internal, 0,
                    "rendezvous: libsodium could not be initialised (no source of random bytes?)");
}

Mac prove_worker(std::string_view secret, const Greeting& greeting, const Hello& hello) {
  return mac_of(secret, "comm/rdv 1 worker", {greeting.encode(), hello.encode_without_mac()});
}

Mac prove_root(std::string_view secret, const Greeting& greeting, const Hello& hello,
               const Verdict& verdict) {
  return mac_of(
      secret, "comm/rdv 1 root",
      {greeting.encode(), hello.encode_without_mac(), hello.mac, verdict.encode_without_mac()});
}

bool same_mac(const Mac& a, const Mac& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

void fill_random(std::span<std::byte> bytes) {
  randombytes_buf(bytes.data(), bytes.size());
}

}  // namespace comm::detail
