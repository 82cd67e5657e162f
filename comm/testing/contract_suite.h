#pragma once

/// The contract suite: what every backend promises (backend.h), as doctest cases that any backend
/// can be held to, an engine's own included. Write a world (contract/world.h) and one line:
///
///     #include "comm/testing/contract_suite.h"
///
///     struct MyWorld : comm::testing::HostMemory { … };
///     TYPE_TO_STRING(MyWorld);
///     COMM_CONTRACT_SUITE(MyWorld);
///
/// A case named "contract N" is about promise N. The suite runs ranks as threads of the test's
/// process, and a watchdog ends it, by name, if they hang. A decorator is held to it the same way:
/// the world's `Backend` is then `MyDecorator<MyBackend>`.

#include "comm/testing/contract/arguments.h"
#include "comm/testing/contract/groups.h"
#include "comm/testing/contract/health.h"
#include "comm/testing/contract/lifecycle.h"
#include "comm/testing/contract/moves.h"
#include "comm/testing/contract/reduces.h"
#include "comm/testing/host_memory.h"

#define COMM_CONTRACT_SUITE(World)                                                    \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_all_reduce, World);          \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_all_reduce_counts, World);   \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_wrap, World);                \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_bits, World);                \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_all_reduce_async, World);    \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_all_reduce_deferred, World); \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_dropped_ticket, World);      \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_reduce, World);              \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_reduce_scatter, World);      \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_broadcast, World);           \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_broadcast_async, World);     \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_recv_command, World);        \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_all_gather, World);          \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_gather, World);              \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_scatter, World);             \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_all_to_all, World);          \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_all_to_all_v, World);        \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_zero, World);                \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_where, World);               \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_send_recv_calls, World);     \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_order, World);               \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_send_recv, World);           \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_send_recv_sizes, World);     \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_group, World);               \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_group_all, World);           \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_group_nests, World);         \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_group_early, World);         \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_group_empty, World);         \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_barrier, World);             \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_ranks, World);               \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_moved, World);               \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_split, World);               \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_no_color, World);            \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_shrink, World);              \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_registration, World);        \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_symmetric, World);           \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_add_kernel, World);          \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_arguments, World);           \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_absent, World);              \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_reconnect, World);           \
  TEST_CASE_TEMPLATE_INVOKE(comm::testing::comm_contract_abort, World)
