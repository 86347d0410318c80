#include <volador/volador.h>

#include <chrono>
#include <deque>
#include <vector>

#include "tests/bench/figure.h"
#include "tests/bench/raw_echo.h"
#include "tests/bench/spawn_rate.h"

namespace volador::bench {
namespace {

class Echo {
 public:
  int64_t same(int64_t value) { return value; }
};
VOLADOR_ACTOR(Echo, &Echo::same);

Measured call_sync() {
  constexpr size_t kCalls = 5'000;
  Measured measured{.note = "raw Unix-socket echo, an epoll and a working thread on each side"};
  auto echo = actor<Echo>().spawn();
  for (int i = 0; i < 500; ++i) echo.call<&Echo::same>(i).get();
  for (int run = 0; run < 5; ++run) {
    measured.baselines.push_back(raw_echo_sync_us(kCalls));
    const auto begin = std::chrono::steady_clock::now();
    for (size_t i = 0; i < kCalls; ++i) echo.call<&Echo::same>(static_cast<int64_t>(i)).get();
    measured.values.push_back(seconds_since(begin) / static_cast<double>(kCalls) * 1e6);
  }
  echo.kill();
  return measured;
}

// Keeps `outstanding` calls in flight, round-robin over the actors.
void keep_calling(const std::vector<ActorHandle<Echo>>& echos, size_t calls, size_t outstanding) {
  std::deque<Future<int64_t>> under_way;
  for (size_t i = 0; i < calls; ++i) {
    if (under_way.size() == outstanding) {
      under_way.front().get();
      under_way.pop_front();
    }
    under_way.push_back(echos[i % echos.size()].call<&Echo::same>(static_cast<int64_t>(i)));
  }
  for (auto& future : under_way) future.get();
}

// One of the callers of call_n_to_n, in its own process.
class Caller {
 public:
  // Returns once this caller has resolved the actors.
  void meet(std::vector<ActorHandle<Echo>> echos) {
    echos_ = std::move(echos);
    for (const auto& echo : echos_) echo.call<&Echo::same>(0).get();
  }
  void keep_calling(size_t calls, size_t outstanding) { bench::keep_calling(echos_, calls, outstanding); }

 private:
  std::vector<ActorHandle<Echo>> echos_;
};
VOLADOR_ACTOR(Caller, &Caller::meet, &Caller::keep_calling);

constexpr size_t kPipelinedCalls = 200'000;
constexpr size_t kCallers = 4;  // Number of callers in n to n.
constexpr size_t kOutstanding = 1'000;
constexpr int kRuns = 5;

std::vector<ActorHandle<Echo>> spawn_echos(size_t count) {
  std::vector<ActorHandle<Echo>> echos;
  for (size_t i = 0; i < count; ++i) echos.push_back(actor<Echo>().spawn());
  for (const auto& echo : echos) echo.call<&Echo::same>(0).get();
  return echos;
}

Measured pipelined_to(size_t actors) {
  Measured measured{.note = "the same raw echo with 1,000 outstanding"};
  const auto echos = spawn_echos(actors);
  for (int run = 0; run < kRuns; ++run) {
    measured.baselines.push_back(raw_echo_pipelined_per_s(kPipelinedCalls, kOutstanding));
    const auto begin = std::chrono::steady_clock::now();
    keep_calling(echos, kPipelinedCalls, kOutstanding);
    measured.values.push_back(static_cast<double>(kPipelinedCalls) / seconds_since(begin));
  }
  for (const auto& echo : echos) echo.kill();
  return measured;
}

Measured call_pipelined() { return pipelined_to(1); }
Measured call_1_to_n() { return pipelined_to(4); }

// Number of calls in flight per caller; Ray's benchmark of this name uses 5,000.
Measured n_to_n(size_t outstanding) {
  Measured measured{.note = "the same raw echo, one pair of processes"};
  const auto echos = spawn_echos(kCallers);
  std::vector<ActorHandle<Caller>> callers;
  for (size_t i = 0; i < kCallers; ++i) {
    callers.push_back(actor<Caller>().spawn());
    callers.back().call<&Caller::meet>(echos).get();
  }
  for (int run = 0; run < kRuns; ++run) {
    measured.baselines.push_back(raw_echo_pipelined_per_s(kPipelinedCalls, kOutstanding));
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Future<void>> done;
    for (const auto& caller : callers)
      done.push_back(caller.call<&Caller::keep_calling>(kPipelinedCalls / kCallers, outstanding));
    for (auto& one : done) one.get();
    measured.values.push_back(static_cast<double>(kPipelinedCalls) / seconds_since(begin));
  }
  for (const auto& caller : callers) caller.kill();
  for (const auto& echo : echos) echo.kill();
  return measured;
}

Measured call_n_to_n() { return n_to_n(kOutstanding); }
Measured call_n_to_n_few() { return n_to_n(kOutstanding / kCallers); }

Measured actor_spawn_process() {
  Measured measured{.note = "no baseline; the aim is 200/s"};
  for (int run = 0; run < 3; ++run) measured.values.push_back(spawns_a_second(200));
  return measured;
}

}  // namespace

std::vector<Figure> call_figures() {
  return {{"call_sync", "us", false, call_sync},
          {"call_pipelined", "calls/s", true, call_pipelined},
          {"call_1_to_n", "calls/s", true, call_1_to_n},
          {"call_n_to_n", "calls/s", true, call_n_to_n},
          {"call_n_to_n_few", "calls/s", true, call_n_to_n_few},
          {"actor_spawn_process", "actors/s", true, actor_spawn_process}};
}

}  // namespace volador::bench
