// Training loops of several ranks that are threads of the test.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "train/group/node_wire.h"
#include "train/group/shared_group.h"
#include "train/operator/rank_loop.h"
#include "train/optim/state_dict.h"

namespace volador::train {

struct LoopRanks {
  // All ranks start from the state of rank 0. `nodes`: node of each rank; empty: one node.
  LoopRanks(int world, const std::string& name, const Config& config = Config::map(), std::vector<int> nodes = {})
      : operator_name(name), config(config) {
    resize(world);
    load(bytes());
    form(std::move(nodes));
  }
  // Calls function(rank) in a thread for each rank and returns the results. Throws the first exception.
  template <class F>
  auto each(F function) {
    using R = std::invoke_result_t<F, int>;
    std::vector<std::future<R>> running;
    for (size_t rank = 0; rank < loops.size(); ++rank)
      running.push_back(std::async(std::launch::async, [&function, rank] {
        torch::set_num_threads(1);
        return function(static_cast<int>(rank));
      }));
    for (auto& one : running) one.wait();
    if constexpr (std::is_void_v<R>) {
      for (auto& one : running) one.get();
    } else {
      std::vector<R> results;
      for (auto& one : running) results.push_back(one.get());
      return results;
    }
  }
  // Drops the last ranks or adds new ones; form() must follow.
  void resize(int world) {
    torch::set_num_threads(1);
    loops.resize(static_cast<size_t>(world));
    for (auto& loop : loops) {
      if (loop == nullptr)
        loop = std::make_unique<RankLoop>(RankOptions{.operator_name = operator_name, .seed = 5}, config);
    }
  }
  void load(const std::string& state) {
    for (auto& loop : loops) loop->load(from_bytes(state));
  }
  void form(std::vector<int> nodes = {}) {
    nodes.resize(loops.size());
    const int node_count = 1 + *std::max_element(nodes.begin(), nodes.end());
    std::vector<SegmentFile> files(static_cast<size_t>(node_count));
    for (SegmentFile& file : files) file = SegmentFile::create().value();
    const auto table = std::make_shared<LocalRendezvous>();
    each([&](int rank) {
      RankLoop& loop = at(rank);
      if (loops.size() == 1) return loop.form(single_rank_group());
      const int node = nodes[static_cast<size_t>(rank)];
      SharedGroupOptions options{
          .segment = files[static_cast<size_t>(node)].offer(),
          .rank = rank,
          .node_of_rank = nodes,
          .arena_bytes = loop.arena_bytes(static_cast<int>(std::count(nodes.begin(), nodes.end(), node))),
          .layout = loop.layout()};
      const bool is_leader = std::find(nodes.begin(), nodes.end(), node) - nodes.begin() == rank;
      if (node_count > 1 && is_leader) {
        options.wire = join_node_wire({.node = node, .nodes = node_count, .run = "test/1", .rendezvous = table});
      }
      loop.form(join_shared_group(options));
    });
  }
  std::vector<SegmentReply> run(const SegmentRequest& request) {
    return each([&](int rank) { return at(rank).run(request); });
  }
  RankLoop& at(int rank) { return *loops[static_cast<size_t>(rank)]; }
  std::string bytes(int rank = 0) { return to_bytes(at(rank).state()); }

  std::string operator_name;
  Config config;
  std::vector<std::unique_ptr<RankLoop>> loops;
};

}  // namespace volador::train
