#pragma once

/// Who knows the secret, without saying it: HMAC-SHA-256 (libsodium) over everything both sides have
/// said, a nonce of each included, under a different label for each direction, so that an answer can
/// be neither replayed nor reflected. Also random bytes. Costs microseconds; thread-safe.

#include <span>
#include <string_view>

#include "comm/rendezvous/messages.h"
#include "comm/status.h"

namespace comm::detail {

/// Makes the library ready; to be called before anything below.
Status prepare_proofs();

/// The worker's proof covers the greeting and its own hello.
Mac prove_worker(std::string_view secret, const Greeting& greeting, const Hello& hello);

/// The root's proof covers these and its verdict.
Mac prove_root(std::string_view secret, const Greeting& greeting, const Hello& hello,
               const Verdict& verdict);

/// In a time that does not depend on where they differ.
bool same_mac(const Mac& a, const Mac& b);

void fill_random(std::span<std::byte> bytes);

}  // namespace comm::detail
