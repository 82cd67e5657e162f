#include "comm/testing/simulated/nccl/group.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "comm/testing/simulated/nccl/inside.h"
#include "comm/testing/simulated/report.h"
#include "comm/testing/simulated/settings.h"

namespace comm::simulated::detail {
namespace {

constexpr std::chrono::milliseconds kLaunchesUnpolled{20};

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Task> tasks;
  std::vector<Job> jobs;

  ~Group() {
    if (depth > 0) {
      report(Violation::group_depth,
             "a thread ended with %d ncclGroupStart not closed; %zu operations never started",
             depth, tasks.size() + jobs.size());
    }
  }
};

Group& group() {
  thread_local Group group;
  return group;
}

std::vector<CommPtr> communicators_of(const std::vector<Task>& tasks,
                                      const std::vector<Job>& jobs) {
  std::vector<CommPtr> all;
  const auto put = [&](const CommPtr& comm) {
    if (comm != nullptr && std::find(all.begin(), all.end(), comm) == all.end()) {
      all.push_back(comm);
    }
  };
  for (const Job& job : jobs) put(job.comm);
  for (const Task& task : tasks) put(task.comm);
  return all;
}

ncclResult_t run_jobs(const std::vector<Job>& jobs) {
  std::vector<ncclResult_t> results(jobs.size(), ncclSuccess);
  const auto run = [&](std::size_t i) {
    results[i] = jobs[i].run();
    if (results[i] != ncclSuccess && jobs[i].undo) jobs[i].undo(results[i]);
  };
  if (jobs.size() == 1) {
    run(0);
  } else {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < jobs.size(); ++i) threads.emplace_back(run, i);
    for (std::thread& thread : threads) thread.join();
  }
  for (ncclResult_t result : results) {
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

ncclResult_t run_all(const std::vector<Task>& tasks, const std::vector<Job>& jobs) {
  const ncclResult_t result = run_jobs(jobs);
  return result != ncclSuccess ? result : launch(tasks);
}

void add_job(const std::vector<CommPtr>& all, int change) {
  const Lock lock(machine().mutex);
  for (const CommPtr& comm : all) comm->jobs += change;
  machine().progress.notify_all();
}

// A non-blocking group: a thread does the work while the host polls.
ncclResult_t run_in_background(std::vector<Task> tasks, std::vector<Job> jobs) {
  const std::vector<CommPtr> all = communicators_of(tasks, jobs);
  {
    const Lock lock(machine().mutex);
    for (const CommPtr& comm : all) {
      comm->state = ncclInProgress;
      ++comm->jobs;
      comm->polls_left = static_cast<std::int64_t>(draw(comm->number, comm->issued, 4) % 3);
      for (const Task& task : tasks) {
        if (task.comm == comm && task.fault.is(FaultAction::in_progress)) {
          comm->polls_left = task.fault.value;
        }
      }
    }
  }
  std::thread([tasks = std::move(tasks), jobs = std::move(jobs), all] {
    if (!tasks.empty()) {
      Lock lock(machine().mutex);
      const auto polled = [&] {
        return std::all_of(all.begin(), all.end(),
                           [](const CommPtr& comm) { return comm->polls_left <= 0 || comm->stop; });
      };
      bool injected = false;
      for (const Task& task : tasks) injected |= task.fault.is(FaultAction::in_progress);
      if (injected) {
        machine().progress.wait(lock, polled);
      } else {
        machine().progress.wait_for(lock, kLaunchesUnpolled, polled);
      }
    }
    const ncclResult_t result = run_all(tasks, jobs);
    {
      const Lock lock(machine().mutex);
      for (const CommPtr& comm : all) {
        if (comm->state == ncclInProgress) comm->state = result;
      }
    }
    add_job(all, -1);
  }).detach();
  return ncclInProgress;
}

}  // namespace

int group_depth() {
  return group().depth;
}

ncclResult_t group_start() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t group_error(ncclResult_t result) {
  Group& here = group();
  if (here.depth > 0 && result != ncclSuccess && result != ncclInProgress) here.error = result;
  return result;
}

ncclResult_t group_forget() {
  Group& here = group();
  here.tasks.clear();
  here.jobs.clear();
  here.depth = 0;
  return std::exchange(here.error, ncclSuccess);
}

ncclResult_t group_end() {
  Group& here = group();
  if (here.depth == 0) {
    report(Violation::group_depth, "ncclGroupEnd without ncclGroupStart on this thread");
    set_last_error("ncclGroupEnd: not in a group call");
    return ncclInvalidUsage;
  }
  if (--here.depth > 0) return here.error;
  std::vector<Task> tasks = std::exchange(here.tasks, {});
  std::vector<Job> jobs = std::exchange(here.jobs, {});
  ncclResult_t error = std::exchange(here.error, ncclSuccess);
  const std::vector<CommPtr> all = communicators_of(tasks, jobs);

  bool blocking = true;  // That of the communicator used last, but see `Job::ends_communicator`.
  for (const Job& job : jobs) blocking = job.blocking;
  for (const Task& task : tasks) blocking = task.comm->blocking;
  for (const Job& job : jobs) {
    if (job.blocking != jobs.front().blocking && error == ncclSuccess) {
      set_last_error("blocking and non-blocking communicators in one group");
      error = ncclInvalidArgument;
    }
  }
  for (const Job& job : jobs) blocking = blocking || job.ends_communicator;
  if (error != ncclSuccess) {
    for (const Job& job : jobs) {
      if (job.undo) job.undo(error);
    }
    for (const CommPtr& comm : all) failed(comm, error);
    return error;
  }
  if (all.empty() && jobs.empty()) return ncclSuccess;
  if (!blocking) return run_in_background(std::move(tasks), std::move(jobs));
  add_job(all, 1);
  std::vector<std::unique_ptr<InsideCall>> inside;
  for (const Task& task : tasks) {
    inside.push_back(std::make_unique<InsideCall>("ncclGroupEnd", task.comm->device));
  }
  const ncclResult_t result = run_all(tasks, jobs);
  inside.clear();
  add_job(all, -1);
  return result;
}

ncclResult_t add(Task task) {
  group_start();
  group().tasks.push_back(std::move(task));
  return group_end();
}

ncclResult_t add(Job job) {
  group_start();
  group().jobs.push_back(std::move(job));
  return group_end();
}

}  // namespace comm::simulated::detail
