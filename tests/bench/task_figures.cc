// Tasks, sequentially and a thousand at once, each compared with the same work as a call of one actor, the limit of a
// task.
#include <time.h>
#include <unistd.h>
#include <volador/volador.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tests/bench/figure.h"

namespace volador::bench {
namespace {

std::string small_value() { return "ok"; }

class Server {
 public:
  std::string small_value() { return "ok"; }
};
VOLADOR_ACTOR(Server, &Server::small_value);

using Clock = std::chrono::steady_clock;
constexpr int kRounds = 5;
constexpr int kSync = 500;
constexpr int kAsync = 1000;
constexpr int kBatches = 100;  // Batches of kAsync per run. Ray's benchmark runs batches for several seconds.

Measured task_sync() {
  Measured measured{.note = "a call of an actor, one after another"};
  const auto server = actor<Server>().spawn();
  server.call<&Server::small_value>().get();
  task<&small_value>().submit().get();
  for (int round = 0; round < kRounds; ++round) {
    auto begin = Clock::now();
    for (int i = 0; i < kSync; ++i) task<&small_value>().submit().get();
    measured.values.push_back(seconds_since(begin) / kSync * 1e6);
    begin = Clock::now();
    for (int i = 0; i < kSync; ++i) server.call<&Server::small_value>().get();
    measured.baselines.push_back(seconds_since(begin) / kSync * 1e6);
  }
  server.kill();
  return measured;
}

Measured task_async() {
  Measured measured{.note = "calls of one actor, 1,000 at once, 100 times in a run"};
  const auto server = actor<Server>().spawn();
  server.call<&Server::small_value>().get();
  const auto rate = [](const auto& start_one) {
    const auto begin = Clock::now();
    for (int batch = 0; batch < kBatches; ++batch) {
      std::vector<Future<std::string>> futures;
      futures.reserve(kAsync);
      for (int i = 0; i < kAsync; ++i) futures.push_back(start_one());
      for (const auto& future : futures) future.get();
    }
    return kBatches * kAsync / seconds_since(begin);
  };
  rate([] { return task<&small_value>().submit(); });  // Starts the runners.
  for (int round = 0; round < kRounds; ++round) {
    measured.values.push_back(rate([] { return task<&small_value>().submit(); }));
    measured.baselines.push_back(rate([&] { return server.call<&Server::small_value>(); }));
  }
  server.kill();
  return measured;
}

int64_t process_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}
std::pair<int, int64_t> runner_cpu() { return {::getpid(), process_cpu_ns()}; }

// CPU time of this process and of the runners, with 1,000 tasks at once; head and worker are not involved in a task.
Measured task_cpu() {
  Measured measured{.note = "no baseline; the aim is 20"};
  for (int round = 0; round <= kRounds; ++round) {
    std::vector<Future<std::pair<int, int64_t>>> futures;
    futures.reserve(kAsync);
    std::map<int, std::pair<int64_t, int64_t>> runners;  // First and last CPU time of each.
    const int64_t before = process_cpu_ns();
    for (int i = 0; i < kAsync; ++i) futures.push_back(task<&runner_cpu>().submit());
    for (const auto& future : futures) {
      const auto [pid, cpu] = future.get();
      const auto [known, is_new] = runners.try_emplace(pid, cpu, cpu);
      known->second = {std::min(known->second.first, cpu), std::max(known->second.second, cpu)};
    }
    int64_t all = process_cpu_ns() - before;
    for (const auto& [pid, cpu] : runners) all += cpu.second - cpu.first;
    // The first round starts the runners and does not count.
    if (round > 0) measured.values.push_back(static_cast<double>(all) / kAsync / 1e3);
  }
  return measured;
}

}  // namespace

std::vector<Figure> task_figures() {
  return {{"task_sync", "us", false, task_sync},
          {"task_async", "tasks/s", true, task_async},
          {"task_cpu", "us", false, task_cpu}};
}

}  // namespace volador::bench
