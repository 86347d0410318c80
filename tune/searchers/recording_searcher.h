// Wraps a searcher to record its suggestions and, in a replay, to return the recorded ones.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tune/searchers/searcher.h"

namespace volador::tune {

struct RecordedSuggestion {
  Config config;
  int64_t event = -1;  // The event after which it was suggested; -1: before the first, or unknown.
};

class RecordingSearcher final : public Searcher {
 public:
  // `recorded`: by index. `total`: that of the replayed run; see Searcher::total().
  RecordingSearcher(std::unique_ptr<Searcher> searcher, std::vector<RecordedSuggestion> recorded,
                    std::optional<int64_t> total)
      : searcher_(std::move(searcher)), recorded_(std::move(recorded)), total_(total) {}

  // Called in a replay before each event: a suggestion waits for its own event, as it did in the run.
  void at(int64_t event) { event_ = event; }
  // Called for each suggestion that is not in the record.
  std::function<void(int64_t index, const Config&)> on_suggestion;
  // Called for each suggestion that differs from the record, before the searcher is informed of the recorded one.
  std::function<void(int64_t index, const Config& recorded, const Result<Suggestion>& now)> on_difference;
  // Number of suggestions that differed from the record so far.
  int64_t differences() const { return differences_; }

  Result<Suggestion> suggest(int64_t index) override {
    if (static_cast<size_t>(index) < recorded_.size()) {
      const auto& [config, event] = recorded_[static_cast<size_t>(index)];
      if (!early_ || (*early_ && (*early_)->kind == Suggestion::Kind::kWait)) early_ = searcher_->suggest(index);
      if (event_ < event) return Suggestion{Suggestion::Kind::kWait, {}};
      auto suggestion = *std::exchange(early_, std::nullopt);
      if (suggestion && suggestion->kind == Suggestion::Kind::kKnown)
        return Suggestion{Suggestion::Kind::kConfig, config};
      // Waits for a searcher that computes on its own thread, because its suggestion is compared.
      for (int tries = 0; tries < kTriesMax && suggestion && suggestion->kind == Suggestion::Kind::kWait; ++tries)
        suggestion = searcher_->suggest(index);
      if (!suggestion || suggestion->kind != Suggestion::Kind::kConfig || !(suggestion->config == config)) {
        ++differences_;
        if (on_difference) on_difference(index, config, suggestion);
        searcher_->on_start(index, config);  // It learns from the configuration that ran.
      }
      return Suggestion{Suggestion::Kind::kConfig, config};
    }
    auto suggestion = searcher_->suggest(index);
    if (suggestion && suggestion->kind == Suggestion::Kind::kConfig && on_suggestion)
      on_suggestion(index, suggestion->config);
    return suggestion;
  }
  Result<void> learn(const std::vector<EarlierTrial>& trials) override { return searcher_->learn(trials); }
  bool add(const Config& config) override { return searcher_->add(config); }
  void on_start(int64_t index, const Config& config) override { searcher_->on_start(index, config); }
  void on_result(const Observation& observation) override { searcher_->on_result(observation); }
  void on_complete(int64_t index, const std::optional<Observation>& last) override {
    searcher_->on_complete(index, last);
  }
  std::optional<int64_t> total() const override { return total_; }
  bool learns() const override { return searcher_->learns(); }
  bool needs_metric() const override { return searcher_->needs_metric(); }
  bool takes_goals() const override { return searcher_->takes_goals(); }
  std::string describe() const override { return searcher_->describe(); }
  std::string snapshot() const override { return searcher_->snapshot(); }
  Result<void> restore(std::string_view snapshot) override { return searcher_->restore(snapshot); }

 private:
  std::unique_ptr<Searcher> searcher_;
  std::vector<RecordedSuggestion> recorded_;
  int64_t event_ = -1;
  std::optional<Result<Suggestion>> early_;  // Answer for the next recorded trial, before its event.
  std::optional<int64_t> total_;
  int64_t differences_ = 0;

  static constexpr int kTriesMax = 30'000;  // One minute at 2 ms per attempt.
};

}  // namespace volador::tune
