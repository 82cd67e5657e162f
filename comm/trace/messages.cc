#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/trace/analysis.h"
#include "comm/trace/words.h"

namespace comm::trace {
namespace {

/// One end of a message.
struct End {
  const Row* row;
  const Entry* entry;
  std::uint64_t count;
};

struct Channel {
  int from;
  int to;
  std::vector<End> sends;
  std::vector<End> receives;
};

class Channels {
 public:
  explicit Channels(const View& view) : size_(static_cast<std::uint64_t>(view.world().size)) {
    for (const Row& row : view.rows())
      for (const Entry& entry : row.entries) add(row, entry);
  }

  /// In the order of ranks, so that of several findings the first is always the same.
  std::vector<const Channel*> in_order() const {
    std::vector<const Channel*> all;
    for (const auto& [key, channel] : channels_) all.push_back(&channel);
    std::sort(all.begin(), all.end(), [](const Channel* a, const Channel* b) {
      return std::pair(a->from, a->to) < std::pair(b->from, b->to);
    });
    return all;
  }

 private:
  void add(const Row& row, const Entry& e) {
    if (e.op == Operation::send_to || e.op == Operation::send_recv)
      of(row.rank(), e.partner).sends.push_back({&row, &e, e.count});
    if (e.op == Operation::recv_from)
      of(e.partner, row.rank()).receives.push_back({&row, &e, e.count});
    if (e.op == Operation::send_recv)
      of(e.source, row.rank()).receives.push_back({&row, &e, e.recv_count});
  }

  Channel& of(int from, int to) {
    const std::uint64_t key =
        static_cast<std::uint64_t>(from) * size_ + static_cast<std::uint64_t>(to);
    const auto [found, is_new] = channels_.try_emplace(key);
    if (is_new) {
      found->second.from = from;
      found->second.to = to;
    }
    return found->second;
  }

  std::uint64_t size_;
  std::unordered_map<std::uint64_t, Channel> channels_;
};

bool is_pending(const View& view, const End& end) {
  const State state = end.entry->state;
  if (state == State::started)
    return view.waits_long(*end.row, *end.entry) || end.row->dump->failure.seq != 0;
  if (state == State::failed)
    return end.entry->result != StatusCode::invalid_argument &&
           end.entry->result != StatusCode::unsupported;
  return state == State::returned && view.is_troubled(*end.row);
}

std::string ordinal(std::size_t n) {
  const char* ending = n % 100 / 10 == 1 ? "th"
                       : n % 10 == 1     ? "st"
                       : n % 10 == 2     ? "nd"
                       : n % 10 == 3     ? "rd"
                                         : "th";
  return std::to_string(n) + ending;
}

void add_unequal(const View& view, const Channel& c, std::size_t k,
                 std::vector<Finding>& findings) {
  const End& send = c.sends[k];
  const End& receive = c.receives[k];
  const auto text = [](const End& end) {
    return std::string(comm::to_string(end.entry->type)) + " x " + std::to_string(end.count);
  };
  findings.push_back({Kind::message,
                      "rank " + std::to_string(c.from) + " sent " + text(send) + " as its " +
                          ordinal(k + 1) + " message of epoch " + std::to_string(view.epoch()) +
                          " to rank " + std::to_string(c.to) + ", which received " + text(receive),
                      {c.from, c.to},
                      0,
                      {{c.from, send.entry->seq}, {c.to, receive.entry->seq}}});
}

void add_alone(const View& view, const End& end, int partner, const std::string& reason,
               std::vector<Finding>& findings) {
  const int rank = end.row->rank();
  findings.push_back({Kind::message,
                      "rank " + std::to_string(rank) + "'s " + describe(*end.entry) + " in epoch " +
                          std::to_string(view.epoch()) + " has no partner: rank " +
                          std::to_string(partner) + " " + reason,
                      {partner},
                      0,
                      {{rank, end.entry->seq}}});
}

/// Nothing has left the rings: the k-th that is sent is the k-th that is received.
void check_whole(const View& view, const Channel& c, std::vector<Finding>& findings) {
  const std::size_t both = std::min(c.sends.size(), c.receives.size());
  for (std::size_t k = 0; k < both; ++k) {
    if (c.sends[k].count == c.receives[k].count &&
        c.sends[k].entry->type == c.receives[k].entry->type)
      continue;
    return add_unequal(view, c, k, findings);
  }
  if (c.sends.size() > both && is_pending(view, c.sends[both]))
    add_alone(view, c.sends[both], c.to,
              "submitted " + std::to_string(both) + " receives from rank " +
                  std::to_string(c.from) + ", and this is send " + std::to_string(both + 1),
              findings);
  if (c.receives.size() > both && is_pending(view, c.receives[both]))
    add_alone(view, c.receives[both], c.from,
              "submitted " + std::to_string(both) + " sends to rank " + std::to_string(c.to) +
                  ", and this is receive " + std::to_string(both + 1),
              findings);
}

/// How many went before is not known: only what is under way on one side and not on the other tells.
void check_rest(const View& view, const Channel& c, std::vector<Finding>& findings) {
  const auto pending = [&](const std::vector<End>& ends) {
    return std::find_if(ends.begin(), ends.end(),
                        [&](const End& end) { return is_pending(view, end); });
  };
  const auto send = pending(c.sends);
  const auto receive = pending(c.receives);
  const char* reason = "has none under way, though its ring no longer goes back to the first";
  if (send != c.sends.end() && receive == c.receives.end())
    add_alone(view, *send, c.to, reason, findings);
  if (receive != c.receives.end() && send == c.sends.end())
    add_alone(view, *receive, c.from, reason, findings);
}

}  // namespace

void find_unmatched_messages(const View& view, std::vector<Finding>& findings) {
  const Channels channels(view);
  std::unordered_map<int, const Row*> rows;
  for (const Row& row : view.rows()) rows[row.rank()] = &row;
  for (const Channel* channel : channels.in_order()) {
    const auto from = rows.find(channel->from);
    const auto to = rows.find(channel->to);
    if (from == rows.end() || to == rows.end()) continue;  // That a dump is missing is said anyway.
    if (from->second->is_whole && to->second->is_whole)
      check_whole(view, *channel, findings);
    else
      check_rest(view, *channel, findings);
  }
}

}  // namespace comm::trace
