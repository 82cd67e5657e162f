#pragma once

/// `Idle` is a backend of two ranks that says yes to everything and does nothing: what is left when it
/// is called through a decorator is the decorator. Its members are not inlined, as those of a backend
/// that communicates would not be.

#include "comm/backend.h"
#include "comm/backend_defaults.h"

namespace comm::bench {

class Idle : public BackendDefaults<Idle> {
 public:
  int rank() const { return 0; }
  int world_size() const { return 2; }

  Status all_reduce(const ops::AllReduce& op);
  Status all_gather(const ops::AllGather&) { return {}; }
  Status reduce_scatter(const ops::ReduceScatter&) { return {}; }
  Status broadcast(const ops::Broadcast&) { return {}; }
  Status reduce(const ops::Reduce&) { return {}; }
  Status gather(const ops::Gather&) { return {}; }
  Status scatter(const ops::Scatter&) { return {}; }
  Status all_to_all(const ops::AllToAll&) { return {}; }
  Status all_to_all_v(const ops::AllToAllV&) { return {}; }
  Status send_to(const ops::SendTo&) { return {}; }
  Status recv_from(const ops::RecvFrom&) { return {}; }
  Status send_recv(const ops::SendRecv&) { return {}; }
  Status barrier(const ops::Barrier&) { return {}; }

  /// As if the other rank were about to make the same call.
  Status exchange(const Exchange& exchange);
  Status declare_unhealthy(Operation, const Status&) { return {}; }
};

static_assert(Backend<Idle>);
static_assert(HasAgreement<Idle>);

}  // namespace comm::bench
