#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "head/scheduling/placement.h"
#include "runtime/random.h"
#include "tests/bench/figure.h"
#include "tests/bench/mixed_queue.h"

namespace volador::bench {
namespace {

using head::Placement;
using head::PlacementRequest;

constexpr uint32_t kNodes = 10'000;
constexpr uint32_t kActors = 100'000;
constexpr uint64_t kShapes = 5'000;
constexpr int kEvents = 20'000;

template <class Id>
Id numbered(uint32_t number) {
  std::array<uint8_t, 16> bytes{};
  for (size_t at = 0; at < 4; ++at) bytes[at] = static_cast<uint8_t>(number >> (24 - 8 * at));
  bytes[15] = 1;
  return Id(bytes);
}

size_t bytes_in_use() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// An overcommitted cluster: nodes of three kinds, actors with thousands of shapes, some of which require labels.
class BusyCluster {
 public:
  BusyCluster() {
    for (uint32_t number = 0; number < kNodes; ++number) add_node(number);
    for (uint64_t number = 0; number < kShapes; ++number) shapes_.push_back(shape(number));
    while (next_actor_ < kActors) arrive();
    decide();
  }

  // Returns the seconds from the end of a random running actor to the resulting decisions.
  double end_one() {
    const size_t at = random_.below(running_.size());
    const ActorId actor = running_[at];
    running_[at] = running_.back();
    running_.pop_back();
    const auto begin = std::chrono::steady_clock::now();
    placement_.release(actor);
    decide();
    return seconds_since(begin);
  }
  // Returns the seconds from the arrival of a new actor to the resulting decisions.
  double arrive_one() {
    const auto begin = std::chrono::steady_clock::now();
    arrive();
    decide();
    return seconds_since(begin);
  }
  size_t waiting() const { return placement_.waiting(); }

 private:
  void add_node(uint32_t number) {
    const int gpus = number % 4 == 0 ? 8 : number % 4 == 1 ? 2 : 0;
    std::vector<int32_t> devices;
    for (int index = 0; index < gpus; ++index) devices.push_back(index);
    ResourceSet total;
    total.set("cpus", kUnit * (number % 3 == 0 ? 64 : 16));
    total.set("memory", int64_t{number % 3 == 0 ? 256 : 64} << 30);
    const auto id = numbered<NodeId>(number);
    placement_.set_node(id, fmt::format("n{}", number), {{"zone", std::to_string(number % 8)}}, total, devices);
    placement_.set_placeable(id, "");
  }

  PlacementRequest shape(uint64_t number) {
    PlacementRequest request;
    request.resources.set("cpus", static_cast<Amount>(500 + random_.below(120'000)));
    request.resources.set("memory", static_cast<Amount>((1 + random_.below(24 << 10)) << 20));
    if (random_.below(5) == 0)
      request.resources.set("gpus",
                            random_.below(2) == 0 ? kUnit / 2 : kUnit * static_cast<Amount>(1 + random_.below(4)));
    if (random_.below(10) == 0) request.wishes.labels = {{"zone", std::to_string(number % 8)}};
    request.program = "p";
    return request;
  }

  void arrive() {
    PlacementRequest request = shapes_[random_.below(shapes_.size())];
    request.actor = numbered<ActorId>(next_actor_++);
    request.priority = static_cast<int32_t>(random_.below(3));
    request.sequence = next_actor_;
    placement_.submit(now_, request);
  }

  void decide() {
    while (true) {
      const auto placed = placement_.schedule(now_);
      for (const auto& one : placed) running_.push_back(one.actor);
      if (placed.size() < Placement::kDecisionsMax) return;
    }
  }

  SeededRandom random_{7};
  Placement placement_{head::Times{}, head::Limits{}};
  BootTime now_{std::chrono::seconds(1000)};
  std::vector<PlacementRequest> shapes_;
  std::vector<ActorId> running_;
  uint32_t next_actor_ = 0;
};

Measured schedule_sim() {
  BusyCluster cluster;
  std::vector<double> seconds;
  for (int event = 0; event < kEvents; ++event)
    seconds.push_back(event % 2 == 0 ? cluster.end_one() : cluster.arrive_one());
  return {.values = {p99(seconds) * 1e6},
          .baselines = {1000},
          .note = fmt::format("aim: 1 ms; {} requests wait", cluster.waiting())};
}

Measured schedule_sim_memory() {
  const size_t before = bytes_in_use();
  const auto cluster = std::make_unique<BusyCluster>();
  return {.values = {static_cast<double>(bytes_in_use() - before) / 1e6},
          .note = fmt::format("{} requests wait", cluster->waiting())};
}

// Ratio to the minimum possible end, and waiting times of each class of requests.
Measured schedule_mixed(int held_gpus) {
  Measured figure;
  std::map<std::string, std::pair<double, double>> waits;  // Mean, and the largest p99 of the runs.
  constexpr uint64_t kSeeds = 3;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const MixedQueue run = run_mixed_queue(seed, held_gpus);
    figure.values.push_back(run.utilisation);
    figure.baselines.push_back(1);
    for (const auto& [name, one] : run.classes) {
      waits[name].first += one.mean_s / kSeeds;
      waits[name].second = std::max(waits[name].second, one.p99_s);
    }
  }
  figure.note = "1: no schedule ends earlier; seconds waited, mean and p99:";
  for (const auto& [name, wait] : waits)
    figure.note += fmt::format(" {} {:.1f} {:.0f};", name, wait.first, wait.second);
  figure.note.pop_back();
  return figure;
}

}  // namespace

std::vector<Figure> schedule_figures() {
  return {{.name = "schedule_sim", .unit = "µs", .higher_is_better = false, .measure = schedule_sim},
          {.name = "schedule_sim_memory", .unit = "MB", .higher_is_better = false, .measure = schedule_sim_memory},
          {.name = "schedule_mixed",
           .unit = "of the bound",
           .higher_is_better = true,
           .measure = [] { return schedule_mixed(0); }},
          {.name = "schedule_mixed_held", .unit = "of the bound", .higher_is_better = true, .measure = [] {
             return schedule_mixed(12);
           }}};
}

}  // namespace volador::bench
