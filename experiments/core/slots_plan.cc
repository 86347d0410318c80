#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "experiments/core/experiment_core.h"
#include "runtime/quantities.h"

namespace volador::experiments {
namespace {

// "2 nodes with 8 GPUs, 1 node with 4 GPUs".
std::string described(const std::map<int64_t, int, std::greater<>>& nodes, std::string_view unit) {
  std::string out;
  for (const auto& [slots, count] : nodes)
    out += fmt::format("{}{} with {}", out.empty() ? "" : ", ", counted(count, "node"), counted(slots, unit));
  return out;
}

}  // namespace

Result<SlotsPlan> plan_slots(int64_t slots, bool is_single_node, const std::string& pool, const SlotsView& view) {
  const std::string name = pool.empty() ? "default" : pool;
  const auto refuse = [&](std::string_view what) {
    return make_error(ErrorCode::kInfeasible,
                      fmt::format("resources.slots_per_trial: {} slots do not fit pool {}: {}", slots, name, what));
  };
  const auto is_of_pool = [&](const SlotsView::Node& node) { return node.pool == name; };
  if (std::ranges::none_of(view.nodes, is_of_pool))
    return refuse("it has no nodes; `volador status` shows the nodes of the cluster");
  const bool gpus =
      std::ranges::any_of(view.nodes, [&](const auto& node) { return is_of_pool(node) && node.gpus >= 1; });
  if (slots == 0) return SlotsPlan{};
  std::map<int64_t, int, std::greater<>> nodes;  // Number of nodes by their slots.
  for (const SlotsView::Node& node : view.nodes) {
    if (is_of_pool(node)) ++nodes[static_cast<int64_t>(gpus ? node.gpus : node.cpus)];
  }
  const std::string has = "it has " + described(nodes, gpus ? "GPU" : "CPU");
  if (slots <= nodes.begin()->first) return SlotsPlan{1, static_cast<int>(slots), gpus};
  if (is_single_node) return refuse(has + ", and resources.is_single_node is set");
  for (const auto& [size, count] : nodes) {
    if (size < 1 || slots % size != 0) continue;
    // Larger nodes may take the same share.
    int able = 0;
    for (const auto& [other, others] : nodes) able += other >= size ? others : 0;
    if (able >= slots / size) return SlotsPlan{static_cast<int>(slots / size), static_cast<int>(size), gpus};
  }
  return refuse(has + "; a trial that fits no node takes whole nodes with the same number of slots");
}

}  // namespace volador::experiments
