#include "tune/study/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/quantities.h"
#include "tune/refusal.h"
#include "tune/searchers/tpe_searcher.h"
#include "tune/snapshot.h"

namespace volador::tune {
namespace {}  // namespace

Study::Study(StudyOptions options) : mode_(options.mode) {
  if (options.constraints < 0)
    throw_refusal(fmt::format("study.constraints: expected at least 0, got {}", options.constraints));
  for (size_t i = 0; i < options.modes.size(); ++i)
    goals_.objectives.push_back({fmt::format("value_{}", i), options.modes[i]});
  if (options.constraints > 0 && options.modes.empty()) goals_.objectives = {{"value", options.mode}};
  for (int64_t i = 0; i < options.constraints; ++i) goals_.constraints.push_back(fmt::format("constraint_{}", i));
  const SearchContext context{.space = std::move(options.space),
                              .metric = "value",
                              .mode = options.mode,
                              .num_samples = -1,
                              .seed = options.seed.value_or(0),
                              .goals = goals_};
  auto made = options.searcher ? options.searcher(context) : tpe()(context);
  if (!made) throw Exception(made.error());
  searcher_ = std::move(*made);
  if (!goals_.empty() && !searcher_->takes_goals())
    throw_refusal(
        fmt::format("study: {} learns from one value: take tune::tpe(), tune::gp() or tune::nsga2() for several "
                    "objectives and constraints",
                    searcher_->describe()));
}
Study::~Study() = default;
Study::Study(Study&&) noexcept = default;
Study& Study::operator=(Study&&) noexcept = default;

Study::Trial Study::ask() {
  auto suggestion = searcher_->suggest(next_);
  if (!suggestion) throw Exception(suggestion.error());
  if (suggestion->kind == Suggestion::Kind::kWait) {
    throw_refusal(fmt::format("study.ask: {} waits for results of {}: tell one of them first", searcher_->describe(),
                              counted(open_.size(), "open trial")));
  }
  if (suggestion->kind == Suggestion::Kind::kExhausted)
    throw_refusal(fmt::format("study.ask: {} has no further configuration: stop asking", searcher_->describe()));
  open_.emplace(next_, suggestion->config);
  return {next_++, std::move(suggestion->config)};
}

Study::Trial Study::enqueue(const Config& config) {
  if (searcher_->skip(next_, config)) {
    open_.emplace(next_, config);
    return {next_++, config};
  }
  Trial trial = ask();
  searcher_->on_start(trial.index, config);
  open_[trial.index] = config;
  trial.config = config;
  return trial;
}

Config Study::found(const Trial& trial) {
  const auto found = open_.find(trial.index);
  if (found == open_.end()) {
    throw_refusal(fmt::format("study.tell: trial {} is not open: tell each trial that ask() gave once", trial.index));
  }
  Config config = std::move(found->second);
  open_.erase(found);
  return config;
}

void Study::tell(const Trial& trial, std::optional<double> value) {
  if (value && !goals_.empty()) return tell(trial, std::vector<double>{*value});
  const Config config = found(trial);
  std::optional<Observation> last;
  if (value) last = Observation{trial.index, 1, value};
  searcher_->on_complete(trial.index, last);
  const bool better =
      value && is_result(*value) && (!best_ || (mode_ == Mode::kMin ? *value < best_->value : *value > best_->value));
  if (better) best_ = Best{{trial.index, config}, *value};
}

void Study::tell(const Trial& trial, const std::vector<double>& values, const std::vector<double>& constraints) {
  const size_t wanted = std::max<size_t>(goals_.objectives.size(), 1);
  if (values.size() == 1 && goals_.empty() && constraints.empty()) return tell(trial, std::optional(values[0]));
  if (values.size() != wanted || constraints.size() != goals_.constraints.size()) {
    throw_refusal(fmt::format("study.tell: trial {} has {} values and {} constraints; the study has {} and {}",
                              trial.index, values.size(), constraints.size(), wanted, goals_.constraints.size()));
  }
  const Config config = found(trial);
  searcher_->on_complete(trial.index, Observation{trial.index, 1, values[0], values, constraints});
  judge({{trial.index, config}, values}, outcome_of(values, constraints, goals_.objectives).violation);
}

void Study::judge(Judged judged, double violation) {
  if (violation > 0 ||
      std::any_of(judged.values.begin(), judged.values.end(), [](double value) { return !is_result(value); }))
    return;
  const Outcome outcome = outcome_of(judged.values, {}, goals_.objectives);
  const auto of = [this](const Judged& one) { return outcome_of(one.values, {}, goals_.objectives); };
  if (std::any_of(front_.begin(), front_.end(), [&](const Judged& one) { return dominates(of(one), outcome); })) return;
  std::erase_if(front_, [&](const Judged& one) { return dominates(outcome, of(one)); });
  front_.push_back(std::move(judged));
}

std::string Study::snapshot() const {
  Config open = Config::list({});
  for (const auto& [index, config] : open_) open.push_back({{"index", index}, {"config", config}});
  Config state = {{"version", 1}, {"next", next_}, {"open", std::move(open)}, {"searcher", searcher_->snapshot()}};
  if (best_) {
    state.set("best", {{"index", best_->trial.index}, {"config", best_->trial.config}, {"value", best_->value}});
  }
  Config front = Config::list({});
  for (const Judged& one : front_)
    front.push_back({{"index", one.trial.index}, {"config", one.trial.config}, {"values", one.values}});
  if (!front_.empty()) state.set("front", std::move(front));
  return state.to_json();
}

void Study::restore(std::string_view snapshot) {
  const auto restored = read_snapshot("study", snapshot, [this](const Config& state) -> Result<void> {
    std::map<int64_t, Config> open;
    const Config all = state["open"];
    for (const Config& entry : all.items()) open.emplace(entry.integer("index"), entry["config"]);
    std::optional<Best> best;
    if (state.contains("best"))
      best = Best{{state.integer("best.index"), state["best.config"]}, state.real("best.value")};
    std::vector<Judged> front;
    const Config judged = state.contains("front") ? state["front"] : Config::list({});
    for (const Config& entry : judged.items()) {
      Judged& one = front.emplace_back(Judged{{entry.integer("index"), entry["config"]}, {}});
      const Config values = entry["values"];
      for (const Config& value : values.items()) one.values.push_back(value.real());
      if (one.values.size() != goals_.objectives.size())
        return snapshot_does_not_fit("study", "another number of objectives");
    }
    const int64_t next = state.integer("next");
    if (next < 0) return snapshot_does_not_fit("study", "a negative number of trials");
    VOLADOR_TRY(searcher_->restore(state.text("searcher")));
    open_ = std::move(open);
    best_ = std::move(best);
    front_ = std::move(front);
    next_ = next;
    return {};
  });
  if (!restored) throw Exception(restored.error());
}

}  // namespace volador::tune
