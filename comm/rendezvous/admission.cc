#include "comm/rendezvous/admission.h"

#include "comm/rendezvous/log.h"
#include "comm/rendezvous/proof.h"

namespace comm::detail {
namespace {

Refusal refuse_text(Reason reason, const char* what, const Hello& hello, const std::string& got,
                    const std::string& expected) {
  return {reason, format("%s has %s '%s', rank 0 has '%s'", describe(hello).c_str(), what,
                         printable(got).c_str(), printable(expected).c_str())};
}

}  // namespace

bool Refusal::by_member() const {
  switch (reason) {
    case Reason::rank_range:
    case Reason::world_size:
    case Reason::backend:
    case Reason::backend_version:
    case Reason::fingerprint:
    case Reason::duplicate_rank: return true;
    case Reason::none:
    case Reason::malformed:
    case Reason::protocol_version:
    case Reason::job_id:
    case Reason::secret:
    case Reason::stale_epoch: return false;
  }
  return false;
}

Refusal check_hello(const Expectation& expected, const Greeting& greeting, const Hello& hello) {
  if (hello.protocol != kProtocolVersion) {
    return {Reason::protocol_version,
            format("it speaks version %u of the protocol, rank 0 speaks %u", hello.protocol,
                   kProtocolVersion)};
  }
  if (hello.job_id != expected.job_id) {
    return refuse_text(Reason::job_id, "job id", hello, hello.job_id, expected.job_id);
  }
  if (!expected.secret.empty() &&
      !same_mac(hello.mac, prove_worker(expected.secret, greeting, hello))) {
    return {Reason::secret, describe(hello) + " does not know the secret of this job"};
  }
  if (hello.rank >= expected.world_size) {
    return {Reason::rank_range,
            format("%s is outside of a world of %u", describe(hello).c_str(), expected.world_size)};
  }
  if (hello.world_size != expected.world_size) {
    return {Reason::world_size,
            format("%s says the world size is %u, rank 0 says %u", describe(hello).c_str(),
                   hello.world_size, expected.world_size)};
  }
  if (hello.backend != expected.backend) {
    return refuse_text(Reason::backend, "backend", hello, hello.backend, expected.backend);
  }
  if (hello.backend_version != expected.backend_version) {
    return refuse_text(Reason::backend_version, "backend version", hello, hello.backend_version,
                       expected.backend_version);
  }
  if (hello.fingerprint != expected.fingerprint) {
    return refuse_text(Reason::fingerprint, "settings", hello, hello.fingerprint,
                       expected.fingerprint);
  }
  return {};
}

std::string describe(const Hello& hello) {
  return format("rank %u (pid %u on %s)", hello.rank, hello.process.pid,
                printable(hello.host).c_str());
}

const char* to_string(Reason reason) {
  switch (reason) {
    case Reason::none: return "admitted";
    case Reason::malformed: return "malformed hello";
    case Reason::protocol_version: return "other protocol version";
    case Reason::job_id: return "other job id";
    case Reason::secret: return "wrong secret";
    case Reason::rank_range: return "rank out of range";
    case Reason::world_size: return "other world size";
    case Reason::stale_epoch: return "stale epoch";
    case Reason::backend: return "other backend";
    case Reason::backend_version: return "other backend version";
    case Reason::fingerprint: return "other settings";
    case Reason::duplicate_rank: return "duplicate rank";
  }
  return "unknown reason";
}

}  // namespace comm::detail
