// comm/trace/analysis.h: the sentence for each way in which ranks go wrong.

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "comm/trace/analysis.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "comm/trace/html.h"
#include "comm/trace/table.h"
#include "tests/recorder/dumps.h"

using comm::Operation, comm::StatusCode;
using tests::Rank, tests::sentence, tests::State;

namespace {

/// Ranks 0 to n - 1, each of which does what `body` says.
template <class Body>
std::vector<Rank> ranks(int n, Body body) {
  std::vector<Rank> all;
  for (int r = 0; r < n; ++r) {
    Rank rank(r, n);
    body(r, rank);
    all.push_back(rank);
  }
  return all;
}

}  // namespace

TEST_CASE("analysis: a rank that lags, with what it did last") {
  CHECK(
      sentence(ranks(4,
                     [](int r, Rank& rank) {
                       rank.reduce(8).broadcast(10, 0);
                       if (r != 2) rank.reduce(4096, State::started);
                     })) ==
      "rank 2 did not submit collective 3 of epoch 0, all_reduce (bf16 x 4096, sum), that ranks 0, "
      "1, 3 submitted; its last submission was broadcast (f32 x 10, root 0), collective 2, "
      "complete");
}

TEST_CASE("analysis: ranks that are dumped at different places are no finding") {
  CHECK(
      sentence(ranks(3,
                     [](int r, Rank& rank) {
                       for (int i = 0; i < 5 + r; ++i) rank.reduce(8);
                     })) ==
      "nothing wrong found: the ranks agree on all collectives; epoch 0, 5 to 7 of them submitted");
}

TEST_CASE("analysis: a dump that is older than what the others submitted is said to be") {
  auto all = ranks(2, [](int r, Rank& rank) {
    rank.reduce(8);
    if (r == 0) rank.reduce(9, State::started);
  });
  all[1].dump().dumped = all[0].dump().entries[1].submitted - 1;
  CHECK(
      sentence(all) ==
      "rank 1 did not submit collective 2 of epoch 0, all_reduce (bf16 x 9, sum), that rank 0 "
      "submitted; its last submission was all_reduce (bf16 x 8, sum), collective 1, complete (its "
      "dump is older than that submission)");
}

TEST_CASE("analysis: workers that idle are no finding") {
  CHECK(
      sentence(ranks(3,
                     [](int r, Rank& rank) {
                       rank.reduce(8);
                       if (r != 0) rank.command(0, State::started);
                     })) ==
      "nothing wrong found: the ranks agree on all collectives; epoch 0, 1 to 2 of them submitted; "
      "ranks 1, 2 wait for a command");
}

TEST_CASE("analysis: a command and its broadcast are one collective") {
  CHECK(sentence(ranks(3, [](int r, Rank& rank) {
          if (r == 0) {
            rank.broadcast(1, 0);
            rank.dump().entries[0].type = comm::DataType::u32;
          } else {
            rank.command(0);
          }
        })).find("nothing wrong found") == 0);
}

TEST_CASE("analysis: another type, count, reduction or root is named by what differs") {
  const auto differing = [](auto change) {
    return sentence(ranks(3, [&](int r, Rank& rank) {
      rank.broadcast(8, 0);
      if (r == 1) change(rank.dump().entries[0]);
    }));
  };
  const std::string rest =
      " as collective 1 of epoch 0, where ranks 0, 2 called broadcast (f32 x 8, root 0): the ";
  CHECK(differing([](tests::Entry& e) { e.count = 9; }) ==
        "rank 1 called broadcast (f32 x 9, root 0)" + rest + "counts differ");
  CHECK(differing([](tests::Entry& e) { e.type = comm::DataType::bf16, e.count = 16; }) ==
        "rank 1 called broadcast (bf16 x 16, root 0)" + rest + "types and counts differ");
  CHECK(differing([](tests::Entry& e) { e.partner = 2; }) ==
        "rank 1 called broadcast (f32 x 8, root 2)" + rest + "roots differ");
  CHECK(differing([](tests::Entry& e) { e.op = Operation::reduce, e.reduction = 0; }) ==
        "rank 1 called reduce (f32 x 8, sum, root 0)" + rest.substr(0, rest.size() - 4) +
            "the operations differ");
}

