// Checked around a backend whose ranks cannot agree on anything.

#include "comm/decorators/checked.h"

#include "comm/backend_defaults.h"
#include "comm/backends/single_gpu.h"
#include "comm/communicator.h"

namespace {

using comm::Status;

/// Moves data, so that calls would have to be compared.
template <class Self>
struct Good : comm::BackendDefaults<Self> {
  int rank() const { return 0; }
  int world_size() const { return 1; }
  Status all_reduce(const comm::ops::AllReduce&) { return {}; }
  Status all_gather(const comm::ops::AllGather&) { return {}; }
  Status reduce_scatter(const comm::ops::ReduceScatter&) { return {}; }
  Status broadcast(const comm::ops::Broadcast&) { return {}; }
  Status reduce(const comm::ops::Reduce&) { return {}; }
  Status gather(const comm::ops::Gather&) { return {}; }
  Status scatter(const comm::ops::Scatter&) { return {}; }
  Status all_to_all(const comm::ops::AllToAll&) { return {}; }
  Status all_to_all_v(const comm::ops::AllToAllV&) { return {}; }
  Status send_to(const comm::ops::SendTo&) { return {}; }
  Status recv_from(const comm::ops::RecvFrom&) { return {}; }
  Status send_recv(const comm::ops::SendRecv&) { return {}; }
  Status barrier(const comm::ops::Barrier&) { return {}; }
};

struct Mute : Good<Mute> {};

struct Agreeing : Good<Agreeing> {
  Status exchange(const comm::Exchange&) { return {}; }
  Status declare_unhealthy(comm::Operation, const Status& cause) { return cause.copy(); }
};

static_assert(comm::HasAgreement<Agreeing> && !comm::HasAgreement<Mute>);

}  // namespace

int main() {
  [[maybe_unused]] comm::Communicator<comm::Checked<Agreeing>> right{comm::Checked(Agreeing())};
  [[maybe_unused]] comm::Communicator<comm::Checked<comm::SingleGpu>> nothing{
      comm::Checked(comm::SingleGpu())};

#ifdef FAIL_ranks_cannot_agree
  // EXPECT: give it exchange() and declare_unhealthy() (HasAgreement in comm/backend.h)
  comm::Checked<Mute> c{Mute()};
#endif
}
