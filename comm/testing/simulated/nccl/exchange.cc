#include "comm/testing/simulated/nccl/exchange.h"

#include <numeric>

namespace comm::simulated::detail {

bool exchange(ncclComm& comm, std::uint64_t sequence, const std::vector<int>& ranks,
              const std::string& mine, std::vector<std::string>* all) {
  for (int rank : ranks) {
    if (rank == comm.rank) continue;
    Message message;
    message.channel = Channel::control;
    message.sequence = sequence;
    message.data = std::make_shared<Bytes>(mine.begin(), mine.end());
    comm.endpoint->send(rank, std::move(message));
  }
  for (int rank : ranks) {
    if (rank == comm.rank) {
      all->push_back(mine);
      continue;
    }
    Message message;
    if (!comm.endpoint->receive(Channel::control, sequence, rank, &message)) return false;
    all->emplace_back(message.data->begin(), message.data->end());
  }
  return true;
}

bool exchange(ncclComm& comm, const std::string& mine, std::vector<std::string>* all) {
  std::uint64_t sequence = 0;
  {
    const Lock lock(machine().mutex);
    sequence = ++comm.controls;
  }
  std::vector<int> ranks(static_cast<std::size_t>(comm.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return exchange(comm, sequence, ranks, mine, all);
}

}  // namespace comm::simulated::detail
