// A rank that does what its arguments say, one after the other, and tells how it went; for the tests
// of launchers and of processes that die.
//
//   barrier            all ranks meet
//   gather             every rank gets every rank's number
//   watch              waits until a rank is lost; prints who, how, and after how long
//   rejoin             joins the next epoch
//   fork               leaves a child behind that holds on to everything, until its input ends
//   say TEXT           prints the text
//   stop               sleeps until it is killed
//   fail STATUS        exits with the status

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "comm/launch/launch_config.h"
#include "comm/rendezvous/out_of_band.h"

namespace {

using std::chrono::seconds;

void say(const comm::OutOfBand& channel, const std::string& text) {
  std::printf("rank %d: %s\n", channel.rank(), text.c_str());
  std::fflush(stdout);
}

bool gather(comm::OutOfBand& channel) {
  const std::string mine = std::to_string(channel.rank());
  const auto all = channel.all_gather(std::as_bytes(std::span(mine)), seconds(30));
  std::string text = "gathered";
  for (std::size_t r = 0; all.ok() && r < all->size(); ++r) {
    text += ' ';
    text.append(reinterpret_cast<const char*>((*all)[r].data()), (*all)[r].size());
  }
  say(channel, all.ok() ? text : all.message());
  return all.ok();
}

void watch(comm::OutOfBand& channel) {
  const comm::Status status = [&] {
    for (;;) {
      comm::Status s = channel.check();
      if (!s.ok()) return s;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }();
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  say(channel, "lost rank " + std::to_string(channel.lost_rank()) + " at " +
                   std::to_string(now.count()) + ": " + status.message());
}

// The child neither closes nor speaks; it ends when the test closes its standard input.
void leave_child() {
  if (::fork() != 0) return;
  char c = 0;
  while (::read(STDIN_FILENO, &c, 1) > 0) {
  }
  ::_exit(0);
}

bool report(const comm::OutOfBand& channel, const char* what, const comm::Status& status) {
  say(channel, std::string(what) + " " + status.message());
  return status.ok();
}

}  // namespace

int main(int argc, char** argv) {
  comm::Result<comm::LaunchConfig> launch = comm::LaunchConfig::from_env();
  if (!launch.ok()) {
    std::fprintf(stderr, "%s\n", launch.message());
    return 2;
  }
  comm::RendezvousConfig config;
  config.launch = std::move(*launch);
  config.backend = "member";
  auto joined = comm::OutOfBand::join(std::move(config));
  if (!joined.ok()) {
    std::fprintf(stderr, "%s\n", joined.message());
    return 3;
  }
  comm::OutOfBand& channel = **joined;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    bool fine = true;
    if (word == "barrier") fine = report(channel, "barrier", channel.barrier(seconds(30)));
    if (word == "gather") fine = gather(channel);
    if (word == "watch") watch(channel);
    if (word == "rejoin") fine = report(channel, "rejoin", channel.rejoin(seconds(30)));
    if (word == "fork") leave_child();
    if (word == "say" && i + 1 < argc) say(channel, argv[++i]);
    if (word == "fail" && i + 1 < argc) std::_Exit(std::atoi(argv[++i]));
    while (word == "stop") ::pause();
    if (!fine) return 4;
  }
  return 0;
}
