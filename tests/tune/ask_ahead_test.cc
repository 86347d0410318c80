#include "tune/searchers/ask_ahead.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tune/searchers/gp_searcher.h"

namespace volador::tune {
namespace {

// Repeats until there is a suggestion.
Suggestion ask(Searcher& searcher, int64_t index) {
  while (true) {
    auto suggestion = searcher.suggest(index).value();
    if (suggestion.kind != Suggestion::Kind::kWait) return suggestion;
    std::this_thread::yield();
  }
}

// Records its events, and suggests when the test allows it.
class Slow final : public Searcher {
 public:
  explicit Slow(std::shared_future<void> gate) : gate_(std::move(gate)) {}
  Result<Suggestion> suggest(int64_t index) override {
    gate_.wait();
    told_ += "s" + std::to_string(index);
    return Suggestion{Suggestion::Kind::kConfig, {{"told", told_}}};
  }
  void on_start(int64_t index, const Config& config) override {
    told_ += "b" + std::to_string(index) + config.text("x");
  }
  void on_result(const Observation& observation) override { told_ += "r" + std::to_string(observation.index); }
  void on_complete(int64_t index, const std::optional<Observation>& last) override {
    told_ += (last && last->value ? "c" : "f") + std::to_string(index);
  }
  std::optional<int64_t> total() const override { return 5; }
  bool learns() const override { return true; }
  bool needs_metric() const override { return true; }
  std::string describe() const override { return "slow"; }
  std::string snapshot() const override { return told_; }
  Result<void> restore(std::string_view snapshot) override {
    told_ = snapshot;
    return {};
  }

 private:
  const std::shared_future<void> gate_;
  std::string told_;
};

TEST(AskAhead, AnswersWaitUntilTheSuggestionIsThereAndTellsAfterwards) {
  std::promise<void> gate;
  const auto searcher = ask_ahead(std::make_unique<Slow>(gate.get_future().share()));
  EXPECT_EQ(searcher->total(), 5);
  EXPECT_EQ(searcher->describe(), "slow");
  searcher->on_result({0, 1, 0.5});
  EXPECT_EQ(searcher->suggest(1).value().kind, Suggestion::Kind::kWait);
  searcher->on_start(7, {{"x", "y"}});
  searcher->on_result({2, 1, 0.5});
  searcher->on_complete(2, Observation{2, 1, 0.5});
  searcher->on_complete(3, std::nullopt);
  EXPECT_EQ(searcher->suggest(1).value().kind, Suggestion::Kind::kWait);
  gate.set_value();
  EXPECT_EQ(ask(*searcher, 1).config.text("told"), "r0s1");
  EXPECT_EQ(ask(*searcher, 2).config.text("told"), "r0s1b7yr2c2f3s2");
}

TEST(AskAhead, ASnapshotTakenMeanwhileHasTheStateBeforeAndTheEventsSince) {
  std::promise<void> gate;
  const auto open = [] {
    std::promise<void> now;
    now.set_value();
    return now.get_future().share();
  };
  const auto searcher = ask_ahead(std::make_unique<Slow>(gate.get_future().share()));
  searcher->on_result({0, 1, 0.5});
  EXPECT_EQ(searcher->suggest(1).value().kind, Suggestion::Kind::kWait);
  searcher->on_complete(0, Observation{0, 2, std::nullopt});
  searcher->on_start(4, {{"x", "z"}});
  const std::string state = searcher->snapshot();
  const auto copy = ask_ahead(std::make_unique<Slow>(open()));
  ASSERT_TRUE(copy->restore(state).has_value());
  EXPECT_EQ(ask(*copy, 1).config.text("told"), "r0f0b4zs1");
  gate.set_value();
}

TEST(AskAhead, WaitsForItsThreadWhenItIsDestroyed) {
  std::promise<void> gate;
  auto searcher = ask_ahead(std::make_unique<Slow>(gate.get_future().share()));
  EXPECT_EQ(searcher->suggest(0).value().kind, Suggestion::Kind::kWait);
  gate.set_value();
  searcher.reset();
}

TEST(AskAhead, SuggestsWhatTheSearcherSuggestsWhereNothingHappensMeanwhile) {
  const SearchContext context = {
      .space = {{"x", uniform(0, 1)}, {"y", uniform(0, 1)}}, .metric = "m", .num_samples = 20, .seed = 3};
  SearchContext ahead_context = context;
  ahead_context.ahead = true;
  const auto plain = gp()(context).value();
  const auto ahead = gp()(ahead_context).value();
  for (int64_t i = 0; i < 20; ++i) {
    const Config config = plain->suggest(i).value().config;
    EXPECT_EQ(ask(*ahead, i).config, config);
    for (Searcher* searcher : {plain.get(), ahead.get()})
      searcher->on_complete(i, Observation{i, 1, config.real("x") - config.real("y")});
  }
  EXPECT_EQ(ask(*ahead, 20).kind, Suggestion::Kind::kExhausted);
}

}  // namespace
}  // namespace volador::tune
