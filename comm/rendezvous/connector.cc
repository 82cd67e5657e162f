#include "comm/rendezvous/connector.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <random>
#include <thread>

#include "comm/rendezvous/address.h"
#include "comm/rendezvous/admission.h"
#include "comm/rendezvous/proof.h"
#include "comm/rendezvous/root_listener.h"
#include "comm/rendezvous/sockets.h"

namespace comm::detail {
namespace {

constexpr Milliseconds kFirstPause{10};
constexpr Milliseconds kLongestPause{1000};
constexpr Milliseconds kFirstPatience{3000};
constexpr Milliseconds kLongestPatience{60'000};

StatusCode code_of(Reason reason) {
  switch (reason) {
    case Reason::world_size:
    case Reason::backend:
    case Reason::backend_version:
    case Reason::fingerprint: return StatusCode::mismatch;
    default: return StatusCode::rendezvous;
  }
}

// Sleeps through signals, until the deadline at the latest.
void pause_for(Milliseconds time, Deadline deadline) {
  std::this_thread::sleep_for(std::min(time, deadline.remaining()));
}

}  // namespace

Status to_status(const Failed& failed) {
  const char* text = failed.text.c_str();
  switch (failed.kind) {
    case FailureKind::lost: return make_error(StatusCode::peer_lost, 0, "%s", text);
    case FailureKind::reported:
      return make_error(StatusCode::unhealthy, 0, "rank %u reported a failure: %s", failed.rank,
                        text);
    case FailureKind::not_formed:
      return make_error(StatusCode::rendezvous, 0, "rendezvous: the ranks cannot start: %s", text);
    case FailureKind::mismatch:
      return make_error(StatusCode::mismatch, 0, "rendezvous: the ranks cannot start: %s", text);
    case FailureKind::timeout: break;
  }
  return make_error(StatusCode::timeout, 0, "rendezvous: not all ranks came in time: %s", text);
}

Connector::Connector(const LaunchConfig& launch, Hello hello, std::shared_ptr<Logger> log)
    : launch_(launch), hello_(std::move(hello)), log_(std::move(log)) {
  fill_random(hello_.instance);
  next_word_ = Deadline::in(word_pause_);
}

Connector::Step Connector::fail(Status status) {
  failure_ = std::move(status);
  return Step::failed;
}

Connector::Step Connector::retry(std::string situation) {
  situation_ = std::move(situation);
  say_situation();
  return Step::again;
}

void Connector::say_situation() {
  if (!next_word_.passed()) return;
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began_);
  log_->say(LogLevel::warn, "still waiting after %lld s: %s",
            static_cast<long long>(waited.count()), situation_.c_str());
  word_pause_ = std::min(word_pause_ * 2, Milliseconds(60'000));
  next_word_ = Deadline::in(word_pause_);
}

Status Connector::timed_out() const {
  const auto waited = std::chrono::duration<double>(Clock::now() - began_).count();
  return make_error(StatusCode::timeout, 0, "rendezvous: rank %u of %u gave up after %.1f s: %s",
                    hello_.rank, hello_.world_size, waited, situation_.c_str());
}

Result<Joined> Connector::join(Deadline deadline) {
  std::array<std::byte, 4> seed{};
  fill_random(seed);
  std::minstd_rand random(std::bit_cast<std::uint32_t>(seed));
  Milliseconds pause = kFirstPause;
  for (;;) {
    Joined joined;
    switch (try_all(deadline, joined)) {
      case Step::started: return joined;
      case Step::failed: return std::move(failure_);
      case Step::again: break;
    }
    if (deadline.passed()) return timed_out();
    // Half of the pause is chance, so that a thousand ranks do not knock in step.
    const auto half = static_cast<std::minstd_rand::result_type>(pause.count() / 2);
    pause_for(Milliseconds(half + random() % (half + 1)), deadline);
    pause = std::min(pause * 2, kLongestPause);
  }
}

Status Connector::join_local(Joined& joined, std::uint64_t epoch, Deadline deadline) {
  // The service has the same deadline and the better account of who is missing.
  const Deadline patience(deadline.when() + Milliseconds(250));
  Frame frame;
  Verdict verdict;
  do {
    if (next_frame(joined, patience, frame) != Read::frame) {
      return make_error(StatusCode::internal, 0,
                        "rendezvous: rank 0's own service does not answer");
    }
  } while (frame.type != FrameType::verdict || !verdict.decode(frame.body) ||
           verdict.epoch != epoch);
  situation_ = "waiting for the other ranks";
  switch (wait_for_start(patience, joined)) {
    case Step::started: return {};
    case Step::failed: return std::move(failure_);
    case Step::again: break;
  }
  return timed_out();
}

Connector::Step Connector::try_all(Deadline deadline, Joined& joined) {
  std::vector<HostAndPort> targets;
  if (!launch_.rendezvous_file.empty()) {
    targets = read_published(launch_.rendezvous_file);
    if (targets.empty()) {
      return retry("rank 0 has not published its address in '" + launch_.rendezvous_file + "'");
    }
  } else {
    targets.push_back({launch_.root_address, launch_.root_port});
  }
  std::vector<SocketAddress> addresses;
  for (const HostAndPort& target : targets) {
    Result<std::vector<SocketAddress>> found = resolve(target.host, target.port, deadline);
    if (!found.ok()) {
      retry(found.message());
      continue;
    }
    addresses.insert(addresses.end(), found->begin(), found->end());
  }
  for (const SocketAddress& address : addresses) {
    if (deadline.passed()) break;
    const Step step = try_one(address, addresses.size() == 1, deadline, joined);
    if (step != Step::again) return step;
  }
  return Step::again;
}

Connector::Step Connector::try_one(const SocketAddress& address, bool is_only, Deadline deadline,
                                   Joined& joined) {
  // Where there are several addresses none may use up the time of the others. A single one may be
  // the inherited listener of a rank 0 that is still busy elsewhere: it is waited for.
  const auto waited = std::chrono::duration_cast<Milliseconds>(Clock::now() - began_);
  const Milliseconds patience = std::clamp(waited / 2, kFirstPatience, kLongestPatience);
  const Deadline limit = deadline.earlier(Deadline::in(patience));
  const std::string where = address.text();
  joined = Joined();
  // A question that got lost is asked again after one, three, seven seconds and so on; anew is sooner.
  if (!connect_to(address, limit.earlier(Deadline::in(kFirstPatience)), joined.fd)) {
    const int e = errno;
    return retry("cannot connect to rank 0 at " + where + ": " + error_text(e) +
                 (e == ECONNREFUSED ? " (is rank 0 running?)" : ""));
  }
  if (!peer_is_trusted_user(joined.fd.get())) {
    return retry(where + " belongs to another user");
  }
  return shake_hands(where, is_only ? deadline : limit, deadline, joined);
}

bool Connector::connect_to(const SocketAddress& address, Deadline deadline, UniqueFd& fd) {
  fd = make_socket(address.family());
  if (!fd) return false;
  if (::connect(fd.get(), address.raw(), address.length) == 0) return true;
  // EAGAIN: the queue of a listening socket of this host is full.
  if (errno != EINPROGRESS && errno != EINTR) return false;
  if (!poll_fd(fd.get(), POLLOUT, deadline)) {
    errno = ETIMEDOUT;
    return false;
  }
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return false;
  if (error == 0) {
    // A port of one's own that happens to be the one asked for can be connected to itself.
    const bool to_itself = local_address(fd.get()).text() == peer_address(fd.get()).text() &&
                           address.family() != AF_UNIX;
    error = to_itself ? ECONNREFUSED : 0;
  }
  errno = error;
  return error == 0;
}

Connector::Read Connector::next_frame(Joined& joined, Deadline deadline, Frame& frame) {
  std::array<std::byte, 4096> buffer;
  for (;;) {
    switch (joined.reader.next(frame)) {
      case FrameReader::Outcome::frame: return Read::frame;
      case FrameReader::Outcome::malformed: return Read::malformed;
      case FrameReader::Outcome::incomplete: break;
    }
    const Moved m = receive(joined.fd.get(), buffer.data(), buffer.size());
    if (m.kind == Moved::some) {
      joined.reader.append(ByteSpan(buffer.data(), m.bytes));
    } else if (m.kind != Moved::would_block) {
      return Read::closed;
    } else if (!poll_fd(joined.fd.get(), POLLIN, deadline.earlier(next_word_))) {
      if (deadline.passed()) return Read::late;
      say_situation();
    }
  }
}

Connector::Step Connector::shake_hands(const std::string& where, Deadline patience,
                                       Deadline deadline, Joined& joined) {
  set_connection_options(joined.fd.get(), launch_.peer_timeout);
  situation_ = "connected to " + where + ", but not greeted (is something else listening there?)";
  Frame frame;
  Greeting greeting;
  switch (next_frame(joined, patience, frame)) {
    case Read::frame: break;
    case Read::malformed:
      return retry("what listens at " + where + " is not rank 0: it " + joined.reader.complaint());
    case Read::closed: return retry("rank 0 at " + where + " closed the connection at once");
    case Read::late: return retry(situation_);
  }
  if (frame.type != FrameType::greeting || !greeting.decode(frame.body)) {
    return retry("what listens at " + where + " greets in a way that is not rank 0's");
  }
  if (greeting.protocol != kProtocolVersion) {
    return fail(make_error(StatusCode::mismatch, 0,
                           "rendezvous: rank 0 at %s speaks version %u of the protocol, this rank "
                           "%u speaks %u",
                           where.c_str(), greeting.protocol, hello_.rank, kProtocolVersion));
  }
  if (greeting.demands_secret != !launch_.secret.empty()) {
    // Not answered: whoever listens there need not learn anything of this job.
    return fail(make_error(StatusCode::rendezvous, 0,
                           "rendezvous: rank %u has %s secret, but rank 0 at %s has %s; set the "
                           "same COMM_SECRET on all ranks",
                           hello_.rank, greeting.demands_secret ? "no" : "a", where.c_str(),
                           greeting.demands_secret ? "one" : "none"));
  }
  hello_.remaining_ms = static_cast<std::uint32_t>(
      std::min<Milliseconds::rep>(deadline.remaining().count(), UINT32_MAX));
  fill_random(hello_.nonce);
  if (greeting.demands_secret) hello_.mac = prove_worker(launch_.secret, greeting, hello_);

  ByteWriter hail;
  hail.bytes(preface());
  hail.bytes(hello_.encode());
  const Deadline limit = deadline.earlier(Deadline::in(launch_.handshake_timeout));
  if (!send_all(joined.fd.get(), hail.view(), limit)) {
    return retry("rank 0 at " + where + " closed the connection in the handshake");
  }
  Verdict verdict;
  switch (next_frame(joined, limit, frame)) {
    case Read::frame: break;
    case Read::late: return retry("rank 0 at " + where + " did not answer the hello in time");
    default: return retry("rank 0 at " + where + " closed the connection in the handshake");
  }
  if (frame.type != FrameType::verdict || !verdict.decode(frame.body)) {
    return retry("rank 0 at " + where + " answered the hello with something else");
  }
  const Step step = judge(where, greeting, verdict, joined);
  return step == Step::started ? wait_for_start(deadline, joined) : step;
}

Connector::Step Connector::judge(const std::string& where, const Greeting& greeting,
                                 const Verdict& verdict, Joined& joined) {
  const std::string text = printable(verdict.text);
  const bool proven = launch_.secret.empty() ||
                      same_mac(verdict.mac, prove_root(launch_.secret, greeting, hello_, verdict));
  if (!proven) {
    return fail(make_error(StatusCode::rendezvous, 0,
                           "rendezvous: rank 0 at %s does not know the secret of rank %u%s%s; set "
                           "the same COMM_SECRET on all ranks",
                           where.c_str(), hello_.rank,
                           text.empty() ? "" : ", and says: ", text.c_str()));
  }
  if (verdict.reason == Reason::none) {
    joined.root = verdict.root;
    situation_ = text.empty() ? "waiting for the other ranks" : text;
    return Step::started;
  }
  if (verdict.reason == Reason::stale_epoch) epoch_hint_ = verdict.epoch;
  // Another job may have had the port before this one: it goes away.
  if (verdict.reason == Reason::job_id) {
    return retry("rank 0 at " + where + " is another job's: " + text);
  }
  return fail(make_error(code_of(verdict.reason), 0,
                         "rendezvous: rank 0 at %s turned rank %u away (%s): %s", where.c_str(),
                         hello_.rank, to_string(verdict.reason), text.c_str()));
}

Connector::Step Connector::wait_for_start(Deadline deadline, Joined& joined) {
  Frame frame;
  for (;;) {
    switch (next_frame(joined, deadline, frame)) {
      case Read::frame: break;
      case Read::late: return retry(situation_);
      case Read::closed: return retry("rank 0 closed the connection before all had joined");
      case Read::malformed: return retry("rank 0 " + std::string(joined.reader.complaint()));
    }
    Progress progress;
    Failed failed;
    if (frame.type == FrameType::start && joined.start.decode(frame.body)) return Step::started;
    if (frame.type == FrameType::progress && progress.decode(frame.body)) {
      situation_ = printable(progress.text);
      say_situation();
    } else if (frame.type == FrameType::failed && failed.decode(frame.body)) {
      failed.text = printable(failed.text);
      return fail(to_status(failed));
    } else {
      return retry("rank 0 said something unexpected before the start");
    }
  }
}

}  // namespace comm::detail
