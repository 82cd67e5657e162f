#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "comm/launch/launch_config.h"
#include "comm/launch/launchers.h"
#include "tests/launch/environment.h"

using comm::LaunchConfig;
using comm::Result;
using comm::StatusCode;
using comm::test::Environment;
using Variables = Environment::Variables;

namespace {

LaunchConfig read(const Variables& variables) {
  const Environment environment(variables);
  Result<LaunchConfig> config = LaunchConfig::from_env();
  REQUIRE_MESSAGE(config.ok(), std::string(config.message()));
  return std::move(*config);
}

std::string refusal(const Variables& variables) {
  const Environment environment(variables);
  const Result<LaunchConfig> config = LaunchConfig::from_env();
  if (config.ok()) return "accepted";
  CHECK(config.code() == StatusCode::invalid_argument);
  return config.message();
}

Variables with(Variables base, const std::string& name, const std::string& value) {
  for (auto& [known, old] : base) {
    if (known == name) {
      old = value;
      return base;
    }
  }
  base.emplace_back(name, value);
  return base;
}

bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE("not in: ", text);
  return found;
}

const Variables kTorch = {{"RANK", "3"},           {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "host"}, {"MASTER_PORT", "29500"}};

}  // namespace

TEST_CASE("from_env: no variables at all are a world of one") {
  const LaunchConfig config = read({});
  CHECK(config.rank == 0);
  CHECK(config.world_size == 1);
  CHECK(config.local_rank == 0);
  CHECK(config.local_world_size == 1);
  CHECK(config.secret.empty());
  CHECK(config.epoch == LaunchConfig::kAnyEpoch);
}

TEST_CASE("from_env: torchrun and Kubernetes") {
  const LaunchConfig config = read(kTorch);
  CHECK(config.rank == 3);
  CHECK(config.world_size == 8);
  CHECK(config.local_rank == 1);
  CHECK(config.local_world_size == 2);
  CHECK(config.root_address == "host");
  CHECK(config.root_port == 29500);
  CHECK(config.source == "torchrun");
}

TEST_CASE("from_env: without local variables a loopback job is all here, others have one a host") {
  const Variables base = {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "1"}};
  LaunchConfig config = read(with(base, "MASTER_ADDR", "127.0.0.1"));
  CHECK(config.local_rank == 1);
  CHECK(config.local_world_size == 4);
  config = read(with(base, "MASTER_ADDR", "head.service"));
  CHECK(config.local_rank == 0);
  CHECK(config.local_world_size == 1);
}

TEST_CASE("from_env: torchrun's agent holds MASTER_PORT for its own store, so comm takes another") {
  Variables base = with(kTorch, "TORCHELASTIC_USE_AGENT_STORE", "True");
  CHECK(read(base).root_port == 29501);
  CHECK(read(with(base, "COMM_ROOT_PORT", "4000")).root_port == 4000);
  base = with(with(with(base, "LOCAL_WORLD_SIZE", "8"), "TORCHELASTIC_RUN_ID", "run"), "LOCAL_RANK",
              "3");
  CHECK(has(read(base).root_address, "unix:comm-"));
  CHECK(has(read(base).root_address, "torchrun-run-29500-0"));
  CHECK(read(base).root_address != read(with(base, "MASTER_PORT", "29600")).root_address);
}

