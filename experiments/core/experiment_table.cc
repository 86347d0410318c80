#include "experiments/core/experiment_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "runtime/number_key.h"
#include "runtime/quantities.h"

namespace volador::experiments {
namespace {

constexpr size_t kCheckpointStartMin = 4;

template <class Row>
bool parse_row(std::string_view value, Row& row) {
  return row.ParseFromArray(value.data(), static_cast<int>(value.size()));
}

}  // namespace

ExperimentCore::Impl::Impl(const ExperimentLimits& limits, Random& random_in, ConfigFile defaults_in)
    : context{.limits = limits, .actions = {}}, random(random_in), defaults(std::move(defaults_in)) {}

// ---- journal ----

bool ExperimentCore::Impl::load(std::string_view table, std::string_view key, std::string_view value) {
  if (table == kExperimentsTable) {
    protocol::ExperimentDefinition row;
    if (!parse_row(value, row) || row.id() <= 0 || !run_state_from(row.info().state())) return false;
    const int64_t id = row.id();
    loaded[id].definition = std::move(row);
    return true;
  }
  if (table == kSearchesTable) {
    protocol::SearchRecord row;
    if (key.size() != kNumberKeyBytes || !parse_row(value, row)) return false;
    loaded[key_number(key)].search = std::move(row);
    return true;
  }
  if (table == kSearchStepsTable) {
    protocol::SearchStep row;
    if (key.size() != 2 * kNumberKeyBytes || !parse_row(value, row)) return false;
    loaded[key_number(key)].steps[key_number(key.substr(kNumberKeyBytes))] = std::move(row);
    return true;
  }
  if (table == kTrialsTable) {
    protocol::TrialRecord row;
    if (!parse_row(value, row) || row.info().id() <= 0 || row.state() < 0 ||
        row.state() > static_cast<int32_t>(RunState::kError))
      return false;
    const int64_t experiment = row.info().experiment(), trial = row.info().id();
    loaded[experiment].trials[trial] = std::move(row);
    return true;
  }
  if (table == kTrialProgramsTable) {
    protocol::KatibTrialProgram row;
    if (!parse_row(value, row) || row.trial() <= 0) return false;
    const int64_t experiment = row.experiment(), trial = row.trial();
    loaded[experiment].programs[trial] = std::move(row);
    return true;
  }
  if (table == kCheckpointsTable) {
    protocol::CheckpointRecord row;
    if (!parse_row(value, row) || row.info().id().empty()) return false;
    const int64_t experiment = row.info().experiment();
    loaded[experiment].checkpoints.push_back(std::move(row));
    return true;
  }
  if (table != kExperimentsHeadTable || key != "last") return false;
  long long experiment = 0, trial = 0;
  if (std::sscanf(std::string(value).c_str(), "%lld %lld", &experiment, &trial) != 2) return false;
  context.last_experiment = std::max<int64_t>(context.last_experiment, experiment);
  context.last_trial = std::max<int64_t>(context.last_trial, trial);
  return true;
}

void ExperimentCore::Impl::start(int64_t now_ms) {
  for (auto& [id, rows] : loaded) {
    context.last_experiment = std::max(context.last_experiment, id);
    if (rows.definition) experiments[id] = std::make_unique<RunningExperiment>(context, std::move(rows));
  }
  loaded.clear();
  for (auto& [id, experiment] : experiments) experiment->resume(now_ms);
}

ExperimentActions ExperimentCore::Impl::take() {
  for (const int64_t id : std::exchange(context.touched, {})) {
    const auto found = experiments.find(id);
    if (found == experiments.end()) continue;
    found->second->flush();
    if (found->second->is_deleted()) experiments.erase(found);
  }
  const auto once = [](auto& list) {
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
  };
  once(context.actions.trials);
  once(context.actions.experiments);
  once(context.actions.garbage);
  return std::exchange(context.actions, {});
}

void ExperimentCore::Impl::check_invariants() const {
  for (const auto& [id, experiment] : experiments) {
    VOLADOR_CHECK(id == experiment->id() && id <= context.last_experiment, std::to_string(id));
    experiment->check_invariants();
  }
  for (const auto& [trial, experiment] : context.experiment_of)
    VOLADOR_CHECK(experiments.contains(experiment) && trial <= context.last_trial, std::to_string(trial));
}

// ---- look-up and access ----

Result<RunningExperiment*> ExperimentCore::Impl::experiment(int64_t id) const {
  const auto found = experiments.find(id);
  if (found != experiments.end() && !found->second->is_deleted()) return found->second.get();
  return make_error(ErrorCode::kNotFound,
                    fmt::format("there is no experiment {}; `volador experiment list` shows the experiments", id));
}

Result<RunningExperiment*> ExperimentCore::Impl::experiment_of_trial(int64_t trial) const {
  const auto found = context.experiment_of.find(trial);
  if (found != context.experiment_of.end()) return experiment(found->second);
  return make_error(ErrorCode::kNotFound,
                    fmt::format("there is no trial {}; `volador experiment describe ID` shows the trials of an "
                                "experiment",
                                trial));
}

Result<std::pair<RunningExperiment*, std::string>> ExperimentCore::Impl::experiment_of_checkpoint(
    const std::string& checkpoint) const {
  const auto& all = context.checkpoint_of;
  auto found = all.find(checkpoint);
  if (found == all.end() && checkpoint.size() >= kCheckpointStartMin) {
    found = all.lower_bound(checkpoint);
    if (found != all.end() && !found->first.starts_with(checkpoint)) found = all.end();
    if (found != all.end() && std::next(found) != all.end() && std::next(found)->first.starts_with(checkpoint))
      return make_error(ErrorCode::kNotFound,
                        fmt::format("\"{}\" begins the ids of several checkpoints, such as {} and {}; give more of it",
                                    checkpoint, found->first, std::next(found)->first));
  }
  if (found == all.end())
    return make_error(ErrorCode::kNotFound,
                      fmt::format("there is no checkpoint \"{}\"; give its id, or at least {} characters of its start",
                                  checkpoint, kCheckpointStartMin));
  auto owner = experiment(found->second);
  if (!owner) return make_error(owner.error());
  return std::pair(*owner, found->first);
}

Result<void> ExperimentCore::Impl::check_owner(const RunningExperiment& experiment, const ExperimentRequester& by,
                                               std::string_view what) const {
  const v1::ExperimentInfo& shown = experiment.definition().info();
  return check_owner_of(what, fmt::format("experiment {}", experiment.id()),
                        {.token_id = shown.owner(), .user = shown.user()}, by);
}

Result<void> ExperimentCore::Impl::check_process(const RunningExperiment& experiment,
                                                 const ExperimentRequester& by) const {
  const protocol::ExperimentDefinition& definition = experiment.definition();
  if (!by.token_id.empty() && (by.token_id == definition.token_id() || by.token_id == definition.garbage_token_id()))
    return {};
  return check_owner(experiment, by, "report for a trial");
}

Result<RunningExperiment*> ExperimentCore::Impl::process(int64_t trial, int64_t run,
                                                         const ExperimentRequester& by) const {
  auto found = experiment_of_trial(trial);
  if (!found) return found;
  VOLADOR_TRY(check_process(**found, by));
  VOLADOR_TRY((*found)->check_run(trial, run));
  return found;
}

void ExperimentCore::Impl::with_trial(int64_t trial, const std::function<void(RunningExperiment&)>& call) {
  if (const auto found = experiment_of_trial(trial)) call(**found);
}

size_t ExperimentCore::Impl::open() const {
  return static_cast<size_t>(
      std::ranges::count_if(experiments, [](const auto& one) { return !one.second->is_over(); }));
}

}  // namespace volador::experiments