TEST_CASE("analysis: of two ranks that differ neither is in the right") {
  CHECK(sentence(ranks(2, [](int r, Rank& rank) { rank.reduce(r == 0 ? 10 : 11); })) ==
        "rank 1 called all_reduce (bf16 x 11, sum) as collective 1 of epoch 0, where rank 0 called "
        "all_reduce (bf16 x 10, sum): the counts differ");
}

TEST_CASE("analysis: a rank that left one out is told from one that called something else") {
  CHECK(sentence(ranks(4,
                       [](int r, Rank& rank) {
                         rank.reduce(1);
                         if (r != 2) rank.broadcast(2, 0);
                         rank.reduce(3).reduce(4);
                       })) ==
        "rank 2 did not submit collective 2 of epoch 0, broadcast (f32 x 2, root 0), that ranks 0, "
        "1, "
        "3 submitted: its collective 2, all_reduce (bf16 x 3, sum), is the others' 3");
}

TEST_CASE("analysis: a rank with one too many") {
  CHECK(
      sentence(ranks(4,
                     [](int r, Rank& rank) {
                       rank.reduce(1);
                       if (r == 3) rank.plain(Operation::barrier);
                       rank.reduce(3).reduce(4);
                     })) ==
      "rank 3 submitted one that ranks 0-2 did not: its collective 2 of epoch 0, barrier; its 3 is "
      "the others' 2, all_reduce (bf16 x 3, sum)");
}

TEST_CASE("analysis: a call that nobody completes") {
  CHECK(sentence(ranks(3, [](int, Rank& rank) { rank.reduce(1).reduce(7, State::started); })) ==
        "all 3 ranks submitted collective 2 of epoch 0, all_reduce (bf16 x 7, sum), and none "
        "completed it");
  // On a stream it is the wait that hangs, and the work before it that does not end.
  CHECK(sentence(ranks(2,
                       [](int, Rank& rank) {
                         rank.reduce(1).plain(Operation::synchronize);
                         rank.reduce(2, State::returned).reduce(3, State::returned);
                         rank.plain(Operation::synchronize, State::started);
                       })) ==
        "all 2 ranks submitted collective 2 of epoch 0, all_reduce (bf16 x 2, sum), and none "
        "completed it; the next one waits behind it");
  CHECK(sentence(ranks(3,
                       [](int r, Rank& rank) {
                         rank.broadcast(7, 0, r == 0 ? State::complete : State::started);
                       })) ==
        "ranks 1, 2 submitted collective 1 of epoch 0, broadcast (f32 x 7, root 0), and did not "
        "complete it, as rank 0 did");
}

TEST_CASE("analysis: what is submitted and not waited for is no finding") {
  CHECK(sentence(ranks(2, [](int, Rank& rank) {
          rank.reduce(1, State::returned).reduce(2, State::returned);
        })).find("nothing wrong found") == 0);
}

TEST_CASE("analysis: ranks without a dump") {
  std::vector<Rank> all = ranks(4, [](int, Rank& rank) { rank.reduce(7); });
  all.erase(all.begin() + 2);
  CHECK(sentence(all) == "there is no dump of rank 2; the others agree on all that they recorded");
  all.erase(all.begin());
  for (Rank& rank : all) rank.reduce(9).fails(StatusCode::peer_lost, "rank 2 has died");
  CHECK(sentence(all) ==
        "there is no dump of ranks 0, 2; ranks 1, 3 submitted collective 2 of epoch 0, "
        "all_reduce (bf16 x 9, sum), and did not complete it");
}

TEST_CASE("analysis: epochs") {
  CHECK(sentence(ranks(3,
                       [](int r, Rank& rank) {
                         rank.reduce(7);
                         if (r != 1) rank.plain(Operation::attempt_reconnect).epoch(1).reduce(1);
                       })) ==
        "rank 1 is still in epoch 0, while ranks 0, 2 are in epoch 1; its last submission was "
        "all_reduce (bf16 x 7, sum), collective 1, complete");
  CHECK(sentence(ranks(3,
                       [](int r, Rank& rank) {
                         rank.reduce(7);
                         if (r != 1) rank.plain(Operation::attempt_reconnect, State::started);
                       })) ==
        "rank 1 did not call attempt_reconnect, which ranks 0, 2 called; its last submission was "
        "all_reduce (bf16 x 7, sum), collective 1, complete");
  // What differed before a reconnect is over.
  CHECK(sentence(ranks(2, [](int r, Rank& rank) {
          rank.reduce(static_cast<std::uint64_t>(7 + r)).epoch(1).reduce(1);
        })).find("nothing wrong found") == 0);
}

