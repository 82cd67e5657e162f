// Exchanges among some of the ranks: those of communicators that were made from this one.

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "comm/rendezvous/exchanges.h"
#include "tests/rendezvous/support.h"

using namespace comm;
using namespace comm::test;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

using Channel = std::unique_ptr<OutOfBand>;

void on_all(int size, const std::function<void(int rank, Channel& channel)>& body) {
  const Job job(size);
  job.run([&](int rank) {
    auto channel = OutOfBand::join(job.config(rank));
    REQUIRE_MESSAGE(channel.ok(), channel.message());
    body(rank, *channel);
  });
}

std::string said(const Result<Bytes>& result) {
  return result.ok() ? text_of(*result) : result.message();
}

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("among: halves exchange among themselves, more often the one than the other") {
  const Watchdog watchdog("halves");
  on_all(5, [](int rank, Channel& channel) {
    const int half = rank % 2;
    OutOfBand::Among ranks{
        .id = 70 + static_cast<std::uint64_t>(half), .rank = rank / 2, .size = half == 0 ? 3 : 2};
    for (int i = 0; i < (half == 0 ? 50 : 3); ++i) {
      const std::string equal = "same";
      CHECK(said(channel->gather_among(ranks, bytes_of(equal), seconds(20))) ==
            (half == 0 ? "samesamesame" : "samesame"));
      ++ranks.number;
      const std::string own(2, static_cast<char>('a' + rank));
      CHECK(said(channel->gather_among(ranks, bytes_of(own), seconds(20))) ==
            (half == 0 ? "aaccee" : "bbdd"));
      ++ranks.number;
    }
    CHECK(channel->barrier(seconds(20)).ok());
    OutOfBand::Among alone{.id = 99, .rank = 0, .size = 1};
    CHECK(said(channel->gather_among(alone, bytes_of("x"), seconds(20))) == "x");
  });
}

TEST_CASE("among: one thread's long wait keeps no other thread's exchange waiting") {
  const Watchdog watchdog("long wait");
  on_all(3, [](int rank, Channel& channel) {
    std::atomic<bool> is_over{false};
    const OutOfBand::Among idle{.id = 1, .rank = rank, .size = 3};
    std::thread waits;
    if (rank != 0)
      waits = std::thread([&] {
        CHECK(said(channel->gather_among(idle, bytes_of("."), std::chrono::hours(1))) == "...");
        is_over = true;
      });
    OutOfBand::Among busy{.id = 2, .rank = rank, .size = 3};
    for (; busy.number < 100; ++busy.number) {
      CHECK(said(channel->gather_among(busy, bytes_of("b"), seconds(20))) == "bbb");
      CHECK(channel->barrier(seconds(20)).ok());
    }
    CHECK_FALSE(is_over);
    if (rank == 0) {
      // All ranks have passed the loop when this one does.
      CHECK(channel->barrier(seconds(20)).ok());
      CHECK(said(channel->gather_among(idle, bytes_of("."), seconds(20))) == "...");
    } else {
      CHECK(channel->barrier(seconds(20)).ok());
      waits.join();
    }
  });
}

TEST_CASE(
    "among: who is missing at the deadline is named to all that came, and to him when he comes") {
  const Watchdog watchdog("missing");
  on_all(4, [](int rank, Channel& channel) {
    OutOfBand::Among ranks{.id = 5, .rank = rank, .size = 4};
    if (rank != 2) {
      const auto outcome = channel->gather_among(ranks, bytes_of("x"), milliseconds(300));
      CHECK(outcome.code() == StatusCode::timeout);
      CHECK_MESSAGE(has(said(outcome), "rank 2 did not arrive in time; ranks 0, 1, 3 did"),
                    said(outcome));
    }
    CHECK(channel->barrier(seconds(20)).ok());
    if (rank == 2) {
      const auto outcome = channel->gather_among(ranks, bytes_of("x"), seconds(20));
      CHECK(outcome.code() == StatusCode::timeout);
      CHECK_MESSAGE(has(said(outcome), "rank 2 did not arrive"), said(outcome));
    }
    CHECK(channel->barrier(seconds(20)).ok());
    ++ranks.number;
    CHECK(said(channel->gather_among(ranks, bytes_of("y"), seconds(20))) == "yyyy");
  });
}

