#include "tune/study.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "tune/snapshot.h"
#include "tune/tpe_searcher.h"

namespace volador::tune {
namespace {

[[noreturn]] void refuse(std::string message) {
  throw Exception(Error{ErrorCode::kInvalidArgument, std::move(message)});
}

}  // namespace

Study::Study(StudyOptions options) : mode_(options.mode) {
  const SearchContext context{.space = std::move(options.space),
                              .metric = "value",
                              .mode = options.mode,
                              .num_samples = -1,
                              .seed = options.seed.value_or(0)};
  auto made = options.searcher ? options.searcher(context) : tpe()(context);
  if (!made) throw Exception(made.error());
  searcher_ = std::move(*made);
}
Study::~Study() = default;
Study::Study(Study&&) noexcept = default;
Study& Study::operator=(Study&&) noexcept = default;

Study::Trial Study::ask() {
  auto suggestion = searcher_->suggest(next_);
  if (!suggestion) throw Exception(suggestion.error());
  if (suggestion->kind == Suggestion::Kind::kWait) {
    refuse(fmt::format("study.ask: {} waits for results of the {} open trials: tell one of them first",
                       searcher_->describe(), open_.size()));
  }
  if (suggestion->kind == Suggestion::Kind::kExhausted)
    refuse(fmt::format("study.ask: {} has no further configuration: stop asking", searcher_->describe()));
  open_.emplace(next_, suggestion->config);
  return {next_++, std::move(suggestion->config)};
}

Study::Trial Study::enqueue(const Config& config) {
  Trial trial = ask();
  searcher_->on_start(trial.index, config);
  open_[trial.index] = config;
  trial.config = config;
  return trial;
}

void Study::tell(const Trial& trial, std::optional<double> value) {
  const auto found = open_.find(trial.index);
  if (found == open_.end()) {
    refuse(fmt::format("study.tell: trial {} is not open: tell each trial that ask() gave once", trial.index));
  }
  std::optional<Observation> last;
  if (value) last = Observation{trial.index, 1, value};
  searcher_->on_complete(trial.index, last);
  const bool better =
      value && !std::isnan(*value) && (!best_ || (mode_ == Mode::kMin ? *value < best_->value : *value > best_->value));
  if (better) best_ = Best{{trial.index, found->second}, *value};
  open_.erase(found);
}

std::string Study::snapshot() const {
  Config open = Config::list({});
  for (const auto& [index, config] : open_) open.push_back({{"index", index}, {"config", config}});
  Config state = {{"version", 1}, {"next", next_}, {"open", std::move(open)}, {"searcher", searcher_->snapshot()}};
  if (best_) {
    state.set("best", {{"index", best_->trial.index}, {"config", best_->trial.config}, {"value", best_->value}});
  }
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
    const int64_t next = state.integer("next");
    if (next < 0) return snapshot_does_not_fit("study", "a negative number of trials");
    VOLADOR_TRY(searcher_->restore(state.text("searcher")));
    open_ = std::move(open);
    best_ = std::move(best);
    next_ = next;
    return {};
  });
  if (!restored) throw Exception(restored.error());
}

}  // namespace volador::tune