TEST_CASE("analysis: a ring that has wrapped says what it still can") {
  CHECK(sentence(ranks(3,
                       [](int r, Rank& rank) {
                         for (int i = 0; i < (r == 1 ? 3 : 100); ++i) rank.reduce(8);
                         if (r != 1) rank.reduce(8, State::started).keeps(10);
                       })) ==
        "rank 1 did not submit collective 4 of epoch 0 that ranks 0, 2 submitted; its last "
        "submission "
        "was all_reduce (bf16 x 8, sum), collective 3, complete");
}

TEST_CASE("analysis: messages") {
  CHECK(sentence(ranks(2,
                       [](int r, Rank& rank) {
                         rank.message(r == 0 ? Operation::send_to : Operation::recv_from, 1 - r, 5);
                         if (r == 0) rank.message(Operation::recv_from, 1, 5, State::started);
                       })) ==
        "rank 0's recv_from (f32 x 5, from rank 1) in epoch 0 has no partner: rank 1 submitted 0 "
        "sends "
        "to rank 0, and this is receive 1");
  CHECK(sentence(ranks(2,
                       [](int r, Rank& rank) {
                         rank.message(r == 0 ? Operation::send_to : Operation::recv_from, 1 - r,
                                      r == 0 ? 100 : 99, State::started);
                       })) ==
        "rank 0 sent f32 x 100 as its 1st message of epoch 0 to rank 1, which received f32 x 99");
  // One that is buffered may go before its receiver comes.
  CHECK(sentence(ranks(2, [](int r, Rank& rank) {
          if (r == 0) rank.message(Operation::send_to, 1, 5);
        })).find("nothing wrong found") == 0);
}

TEST_CASE("analysis: a failure that no disagreement explains") {
  CHECK(
      sentence(ranks(2,
                     [](int r, Rank& rank) {
                       rank.reduce(5);
                       if (r == 1)
                         rank.plain(Operation::symmetric_free).fails(StatusCode::cuda, "no memory");
                     })) ==
      "rank 1's symmetric_free in epoch 0 failed (cuda); the ranks agree on all collectives");
}

TEST_CASE("worlds: communicators are told apart by name, and within a process by age") {
  std::vector<Rank> all;
  for (const char* name : {"world", "world/split3c0"})
    for (int r = 0; r < 2; ++r) all.push_back(Rank(r, 2, name));
  for (int r = 0; r < 2; ++r) {
    all.push_back(Rank(r, 2));
    all.back().dump().created = 9 * tests::kSecond;
  }
  const auto worlds = tests::worlds_of(all);
  REQUIRE(worlds.size() == 3);
  CHECK(worlds[0].name == "world");
  CHECK(worlds[1].name == "world #2");
  CHECK(worlds[2].name == "world/split3c0");
}

TEST_CASE("worlds: of a rank that was started again the later dump counts, and this is said") {
  std::vector<Rank> all{Rank(0, 2), Rank(1, 2), Rank(1, 2)};
  all[2].dump().created = 50 * tests::kSecond;
  all[2].dump().file = "later.json";
  const auto worlds = tests::worlds_of(all);
  REQUIRE(worlds.size() == 1);
  CHECK(worlds[0].dumps[1].file == "later.json");
  CHECK(worlds[0].notes ==
        std::vector<std::string>{"left out, since rank 1 has a later one: rank1.json"});
}

TEST_CASE("table: what is around, ranks that did the same in one line, 100 columns at most") {
  auto all = ranks(40, [](int r, Rank& rank) {
    for (std::uint64_t i = 0; i < 6; ++i) rank.reduce(1'000'000'000'000 + i);
    if (r % 2 == 0) rank.broadcast(1'234'567'890'123, 39, State::started);
  });
  const auto worlds = tests::worlds_of(all);
  const comm::trace::View view(worlds[0], tests::kSecond);
  const std::string text = comm::trace::table(view, comm::trace::analyse(view));
  CHECK(text.find(">          7") != std::string::npos);
  CHECK(text.find("(not submitted)") != std::string::npos);
  CHECK(text.find("0-39") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') == 6);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    CHECK(end - at <= 100);
    at = end + 1;
  }
}
