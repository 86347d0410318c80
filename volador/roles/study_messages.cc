#include "volador/roles/study_messages.h"

#include <fmt/format.h>

namespace volador {
namespace {

constexpr size_t kBestShown = 100;

}  // namespace

Result<tune::StudyDefinition> definition_of(const v1::CreateStudyRequest& request) {
  // Normalized by parsing, so that equal spaces compare equal in any notation.
  tune::StudyDefinition out{.name = request.name(),
                            .space = request.space_json(),
                            .scheduler = request.scheduler(),
                            .seed = request.seed(),
                            .max_trials = request.max_trials()};
  if (out.space.size() <= tune::StudyLimits::kSpaceBytes) {
    const auto json = tune::Config::from_json(out.space.empty() ? "{}" : out.space);
    if (!json) return make_error(ErrorCode::kInvalidArgument, "study.space: " + json.error().message);
    out.space = json->to_json();
  }
  if (!request.searcher().empty()) out.searcher = request.searcher();
  if (request.has_lease_s()) out.lease_s = request.lease_s();
  if (request.has_max_retries()) out.max_retries = request.max_retries();
  for (const v1::StudyObjective& one : request.objectives()) {
    out.metrics.push_back(one.metric());
    out.modes.push_back(one.mode());
  }
  return out;
}

Result<tune::SharedStudy::TellRequest> told_of(const v1::TellRequest& request) {
  const auto state = tune::study_trial_state_of(request.state().empty() ? "complete" : request.state());
  if (!state || *state < tune::StudyTrialState::kComplete)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tell.state: expected complete, pruned or fail, got \"{}\"", request.state()));
  return tune::SharedStudy::TellRequest{.request = request.request_id(),
                                        .number = request.number(),
                                        .state = *state,
                                        .values = {request.values().begin(), request.values().end()},
                                        .reason = request.reason()};
}

v1::StudyTrial to_api(const tune::StudyTrial& trial) {
  v1::StudyTrial out;
  out.set_number(trial.number);
  out.set_state(std::string(to_string(trial.state)));
  out.set_config_json(trial.config.to_json());
  for (const double value : trial.values) out.add_values(value);
  out.set_step(trial.step);
  out.set_reported(trial.reported);
  out.set_attempt(trial.attempt);
  out.set_worker(trial.worker);
  out.set_reason(trial.reason);
  out.set_why(trial.why);
  out.set_started_ms(trial.started_ms);
  out.set_ended_ms(trial.ended_ms);
  out.set_lease_ends_ms(trial.lease_ends_ms);
  return out;
}

v1::Study to_api(const tune::SharedStudy& study) {
  const tune::StudyDefinition& definition = study.definition();
  v1::Study out;
  out.set_name(definition.name);
  out.set_space_json(definition.space);
  out.set_searcher(definition.searcher);
  out.set_scheduler(definition.scheduler);
  out.set_about(study.searcher_text() + (definition.scheduler.empty() ? "" : ", " + study.scheduler_text()));
  for (size_t at = 0; at < definition.metrics.size(); ++at) {
    v1::StudyObjective& one = *out.add_objectives();
    one.set_metric(definition.metrics[at]);
    one.set_mode(definition.modes[at]);
  }
  out.set_seed(definition.seed);
  out.set_max_trials(definition.max_trials);
  out.set_lease_s(definition.lease_s);
  out.set_max_retries(definition.max_retries);
  out.set_created_ms(study.created_ms());
  out.set_trials_total(static_cast<int64_t>(study.trials().size()));
  for (size_t state = 0; state < study.counts().size(); ++state)
    (*out.mutable_trials_by_state())[std::string(to_string(static_cast<tune::StudyTrialState>(state)))] =
        study.counts()[state];
  for (const int64_t number : study.best()) {
    if (static_cast<size_t>(out.best_size()) == kBestShown) break;
    *out.add_best() = to_api(study.trials()[static_cast<size_t>(number)]);
  }
  return out;
}

std::string differences(const tune::StudyDefinition& a, const tune::StudyDefinition& b) {
  std::vector<std::string> out;
  const auto compare = [&out](const char* what, const auto& one, const auto& other) {
    if (!(one == other)) out.emplace_back(what);
  };
  compare("space", a.space, b.space);
  compare("searcher", a.searcher, b.searcher);
  compare("scheduler", a.scheduler, b.scheduler);
  compare("objectives", std::pair(a.metrics, a.modes), std::pair(b.metrics, b.modes));
  compare("seed", a.seed, b.seed);
  compare("max_trials", a.max_trials, b.max_trials);
  compare("lease_s", a.lease_s, b.lease_s);
  compare("max_retries", a.max_retries, b.max_retries);
  return fmt::format("{}", fmt::join(out, ", "));
}

}  // namespace volador
