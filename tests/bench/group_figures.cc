// Placement groups: created, awaited and removed, a hundred at a time, by one program.
#include <fmt/format.h>
#include <volador/volador.h>

#include "tests/bench/figure.h"

namespace volador::bench {
namespace {

constexpr int kGroups = 100;
constexpr int kGroupRounds = 20;
constexpr double kRay = 503;  // Groups per second, Ray 2.60 on a machine with 2 cores.

// As in Ray's benchmark: groups of one small bundle, each awaited, then each removed.
double groups_a_second() {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Future<PlacementGroup>> made;
  for (int i = 0; i < kGroups; ++i) made.push_back(placement_group_async({{.cpus = 0.001}}));
  std::vector<PlacementGroup> groups;
  for (const auto& one : made) groups.push_back(one.get());
  std::vector<Future<void>> steps;
  for (const auto& group : groups) steps.push_back(group.ready());
  for (const auto& step : steps) step.get();
  steps.clear();
  for (const auto& group : groups) steps.push_back(group.remove());
  for (const auto& step : steps) step.get();
  return kGroups / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Awaits each step of each group before the next.
double one_by_one_a_second() {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kGroups; ++i) {
    const auto group = placement_group({{.cpus = 0.001}});
    group.ready().get();
    group.remove().get();
  }
  return kGroups / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Measured measured(double (*rate)()) {
  Measured figure{.note = fmt::format("aim: 20 × Ray's {:.0f}/s", kRay)};
  for (int round = 0; round < kGroupRounds; ++round) {
    figure.values.push_back(rate());
    figure.baselines.push_back(20 * kRay);
  }
  return figure;
}

}  // namespace

std::vector<Figure> group_figures() {
  return {{"placement_group", "groups/s", true, [] { return measured(groups_a_second); }},
          {"placement_group_sync", "groups/s", true, [] { return measured(one_by_one_a_second); }}};
}

}  // namespace volador::bench
