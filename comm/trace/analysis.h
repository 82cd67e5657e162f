#pragma once

/// What the dumps of one communicator say together. `analyse` looks at the latest epoch: ranks that
/// are not in it, the first collective that ranks called differently, the first that somebody has not
/// called while others wait, messages without a partner, ranks without a dump, and what nobody
/// completed. Time and memory are linear in the entries, but for one sort.
///
/// Ranks that are merely at different places when they are dumped are no finding: it takes a failure,
/// or a wait of more than `patience_ns`. An idle wait for a command is none.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/trace/view.h"
#include "comm/trace/world.h"

namespace comm::trace {

/// In the order in which they are told: the causes before what follows from them.
enum class Kind { epochs, differ, lag, message, reconnect, missing, stuck, failed };

struct Mark {
  int rank;
  std::uint64_t seq;
};

struct Finding {
  Kind kind;
  std::string sentence;
  std::vector<int> ranks;        ///< At fault.
  std::uint64_t collective = 0;  ///< The table shows what is around it.
  std::vector<Mark> marks = {};  ///< The operations that the sentence is about.
};

struct Report {
  std::vector<Finding> findings;  ///< The first is the one to tell.
  std::string first_failure;      ///< In its rank's words; empty where none failed.
  std::string otherwise;          ///< What to say where there are no findings.
};

Report analyse(const View& view);

// Its parts; each adds what it finds.
void find_differing(const View& view, std::vector<Finding>& findings);
void find_lagging(const View& view, std::vector<Finding>& findings);
void find_unmatched_messages(const View& view, std::vector<Finding>& findings);

/// "its last submission was …, complete".
std::string last_submission(const Dump& dump);

/// "collective 17 of epoch 0".
std::string collective_name(const View& view, std::uint64_t number);

}  // namespace comm::trace
