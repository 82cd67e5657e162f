#pragma once

/// `HandOver` gives the descriptor of the shared file from rank 0 to the other ranks, over a socket
/// in the abstract namespace, which no crash leaves behind. Its name is random; who connects must be
/// of the same user and show a random token that only ranks were told, and a stranger that connects
/// and says nothing delays nobody.
///
/// Every wait ends at the deadline, or as soon as `check` says that the ranks will not all come.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "comm/rendezvous/unique_fd.h"
#include "comm/result.h"

namespace comm::detail::host {

class HandOver {
 public:
  using Token = std::array<std::byte, 16>;

  /// On rank 0, before any other rank is told the name.
  static Result<HandOver> listen(const std::string& name);

  const Token& token() const { return token_; }

  /// Serves ranks 1 … size - 1.
  Status serve(int fd, int size, std::int64_t deadline_ns, const std::function<Status()>& check);

  /// On the other ranks.
  static Result<UniqueFd> receive(const std::string& name, const Token& token, int rank,
                                  std::int64_t deadline_ns, const std::function<Status()>& check);

 private:
  UniqueFd listener_;
  Token token_{};
};

}  // namespace comm::detail::host