TEST_CASE("from_env: Open MPI") {
  const Variables base = {{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                          {"PMIX_NAMESPACE", "2029256705"}};
  const LaunchConfig config = read(base);
  CHECK(config.rank == 1);
  CHECK(config.local_world_size == 2);
  CHECK(config.root_address == "unix:comm-" + std::to_string(::geteuid()) + "-ompi-2029256705");
  CHECK(config.job_id == "ompi-2029256705");
  // On several hosts there is nothing to go by.
  const std::string text = refusal(
      with(with(base, "OMPI_COMM_WORLD_LOCAL_SIZE", "1"), "OMPI_COMM_WORLD_LOCAL_RANK", "0"));
  CHECK(has(text, "MASTER_ADDR"));
  CHECK(has(text, "COMM_RENDEZVOUS_FILE"));
  CHECK(read(with(with(base, "MASTER_ADDR", "h"), "MASTER_PORT", "5")).root_address == "h");
}

TEST_CASE("from_env: MPICH") {
  const LaunchConfig config = read({{"PMI_RANK", "0"},
                                    {"PMI_SIZE", "2"},
                                    {"MPI_LOCALRANKID", "0"},
                                    {"MPI_LOCALNRANKS", "2"},
                                    {"PMI_JOBID", "17"}});
  CHECK(config.world_size == 2);
  CHECK(has(config.root_address, "mpich-17"));
}

TEST_CASE("from_env: SLURM with a step's variables") {
  const Variables base = {{"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "9"},
                          {"SLURM_STEP_NUM_TASKS", "7"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_NODEID", "2"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2(x2),3"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_ID", "1"},
                          {"SLURM_STEP_NODELIST", "gpu[03-04,9],login"}};
  const LaunchConfig config = read(base);
  CHECK(config.rank == 5);
  CHECK(config.world_size == 7);
  CHECK(config.local_rank == 1);
  CHECK(config.local_world_size == 3);
  CHECK(config.root_address == "gpu03");
  CHECK(config.root_port >= 20000);
  CHECK(config.root_port < 30000);
  CHECK(config.job_id == "slurm-77.1");
  CHECK(read(with(base, "SLURM_STEP_RESV_PORTS", "12000-12003")).root_port == 12000);
  CHECK(read(with(base, "PMI_RANK", "5")).source == "SLURM");
}

TEST_CASE("from_env: SLURM without a step's variables") {
  const Variables base = {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}};
  CHECK(has(refusal(base), "MASTER_ADDR"));
  const LaunchConfig config = read(with(with(base, "MASTER_ADDR", "h"), "MASTER_PORT", "5"));
  CHECK(config.rank == 1);
  CHECK(config.world_size == 2);
  // The shell of an allocation is no rank.
  CHECK(read({{"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}}).world_size == 1);
  // And neither is a batch script, although it is called task 0.
  CHECK(has(refusal({{"SLURM_PROCID", "0"},
                     {"SLURM_NTASKS", "8"},
                     {"SLURM_GTIDS", "0"},
                     {"SLURM_JOB_ID", "1"}}),
            "start it with srun"));
}

TEST_CASE("from_env: the order is COMM_*, torchrun, Open MPI, PMI, SLURM") {
  Variables all = {
      {"SLURM_PROCID", "4"}, {"SLURM_NTASKS", "50"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}};
  CHECK(read(all).world_size == 50);
  all = with(with(all, "PMI_RANK", "3"), "PMI_SIZE", "40");
  CHECK(read(all).world_size == 40);
  all = with(with(all, "OMPI_COMM_WORLD_RANK", "2"), "OMPI_COMM_WORLD_SIZE", "30");
  CHECK(read(all).world_size == 30);
  all = with(with(all, "RANK", "1"), "WORLD_SIZE", "20");
  CHECK(read(all).world_size == 20);
  all = with(with(all, "COMM_RANK", "0"), "COMM_WORLD_SIZE", "10");
  CHECK(read(all).world_size == 10);
  CHECK(read(with(all, "COMM_ROOT_ADDR", "mine")).root_address == "mine");
}

TEST_CASE("from_env: comm's own variables") {
  const LaunchConfig config = read({{"COMM_JOB_ID", "j"},
                                    {"COMM_BIND", "eth0"},
                                    {"COMM_INIT_TIMEOUT", "2m"},
                                    {"COMM_HANDSHAKE_TIMEOUT", "1500ms"},
                                    {"COMM_PEER_TIMEOUT", "7"},
                                    {"COMM_EPOCH", "3"},
                                    {"COMM_LISTEN_FD", "9"},
                                    {"COMM_SECRET", "s p a c e"}});
  CHECK(config.job_id == "j");
  CHECK(config.bind_address == "eth0");
  CHECK(config.init_timeout == std::chrono::minutes(2));
  CHECK(config.handshake_timeout == std::chrono::milliseconds(1500));
  CHECK(config.peer_timeout == std::chrono::seconds(7));
  CHECK(config.epoch == 3);
  CHECK(config.listen_fd == 9);
  CHECK(config.secret == "s p a c e");
}

TEST_CASE("from_env: a secret from a file, without its last newline") {
  char path[] = "/tmp/comm_secret_XXXXXX";
  const int fd = ::mkstemp(path);
  REQUIRE(::write(fd, "hidden\n", 7) == 7);
  ::close(fd);
  CHECK(read({{"COMM_SECRET_FILE", path}}).secret == "hidden");
  CHECK(has(refusal({{"COMM_SECRET_FILE", path}, {"COMM_SECRET", "x"}}), "both"));
  REQUIRE(::truncate(path, 0) == 0);
  CHECK(has(refusal({{"COMM_SECRET_FILE", path}}), "0 characters"));
  ::unlink(path);
  CHECK(has(refusal({{"COMM_SECRET_FILE", path}}), path));
  const std::string text = refusal({{"COMM_SECRET", std::string(5000, 'k')}});
  CHECK(has(text, "5000 characters"));
  CHECK(text.find("kkk") == std::string::npos);
}

TEST_CASE("FAULTS 9: malformed numbers are refused by name and value") {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT"}) {
    for (const char* value : {"", "1x", " 1", "1 ", "-1", "+1", "None", "0x1", "1.0", "4294967297",
                              "18446744073709551617", "10.0.0.1", "\n"}) {
      const std::string text = refusal(with(kTorch, name, value));
      CHECK(has(text, std::string(name) + "=\""));
      if (value[0] > ' ') CHECK(has(text, value));
    }
  }
  CHECK(has(refusal(with(kTorch, "MASTER_PORT", "65536")), "MASTER_PORT=\"65536\""));
  CHECK(has(refusal(with(kTorch, "MASTER_PORT", "0")), "MASTER_PORT=\"0\""));
  CHECK(has(refusal(with(kTorch, "WORLD_SIZE", "0")), "WORLD_SIZE=\"0\""));
  CHECK(has(refusal(with(kTorch, "RANK", "8")), "RANK=\"8\""));
  CHECK(has(refusal(with(kTorch, "RANK", "9")), "WORLD_SIZE=8"));
  CHECK(has(refusal(with(kTorch, "LOCAL_RANK", "2")), "LOCAL_RANK=\"2\""));
  CHECK(has(refusal(with(kTorch, "LOCAL_WORLD_SIZE", "9")), "LOCAL_WORLD_SIZE=\"9\""));
  const std::pair<const char*, const char*> others[] = {
      {"SLURM_PROCID", "SLURM_NTASKS"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"}};
  for (const auto& [rank, size] : others) {
    CHECK(has(refusal({{rank, "None"}, {size, "2"}}), std::string(rank) + "=\"None\""));
    CHECK(has(refusal({{rank, "0"}, {size, "1x"}}), std::string(size) + "=\"1x\""));
  }
}

TEST_CASE("FAULTS 9: malformed addresses are refused by name and value") {
  for (const char* value : {"", "None", "a b", "http://x", "host:29500", "127.0.0.1:1"}) {
    CHECK(has(refusal(with(kTorch, "MASTER_ADDR", value)), "MASTER_ADDR=\"" + std::string(value)));
  }
  CHECK(read(with(kTorch, "MASTER_ADDR", "fe80::1%eth0")).root_address == "fe80::1%eth0");
}

TEST_CASE("from_env: half of a pair is refused, naming the other half") {
  CHECK(has(refusal({{"RANK", "0"}}), "WORLD_SIZE is not set, but RANK is"));
  CHECK(has(refusal({{"WORLD_SIZE", "2"}}), "RANK is not set, but WORLD_SIZE is"));
  CHECK(has(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}}),
            "MASTER_PORT is not set"));
  CHECK(has(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}}),
            "MASTER_ADDR is not set"));
}

TEST_CASE("from_env: malformed values of comm's own variables are refused") {
  for (const char* name : {"COMM_INIT_TIMEOUT", "COMM_HANDSHAKE_TIMEOUT", "COMM_PEER_TIMEOUT"}) {
    for (const char* value : {"", "0", "-1", "1 s", "s", "5d", "99999999999999999999", "1e3"}) {
      CHECK(has(refusal({{name, value}}), std::string(name) + "=\"" + value));
    }
  }
  CHECK(has(refusal({{"COMM_EPOCH", "x"}}), "COMM_EPOCH"));
  CHECK(has(refusal({{"COMM_LISTEN_FD", "-1"}}), "COMM_LISTEN_FD"));
  CHECK(has(refusal({{"COMM_JOB_ID", std::string(256, 'j')}}), "COMM_JOB_ID"));
  CHECK(has(refusal({{"COMM_SECRET", ""}}), "COMM_SECRET"));
}

TEST_CASE("slurm: lists of hosts and of tasks") {
  using comm::detail::first_slurm_host;
  using comm::detail::slurm_tasks_on_node;
  CHECK(first_slurm_host("n1") == "n1");
  CHECK(first_slurm_host("n1,n2") == "n1");
  CHECK(first_slurm_host("n[007-9]") == "n007");
  CHECK(first_slurm_host("r[1-2]c[3,5]-ib") == "r1c3-ib");
  for (const char* bad : {"", "n[", "n[]", "n[-1]", "a b", "n[1", ",n"}) {
    CHECK_MESSAGE(first_slurm_host(bad).empty(), bad);
  }
  CHECK(slurm_tasks_on_node("4", 0) == 4);
  CHECK(slurm_tasks_on_node("4(x2),3", 1) == 4);
  CHECK(slurm_tasks_on_node("4(x2),3", 2) == 3);
  for (const char* bad : {"", "x", "4(x", "4(x2", "4(2)"}) {
    CHECK_MESSAGE(slurm_tasks_on_node(bad, 0) == -1, bad);
  }
  CHECK(slurm_tasks_on_node("4", 1) == -1);
}

TEST_CASE("validate: what was filled in by hand is checked as well") {
  LaunchConfig config = LaunchConfig::local(1, 2, 5);
  CHECK(config.validate().ok());
  const auto refused = [](const LaunchConfig& c) {
    return c.validate().code() == StatusCode::invalid_argument;
  };
  config.rank = 2;
  CHECK(refused(config));
  config = LaunchConfig::local(1, 2, 0);
  CHECK(refused(config));
  config = LaunchConfig::local(0, 0, 5);
  CHECK(refused(config));
  config = LaunchConfig::local(1, 2, 5);
  config.init_timeout = std::chrono::milliseconds(0);
  CHECK(refused(config));
  config = LaunchConfig::local(1, 2, 5);
  config.root_address.clear();
  CHECK(refused(config));
}
