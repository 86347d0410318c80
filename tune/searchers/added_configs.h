// Wraps a searcher so that configurations can be added during the run. Each takes the next index; the wrapped searcher
// numbers its own trials without them, so that its proposals are not affected.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tune/searchers/searcher.h"

namespace volador::tune {

class AddedConfigs final : public Searcher {
 public:
  static constexpr size_t kWaitingMax = 10'000;  // Added configurations that were not suggested yet.

  explicit AddedConfigs(std::unique_ptr<Searcher> inner) : inner_(std::move(inner)) {}

  // Returns false, without effect, if kWaitingMax configurations are waiting.
  bool add(const Config& config) override;

  Result<Suggestion> suggest(int64_t index) override;
  Result<void> learn(const std::vector<EarlierTrial>& trials) override { return inner_->learn(trials); }
  // The wrapped searcher, if it learns, also learns from added configurations, as trials with indices far beyond its
  // own.
  void on_start(int64_t index, const Config& config) override;
  void on_result(const Observation& observation) override;
  void on_complete(int64_t index, const std::optional<Observation>& last) override;

  std::optional<int64_t> total() const override;  // Includes the added configurations.
  bool learns() const override { return inner_->learns(); }
  bool needs_metric() const override { return inner_->needs_metric(); }
  bool takes_goals() const override { return inner_->takes_goals(); }
  std::string describe() const override { return inner_->describe(); }
  std::string snapshot() const override;
  Result<void> restore(std::string_view snapshot) override;

 private:
  // Index in the wrapped searcher.
  int64_t inner_index(int64_t index) const;

  const std::unique_ptr<Searcher> inner_;
  std::deque<Config> waiting_;
  std::vector<int64_t> added_;  // Indices of the added configurations that were suggested, ascending.
};

}  // namespace volador::tune