TEST_CASE("among: ranks that do not agree who they are all get a mismatch") {
  const Watchdog watchdog("disagree");
  on_all(3, [](int rank, Channel& channel) {
    if (rank == 2) return static_cast<void>(channel->barrier(seconds(20)).ok());
    // Both come as the first of two.
    const auto outcome = channel->gather_among({.id = 5, .rank = 0, .size = 2}, {}, seconds(20));
    CHECK(outcome.code() == StatusCode::mismatch);
    // And with other sizes.
    const auto sizes = channel->gather_among({.id = 6, .rank = rank, .size = 2},
                                             bytes_of(rank == 0 ? "1" : "22"), seconds(20));
    CHECK(sizes.code() == StatusCode::mismatch);
    CHECK(channel->gather_among({.rank = 2, .size = 2}, {}, seconds(1)).code() ==
          StatusCode::invalid_argument);
    CHECK(channel->barrier(seconds(20)).ok());
  });
}

TEST_CASE(
    "among: ranks that go on without a lost one still exchange; others are told of the loss") {
  const Watchdog watchdog("despite");
  on_all(3, [](int rank, Channel& channel) {
    if (rank == 2) {
      channel->notify("the engine is out of memory");
      return;
    }
    while (channel->check().ok()) std::this_thread::yield();
    OutOfBand::Among two{.id = 5, .rank = rank, .size = 2};
    CHECK_MESSAGE(
        has(said(channel->gather_among(two, bytes_of("x"), seconds(20))), "out of memory"), rank);
    two.despite_failures = true;
    CHECK(said(channel->gather_among(two, bytes_of("x"), seconds(20))) == "xx");
  });
}

TEST_CASE("among: numbers at the end are added up where all else is equal, or told one by one") {
  const Watchdog watchdog("sums");
  on_all(4, [](int rank, Channel& channel) {
    OutOfBand::Among ranks{.id = 7, .rank = rank, .size = 4, .sums_last = true};
    const auto told = [&](const std::string& head, std::uint64_t number) {
      std::string payload = head;
      payload.append(reinterpret_cast<const char*>(&number), sizeof number);
      Result<Bytes> all = channel->gather_among(ranks, bytes_of(payload), seconds(20));
      ++ranks.number;
      REQUIRE_MESSAGE(all.ok(), all.message());
      std::string text;
      for (std::size_t at = 0; at < all->size(); at += payload.size()) {
        std::memcpy(&number, all->data() + at + head.size(), sizeof number);
        text += text_of(*all).substr(at, head.size()) + std::to_string(number) + " ";
      }
      return text;
    };
    const auto mine = static_cast<std::uint64_t>(rank);
    CHECK(told("same", mine + 1) == "same10 same0 same0 same0 ");
    CHECK(told("", ~std::uint64_t{0}) == std::to_string(~std::uint64_t{0} - 3) + " 0 0 0 ");
    CHECK(told(rank == 2 ? "odd" : "two", mine) == "two0 two1 odd2 two3 ");
    // Where one rank asks for all, all get all.
    ranks.sums_last = rank != 1;
    CHECK(told("x", mine) == "x0 x1 x2 x3 ");
  });
}

TEST_CASE("among: what agrees costs each rank the same, however many they are") {
  using namespace comm::detail;
  std::size_t bytes_for_each[2] = {};
  for (const std::uint32_t size : {4U, 400U}) {
    std::size_t bytes = 0;
    Exchanges exchanges(size, [&](std::uint32_t, const SharedFrame& f) { bytes += f->size(); });
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      ByteVector fingerprint(48);
      fingerprint[40] = static_cast<std::byte>(rank);
      comm::detail::Among among{1, 0, rank, size, fingerprint, true};
      const ByteVector payload = among.encode();
      Contribution contribution;
      contribution.sequence = comm::detail::Among::kSequenceBit;
      contribution.kind = ExchangeKind::among;
      contribution.timeout_ms = 1000;
      contribution.payload = payload;
      REQUIRE(exchanges.contribute(rank, contribution));
    }
    bytes_for_each[size == 4 ? 0 : 1] = bytes / size;
  }
  CHECK(bytes_for_each[0] == bytes_for_each[1]);
  CHECK(bytes_for_each[0] < 100);
}
