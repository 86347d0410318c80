// A searcher to which configurations can be added while it is asked. Each takes the next index; those of the searcher
// within count on without it, so that nothing of what it proposes is displaced.
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
  static constexpr size_t kWaitingMax = 10'000;  // Added and not asked for yet.

  explicit AddedConfigs(std::unique_ptr<Searcher> inner) : inner_(std::move(inner)) {}

  // False: kWaitingMax wait already; nothing changed.
  bool add(const Config& config) override;

  Result<Suggestion> suggest(int64_t index) override;
  Result<void> learn(const std::vector<EarlierTrial>& trials) override { return inner_->learn(trials); }
  // The one within learns from added ones too, where it learns: as from trials far behind its own.
  void on_start(int64_t index, const Config& config) override;
  void on_result(const Observation& observation) override;
  void on_complete(int64_t index, const std::optional<Observation>& last) override;

  std::optional<int64_t> total() const override;  // With what was added.
  bool learns() const override { return inner_->learns(); }
  bool needs_metric() const override { return inner_->needs_metric(); }
  bool takes_goals() const override { return inner_->takes_goals(); }
  std::string describe() const override { return inner_->describe(); }
  std::string snapshot() const override;
  Result<void> restore(std::string_view snapshot) override;

 private:
  // Of the one within.
  int64_t inner_index(int64_t index) const;

  const std::unique_ptr<Searcher> inner_;
  std::deque<Config> waiting_;
  std::vector<int64_t> added_;  // Indices of those that were asked for, ascending.
};

}  // namespace volador::tune
