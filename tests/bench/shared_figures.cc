#include <fmt/format.h>
#include <volador/volador.h>

#include <chrono>
#include <deque>
#include <vector>

#include "tests/bench/caf_request.h"
#include "tests/bench/figure.h"
#include "tests/bench/process_memory.h"

namespace volador::bench {
namespace {

constexpr size_t kCalls = 100'000;
constexpr size_t kSharedOutstanding = 100;
constexpr size_t kSpawned = 20'000;
constexpr int kSharedRuns = 5;

class Small {
 public:
  int64_t same(int64_t value) { return value; }

 private:
  int64_t state_ = 0;
};
VOLADOR_ACTOR(Small, &Small::same);

// Microseconds per call.
double keep_calling(const ActorHandle<Small>& small, size_t calls) {
  const auto begin = std::chrono::steady_clock::now();
  std::deque<Future<int64_t>> under_way;
  for (size_t at = 0; at < calls; ++at) {
    if (under_way.size() == kSharedOutstanding) {
      under_way.front().get();
      under_way.pop_front();
    }
    under_way.push_back(small.call<&Small::same>(static_cast<int64_t>(at)));
  }
  for (auto& future : under_way) future.get();
  return seconds_since(begin) / static_cast<double>(calls) * 1e6;
}

// Calls another actor in its own shared host.
class Neighbour {
 public:
  double keep_calling(ActorHandle<Small> small, size_t calls) { return bench::keep_calling(small, calls); }
};
VOLADOR_ACTOR(Neighbour, &Neighbour::keep_calling);

Measured call_shared() {
  Measured measured{.note = "a plain CAF request, 100 outstanding; between two actors of one shared host"};
  const auto small = actor<Small>().isolation(Isolation::kShared).spawn();
  const auto neighbour = actor<Neighbour>().isolation(Isolation::kShared).spawn();
  neighbour.call<&Neighbour::keep_calling>(small, size_t{1000}).get();
  for (int run = 0; run < kSharedRuns; ++run) {
    measured.baselines.push_back(caf_request_us(kCalls, kSharedOutstanding));
    measured.values.push_back(neighbour.call<&Neighbour::keep_calling>(small, kCalls).get());
  }
  small.kill();
  neighbour.kill();
  return measured;
}

Measured call_shared_from_driver() {
  Measured measured{.note = "a plain CAF request, 100 outstanding; from another process"};
  const auto small = actor<Small>().isolation(Isolation::kShared).spawn();
  keep_calling(small, 1000);
  for (int run = 0; run < kSharedRuns; ++run) {
    measured.baselines.push_back(caf_request_us(kCalls, kSharedOutstanding));
    measured.values.push_back(keep_calling(small, kCalls));
  }
  small.kill();
  return measured;
}

struct Spawned {
  double actors_a_second = 0;
  double bytes_an_actor = 0;
};

// Each until its first response, 10,000 in flight; killed afterwards.
Spawned spawn_light(size_t count) {
  const auto first = actor<Small>().isolation(Isolation::kShared).spawn();
  first.call<&Small::same>(1).get();
  const int pid = first.status().pid;
  const int64_t before = memory_of_process(pid);
  std::vector<ActorHandle<Small>> actors;
  actors.reserve(count);
  std::deque<Future<int64_t>> under_way;
  const auto begin = std::chrono::steady_clock::now();
  for (size_t at = 0; at < count; ++at) {
    if (under_way.size() == 10'000) {
      under_way.front().get();
      under_way.pop_front();
    }
    actors.push_back(actor<Small>().isolation(Isolation::kShared).spawn());
    under_way.push_back(actors.back().call<&Small::same>(1));
  }
  for (auto& answer : under_way) answer.get();
  const double seconds = seconds_since(begin);
  const Spawned spawned{static_cast<double>(count) / seconds,
                        static_cast<double>(memory_of_process(pid) - before) / static_cast<double>(count)};
  for (const auto& one : actors) one.kill();
  first.kill();
  return spawned;
}

Measured spawn_shared() {
  Measured measured{.note = "no baseline; the aim is 100,000/s"};
  for (int run = 0; run < 3; ++run) measured.values.push_back(spawn_light(kSpawned).actors_a_second);
  return measured;
}

// First run only: later ones reuse memory of the host.
Measured spawn_shared_bytes() {
  Measured measured{.note = "an idle CAF actor; the aim is 2,000"};
  measured.baselines.push_back(caf_actor_bytes(kSpawned));
  measured.values.push_back(spawn_light(2 * kSpawned).bytes_an_actor);
  return measured;
}

// Actors registered at the head, here because they may restart.
Measured spawn_shared_kept() {
  constexpr size_t kKept = 2'000;
  Measured measured{.note = "no baseline; through the head, one request at a time"};
  for (int run = 0; run < 3; ++run) {
    std::vector<ActorHandle<Small>> actors;
    std::vector<Future<int64_t>> answers;
    const auto begin = std::chrono::steady_clock::now();
    for (size_t at = 0; at < kKept; ++at) {
      actors.push_back(actor<Small>().isolation(Isolation::kShared).max_restarts(1).spawn());
      answers.push_back(actors.back().call<&Small::same>(1));
    }
    for (auto& answer : answers) answer.get();
    measured.values.push_back(static_cast<double>(kKept) / seconds_since(begin));
    for (const auto& one : actors) one.kill();
  }
  return measured;
}

}  // namespace

std::vector<Figure> shared_figures() {
  return {{"call_shared", "us", false, call_shared},
          {"call_shared_from_driver", "us", false, call_shared_from_driver},
          {"spawn_shared", "actors/s", true, spawn_shared},
          {"spawn_shared_bytes", "bytes", false, spawn_shared_bytes},
          {"spawn_shared_kept", "actors/s", true, spawn_shared_kept}};
}

}  // namespace volador::bench
