#include "tune/searchers/warm_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>

#include "runtime/quantities.h"
#include "tune/results/experiment_resume.h"
#include "tune/results/saved_run.h"
#include "tune/space/search_dimensions.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;

// Whether a searcher of this space could have proposed the configuration.
class Fit {
 public:
  explicit Fit(const Space& space) {
    const int64_t grid = space.grid_size().value_or(1);
    for (int64_t point = 0; point < grid && point < kGridMax; ++point) dimensions_.emplace_back(space, point);
  }
  bool operator()(const Config& config) const {
    for (const SearchDimensions& one : dimensions_) {
      if (one.point_of(config)) return true;
    }
    return false;
  }

 private:
  static constexpr int64_t kGridMax = 1'000;  // No searcher that learns accepts more.
  std::deque<SearchDimensions> dimensions_;
};

std::optional<Observation> last_of(const Trial& trial, const WarmStartOptions& options) {
  if (trial.status == TrialStatus::kFailed || trial.step_max == 0) return std::nullopt;
  const auto value = [&trial](const std::string& name) {
    return trial.last_result.get(name).value_or(std::numeric_limits<double>::quiet_NaN());
  };
  Observation last{trial.index, trial.step_max, trial.last_result.get(options.metric)};
  for (const Objective& objective : options.goals.objectives) last.objectives.push_back(value(objective.metric));
  for (const std::string& constraint : options.goals.constraints) last.constraints.push_back(value(constraint));
  return last;
}

// Describes what is missing if the run is not the intended one.
Result<void> check_run(const fs::path& path, const SavedRun& run, const WarmStartOptions& options, size_t fitting) {
  const std::vector<Trial>& trials = run.analysis.trials();
  std::string reported;
  bool has_metric = false;
  for (const Trial& trial : trials) {
    has_metric = has_metric || trial.metrics.contains(options.metric);
    if (!reported.empty()) continue;
    for (const auto& [name, summary] : trial.metrics) reported += (reported.empty() ? "" : ", ") + name;
  }
  if (!has_metric) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("warm_start: {} never reported \"{}\"; its trials report: {}", path.string(),
                                  options.metric, reported.empty() ? "nothing" : reported));
  }
  if (fitting > 0) return {};
  const auto journal = read_journal(path);
  const std::string differs =
      journal ? difference_text(journal->header.space, space_text(options.space)) : std::string();
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("warm_start: none of the {} configurations of {} is one of this space{}; leave that run out",
                  trials.size(), path.string(), differs.empty() ? "" : ": it was " + differs));
}

}  // namespace

Result<void> Searcher::learn(const std::vector<EarlierTrial>&) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("warm_start: {} learns nothing from results, those of earlier runs either: leave "
                                "warm_start out, or take a searcher that learns, as "
                                "tune::tpe()",
                                describe()));
}

Result<WarmStart> read_earlier_runs(const WarmStartOptions& options) {
  const Fit fits(options.space);
  WarmStart out;
  for (const fs::path& path : options.runs) {
    const auto run = load_run(path);
    if (!run) return make_error(run.error().code, "warm_start: " + run.error().message);
    std::map<TrialId, std::vector<std::pair<int64_t, double>>> curves;
    try {
      if (options.with_curves) {
        for (const Analysis::Row& row : run->analysis.results()) {
          const auto value = row.result.get(options.metric);
          if (value)
            curves[row.trial].emplace_back(static_cast<int64_t>(row.result.get("training_iteration").value_or(0)),
                                           *value);
        }
      }
    } catch (const Exception& exception) {
      return make_error(exception.error().code, "warm_start: " + exception.error().message);
    }
    size_t taken = 0, outside = 0, unfinished = 0;
    for (const Trial& trial : run->analysis.trials()) {
      const bool counts = has_ended(trial.status) && trial.status != TrialStatus::kInterrupted &&
                          trial.status != TrialStatus::kUnstarted;
      if (!counts) {
        ++unfinished;
      } else if (!fits(trial.config)) {
        ++outside;
      } else {
        out.trials.push_back({trial.config, std::move(curves[trial.id]), last_of(trial, options)});
        ++taken;
      }
    }
    VOLADOR_TRY(check_run(path, *run, options, taken));
    std::string text = fmt::format("warm start: {} of {}", counted(taken, "trial"), path.string());
    if (outside > 0)
      text += fmt::format("; {} left out", counted(outside, "is no configuration of this space and was",
                                                   "are no configurations of this space and were"));
    if (unfinished > 0)
      text += fmt::format("; {} left out", counted(unfinished, "had not ended and was", "had not ended and were"));
    out.notices.push_back(std::move(text));
  }
  return out;
}

JournalEarlierTrial journal_record_of(const EarlierTrial& trial) {
  JournalEarlierTrial record{.config = trial.config};
  for (const auto& [step, value] : trial.curve) {
    record.steps.push_back(step);
    record.values.push_back(value);
  }
  if (!trial.last) return record;
  record.last_step = trial.last->step;
  if (trial.last->value) record.last_value.push_back(*trial.last->value);
  record.objectives = trial.last->objectives;
  record.constraints = trial.last->constraints;
  return record;
}

std::vector<EarlierTrial> earlier_trials_of(const std::vector<JournalRecord>& records) {
  std::vector<EarlierTrial> trials;
  for (const JournalRecord& any : records) {
    const auto* record = std::get_if<JournalEarlierTrial>(&any);
    if (record == nullptr) continue;
    EarlierTrial trial{record->config};
    for (size_t i = 0; i < std::min(record->steps.size(), record->values.size()); ++i)
      trial.curve.emplace_back(record->steps[i], record->values[i]);
    if (record->last_step > 0) {
      trial.last = Observation{0, record->last_step, std::nullopt, record->objectives, record->constraints};
      if (!record->last_value.empty()) trial.last->value = record->last_value.front();
    }
    trials.push_back(std::move(trial));
  }
  return trials;
}

}  // namespace volador::tune
