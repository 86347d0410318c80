#include "tune/study/shared_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/quantities.h"
#include "tune/loop/metrics.h"
#include "tune/refusal.h"
#include "tune/schedulers/scheduler_spec.h"
#include "tune/searchers/searcher_spec.h"
#include "tune/space/space_json.h"

namespace volador::tune {
namespace {

using State = StudyTrialState;
using Kind = StudyEvent::Kind;

constexpr int64_t kSchedulerMaxT = 100;  // Default if the specification has no max_t.
constexpr std::array<std::string_view, kStudyTrialStates> kStates{"waiting", "running", "complete", "pruned", "fail"};

bool has_ended(const StudyTrial& trial) { return trial.state >= State::kComplete; }

// Hash that identifies repetitions of a request.
uint64_t digest_of(const StudyEvent& event) {
  StudyEvent asked = event;
  asked.at_ms = 0;
  asked.configs.clear();
  if (asked.kind == Kind::kAsked) asked.numbers.clear();
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a.
  for (const char c : to_bytes(asked)) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  return hash;
}

Result<void> check_study_name(const std::string& name) {
  const bool fits =
      !name.empty() && name.size() <= StudyLimits::kNameBytes && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
               c == '.';
      });
  if (fits && name != "." && name != "..") return {};
  return refuse(fmt::format("study.name: expected 1 to {} letters, digits, '_', '-' or '.', got \"{}\"",
                            StudyLimits::kNameBytes, name.substr(0, 80)));
}

Result<void> check_range(std::string_view what, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return refuse(fmt::format("{}: expected {} to {}, got {}", what, least, most, value));
}

Result<void> check_text(std::string_view what, const std::string& text) {
  if (text.size() <= StudyLimits::kTextBytes) return {};
  return refuse(
      fmt::format("{}: {}; at most {} are kept", what, counted(text.size(), "byte"), StudyLimits::kTextBytes));
}

Result<std::vector<Objective>> objectives_of(const StudyDefinition& definition) {
  if (definition.metrics.empty() || definition.metrics.size() > StudyLimits::kObjectives)
    return refuse(
        fmt::format("study.objectives: expected 1 to {}, as {{\"metric\": \"loss\", \"mode\": \"min\"}}, got {}",
                    StudyLimits::kObjectives, definition.metrics.size()));
  if (definition.modes.size() != definition.metrics.size())
    return refuse("study.objectives: each wants a metric and a mode");
  std::vector<Objective> out;
  for (size_t at = 0; at < definition.metrics.size(); ++at) {
    const std::string& mode = definition.modes[at];
    if (mode != "min" && mode != "max")
      return refuse(
          fmt::format("study.objectives: mode of {}: expected min or max, got \"{}\"", definition.metrics[at], mode));
    VOLADOR_TRY(check_text("study.objectives: metric", definition.metrics[at]));
    out.push_back({definition.metrics[at], mode == "min" ? Mode::kMin : Mode::kMax});
  }
  VOLADOR_TRY(validate(Goals{.objectives = out}));
  return out;
}

}  // namespace

std::string_view to_string(StudyTrialState state) { return kStates[static_cast<size_t>(state)]; }

std::optional<StudyTrialState> study_trial_state_of(std::string_view word) {
  const auto found = std::find(kStates.begin(), kStates.end(), word);
  if (found == kStates.end()) return std::nullopt;
  return static_cast<State>(found - kStates.begin());
}

// ---- Creation.

Result<void> SharedStudy::make_parts() {
  VOLADOR_TRY(check_study_name(definition_.name));
  VOLADOR_TRY(check_range("study.max_trials", definition_.max_trials, 0, StudyLimits::kTrials));
  VOLADOR_TRY(check_range("study.lease_s", definition_.lease_s, 0, StudyLimits::kLeaseMostS));
  VOLADOR_TRY(check_range("study.max_retries", definition_.max_retries, 0, 1000));
  auto objectives = objectives_of(definition_);
  if (!objectives) return make_error(objectives.error());
  objectives_ = std::move(*objectives);

  if (definition_.space.size() > StudyLimits::kSpaceBytes)
    return refuse(fmt::format("study.space: {} bytes of JSON; at most {}: shorten lists of options",
                              definition_.space.size(), StudyLimits::kSpaceBytes));
  const auto json = Config::from_json(definition_.space);
  if (!json) return refuse(fmt::format("study.space: {}", json.error().message));
  auto space = space_from_json(*json);
  if (!space) return make_error(space.error());
  if (const size_t keys = space->draw_keys().size(); keys > StudyLimits::kParameters)
    return refuse(fmt::format("study.space: {} parameters, those of all options counted; at most {}", keys,
                              StudyLimits::kParameters));

  const auto factory = searcher_of(definition_.searcher);
  if (!factory) return refuse(fmt::format("study.searcher: {}", factory.error().message));
  SearchContext context{.space = std::move(*space),
                        .metric = objectives_[0].metric,
                        .mode = objectives_[0].mode,
                        .num_samples = -1,
                        .seed = definition_.seed};
  if (objectives_.size() > 1) context.goals.objectives = objectives_;
  auto searcher = (*factory)(context);
  if (!searcher) return make_error(searcher.error());
  searcher_ = std::move(*searcher);
  if (objectives_.size() > 1 && !searcher_->takes_goals())
    return refuse(fmt::format("study.searcher: {} learns from one metric: take tpe, gp or nsga2 for {}",
                              searcher_->describe(), objectives_.size()));
  if (definition_.scheduler.empty()) return {};

  const auto made = scheduler_of(definition_.scheduler, kSchedulerMaxT);
  if (!made) return refuse(fmt::format("study.scheduler: {}", made.error().message));
  if (objectives_.size() > 1)
    return refuse(fmt::format("study.scheduler: it decides by one metric, and the study has {}: leave it out",
                              objectives_.size()));
  auto scheduler = (*made)({.metric = objectives_[0].metric, .mode = objectives_[0].mode, .seed = definition_.seed});
  if (!scheduler) return make_error(scheduler.error());
  if ((*scheduler)->pauses() || (*scheduler)->clones() || (*scheduler)->changes_resources())
    return refuse(
        fmt::format("study.scheduler: {} pauses trials, which workers that ask and tell cannot: take asha, "
                    "median_stopping, percentile or wilcoxon",
                    (*scheduler)->describe()));
  scheduler_ = std::move(*scheduler);
  return {};
}

Result<SharedStudy> SharedStudy::create(StudyDefinition definition, int64_t now_ms) {
  SharedStudy study;
  study.definition_ = std::move(definition);
  study.created_ms_ = now_ms;
  VOLADOR_TRY(study.make_parts());
  return study;
}

// ---- Repeated requests.

Result<const StudyAnswer*> SharedStudy::answered(const StudyEvent& event) const {
  VOLADOR_TRY(check_text("request_id", event.request));
  if (event.request.empty()) return nullptr;
  const auto found = std::find_if(answers_.rbegin(), answers_.rend(),
                                  [&](const StudyAnswer& one) { return one.request == event.request; });
  if (found == answers_.rend()) return nullptr;
  if (found->digest == digest_of(event)) return &*found;
  return refuse(fmt::format(
      "request_id: \"{}\" was another request of study {}: take a new one for each, and the same one only to repeat it",
      event.request, definition_.name));
}

void SharedStudy::remember(const StudyEvent& event, StudyAnswer answer) {
  if (event.request.empty()) return;
  answer.request = event.request;
  answer.digest = digest_of(event);
  answers_.push_back(std::move(answer));
  if (answers_.size() > StudyLimits::kRequests) answers_.pop_front();
}

SharedStudy::Asked SharedStudy::answer_of(const StudyAnswer& answer) const {
  Asked out{.trials = answer.given};
  for (StudyTrial& trial : out.trials) trial.config = trials_[static_cast<size_t>(trial.number)].config;
  return out;
}

// ---- ask.

// Whether a running trial may be handed out again.
bool SharedStudy::may_still_give() const {
  return definition_.lease_s > 0 && std::any_of(leases_.begin(), leases_.end(), [this](const auto& lease) {
           return trials_[static_cast<size_t>(lease.second)].attempt <= definition_.max_retries;
         });
}

// Returns the kind of the searcher's suggestion; `why` explains the absence of a configuration.
Result<Suggestion::Kind> SharedStudy::suggest_into(StudyEvent& event, Reason& why) {
  const auto number = static_cast<int64_t>(trials_.size());
  const int64_t most = definition_.max_trials > 0 ? definition_.max_trials : StudyLimits::kTrials;
  if (number >= most) {
    why = most == 1 ? reason("study.only_given_out") : reason("study.all_given_out", most);
    return Suggestion::Kind::kExhausted;
  }
  if (config_bytes_ >= StudyLimits::kConfigBytes) {
    why = reason("study.full", number, StudyLimits::kConfigBytes >> 20);
    return Suggestion::Kind::kExhausted;
  }
  auto suggestion = searcher_->suggest(number);
  if (!suggestion) return make_error(suggestion.error());
  if (suggestion->kind != Suggestion::Kind::kConfig) {
    const bool waits = suggestion->kind == Suggestion::Kind::kWait;
    why = waits ? reason("study.searcher_waits", searcher_->describe())
                : reason("study.searcher_ended", searcher_->describe());
    return suggestion->kind;
  }
  event.numbers.push_back(number);
  event.configs.push_back(suggestion->config);
  add_trial(std::move(suggestion->config));
  return Suggestion::Kind::kConfig;
}

Result<SharedStudy::Asked> SharedStudy::ask(const AskRequest& request, int64_t now_ms) {
  StudyEvent event{.kind = Kind::kAsked,
                   .at_ms = now_ms,
                   .request = request.request,
                   .worker = request.worker,
                   .step = request.count};
  const auto before = answered(event);
  if (!before) return make_error(before.error());
  if (*before != nullptr) return answer_of(**before);
  VOLADOR_TRY(check_range("ask.count", request.count, 1, StudyLimits::kAsked));
  VOLADOR_TRY(check_text("ask.worker", request.worker));
  Asked out;
  for (const int64_t number : waiting_) {
    if (static_cast<int64_t>(event.numbers.size()) == request.count) break;
    event.numbers.push_back(number);
  }
  bool waits = false;
  while (static_cast<int64_t>(event.numbers.size()) < request.count) {
    const auto found = suggest_into(event, out.reason);
    if (!found && event.numbers.empty()) return make_error(found.error());
    if (!found) out.reason = found.error().message;
    waits = found && *found == Suggestion::Kind::kWait;
    if (!found || *found != Suggestion::Kind::kConfig) break;
  }
  if (event.numbers.empty()) {
    out.done = !waits && !may_still_give();
    if (!out.done && !waits) out.reason = and_also(std::move(out.reason), reason("study.some_run", counts_[1]));
    return out;
  }
  apply_asked(event);
  for (const int64_t number : event.numbers) out.trials.push_back(trials_[static_cast<size_t>(number)]);
  events_.push_back(std::move(event));
  return out;
}

void SharedStudy::add_trial(Config config) {
  config_bytes_ += config.to_json().size();
  StudyTrial& trial = trials_.emplace_back();
  trial.number = static_cast<int64_t>(trials_.size()) - 1;
  trial.state = State::kWaiting;
  trial.attempt = 0;
  trial.config = std::move(config);
  ++counts_[static_cast<size_t>(State::kWaiting)];
  if (scheduler_) scheduler_->on_trial_add(id_of(trial.number));
}

void SharedStudy::give_out(StudyTrial& trial, const StudyEvent& event) {
  waiting_.erase(trial.number);
  set_state(trial, State::kRunning);
  ++trial.attempt;
  trial.worker = event.worker;
  trial.say({});
  if (trial.started_ms == 0) trial.started_ms = event.at_ms;
  set_lease(trial, event.at_ms);
}

// The new trials have been added already.
void SharedStudy::apply_asked(const StudyEvent& event) {
  StudyAnswer answer;
  for (const int64_t number : event.numbers) {
    StudyTrial& trial = trials_[static_cast<size_t>(number)];
    give_out(trial, event);
    if (event.request.empty()) continue;
    Config config = std::exchange(trial.config, Config());
    answer.given.push_back(trial);
    trial.config = std::move(config);
  }
  remember(event, std::move(answer));
}

// ---- tell.

Error SharedStudy::no_trial(int64_t number) const {
  return {ErrorCode::kNotFound,
          fmt::format("study {} has no trial {}; it has given out {}", definition_.name, number, trials_.size())};
}

Result<StudyEvent> SharedStudy::checked(const TellRequest& request) const {
  if (request.number < 0 || request.number >= static_cast<int64_t>(trials_.size()))
    return make_error(no_trial(request.number));
  if (request.state < State::kComplete)
    return refuse(fmt::format("tell.state: expected complete, pruned or fail, got {}", to_string(request.state)));
  VOLADOR_TRY(check_text("tell.reason", request.reason));
  const size_t wanted = objectives_.size();
  const bool may_lack = request.state != State::kComplete;
  if (request.values.size() != wanted && !(may_lack && request.values.empty()))
    return refuse(fmt::format("tell.values: trial {} has {}; study {} has {}", request.number,
                              counted(request.values.size(), "value"), definition_.name, counted(wanted, "metric")));
  if (request.state == State::kFail && !request.values.empty())
    return refuse("tell.values: a failed trial has none: leave them out, or tell it complete");
  return StudyEvent{.kind = Kind::kTold,
                    .request = request.request,
                    .numbers = {request.number},
                    .state = request.state,
                    .values = request.values,
                    .reason = request.reason};
}

SharedStudy::Ending SharedStudy::ending_of(const StudyEvent& told) const {
  const StudyTrial& trial = trials_[static_cast<size_t>(told.numbers[0])];
  Ending out{told.state, told.values, told.reason};
  if (told.state == State::kPruned && told.values.empty() && trial.step > 0 && std::isfinite(trial.reported))
    out.values = {trial.reported};
  if (told.state == State::kPruned && told.reason.empty() && trial.decision == "prune") out.reason = reason_of(trial);
  for (size_t at = 0; at < out.values.size(); ++at) {
    if (std::isfinite(out.values[at])) continue;
    return {State::kFail, {}, reason("study.not_finite", objectives_[at].metric, format_real(out.values[at]))};
  }
  return out;
}

Result<StudyTrial> SharedStudy::tell(const TellRequest& request, int64_t now_ms) {
  auto event = checked(request);
  if (!event) return make_error(event.error());
  event->at_ms = now_ms;
  const auto before = answered(*event);
  if (!before) return make_error(before.error());
  const auto at = static_cast<size_t>(request.number);
  if (*before != nullptr) return trials_[at];
  if (has_ended(trials_[at])) {
    const Ending ending = ending_of(*event);
    if (ending.state == trials_[at].state && ending.values == trials_[at].values) return trials_[at];
    return refuse(
        fmt::format("tell: trial {} of study {} has ended ({}{}) and stays so: whoever tells first counts",
                    request.number, definition_.name, to_string(trials_[at].state),
                    trials_[at].values.empty() ? "" : fmt::format(", {}", fmt::join(trials_[at].values, ", "))));
  }
  apply_told(*event);
  events_.push_back(std::move(*event));
  return trials_[at];
}

void SharedStudy::apply_told(const StudyEvent& event) {
  end(trials_[static_cast<size_t>(event.numbers[0])], ending_of(event), event.at_ms);
  remember(event, {.number = event.numbers[0]});
}

void SharedStudy::end(StudyTrial& trial, const Ending& ending, int64_t now_ms) {
  waiting_.erase(trial.number);
  if (trial.lease_ends_ms != 0) leases_.erase({std::exchange(trial.lease_ends_ms, 0), trial.number});
  set_state(trial, ending.state);
  trial.values = ending.values;
  trial.say(ending.reason);
  trial.ended_ms = now_ms;
  std::optional<Observation> last;
  if (!trial.values.empty()) {
    last = Observation{trial.number, std::max<int64_t>(trial.step, 1), trial.values[0]};
    if (objectives_.size() > 1) last->objectives = trial.values;
  }
  searcher_->on_complete(trial.number, last);
  if (scheduler_) {
    scheduler_->on_complete(id_of(trial.number));
    (void)scheduler_->take_decisions();
  }
  if (trial.state == State::kComplete) judge(trial);
}

void SharedStudy::judge(const StudyTrial& trial) {
  if (objectives_.size() == 1) {
    if (best_.empty()) return best_.push_back(trial.number);
    const double best = trials_[static_cast<size_t>(best_[0])].values[0];
    if (better(trial.values[0], best, objectives_[0].mode)) best_[0] = trial.number;
    return;
  }
  const auto outcome = [this](int64_t number) {
    return outcome_of(trials_[static_cast<size_t>(number)].values, {}, objectives_);
  };
  const Outcome mine = outcome(trial.number);
  if (std::any_of(best_.begin(), best_.end(), [&](int64_t one) { return dominates(outcome(one), mine); })) return;
  std::erase_if(best_, [&](int64_t one) { return dominates(mine, outcome(one)); });
  best_.push_back(trial.number);
}

// ---- report.

SharedStudy::Verdict SharedStudy::verdict_on(const StudyTrial& trial) const {
  Verdict out{.decision = "continue", .lease_ends_ms = trial.lease_ends_ms};
  if (has_ended(trial))
    return {true, "finish", reason("study.has_ended", trial.number, cluster_word(to_string(trial.state))), 0};
  if (!trial.decision.empty()) return {true, trial.decision, reason_of(trial), trial.lease_ends_ms};
  return out;
}

Result<SharedStudy::Verdict> SharedStudy::report(const ReportRequest& request, int64_t now_ms) {
  StudyEvent event{.kind = Kind::kReported,
                   .at_ms = now_ms,
                   .request = request.request,
                   .numbers = {request.number},
                   .step = request.step,
                   .value = result_or_nan(request.value)};
  if (request.number < 0 || request.number >= static_cast<int64_t>(trials_.size()))
    return make_error(no_trial(request.number));
  StudyTrial& trial = trials_[static_cast<size_t>(request.number)];
  const auto before = answered(event);
  if (!before) return make_error(before.error());
  if (*before != nullptr)
    return Verdict{(*before)->decision != "continue", (*before)->decision, reason_of((*before)->given[0]),
                   (*before)->given[0].lease_ends_ms};
  if (request.step < 0)
    return refuse(
        fmt::format("report.step: expected at least 1, or 0 to say nothing but that it lives, got {}", request.step));
  if (request.step > 0 && objectives_.size() > 1)
    return refuse(
        fmt::format("report: study {} has {} metrics, of which nothing decides before the end: tell then, or send no "
                    "step to keep the lease",
                    definition_.name, objectives_.size()));
  if (has_ended(trial)) return verdict_on(trial);
  const bool news = request.step > trial.step;
  // Renews the lease only if this extends it by more than a twentieth.
  const bool renews =
      definition_.lease_s > 0 && now_ms + definition_.lease_s * 1000 > trial.lease_ends_ms + definition_.lease_s * 50;
  if (!news && !renews && trial.state == State::kRunning && request.request.empty()) return verdict_on(trial);
  apply_reported(event);
  events_.push_back(std::move(event));
  return verdict_on(trial);
}

void SharedStudy::apply_reported(const StudyEvent& event) {
  StudyTrial& trial = trials_[static_cast<size_t>(event.numbers[0])];
  waiting_.erase(trial.number);
  set_state(trial, State::kRunning);
  if (trial.decision.empty()) trial.say({});
  set_lease(trial, event.at_ms);
  if (event.step > trial.step) {
    trial.step = event.step;
    trial.reported = event.value;
    searcher_->on_result({trial.number, event.step, event.value});
    if (scheduler_ && trial.decision.empty()) {
      const auto decision =
          scheduler_->on_report({.trial = id_of(trial.number), .step = event.step, .value = event.value});
      (void)scheduler_->take_decisions();
      if (decision && *decision == Decision::kStop) trial.decision = "prune";
      if (decision && *decision == Decision::kFinish) trial.decision = "finish";
      if (trial.decision == "prune")
        trial.say(reason("decision.by", reason("decision.others_better", event.step), scheduler_->describe()));
      if (trial.decision == "finish")
        trial.say(reason("decision.by", reason("study.longest", event.step), scheduler_->describe()));
    }
  }
  const Verdict verdict = verdict_on(trial);
  StudyTrial answered{.lease_ends_ms = verdict.lease_ends_ms};
  answered.say(verdict.reason);
  remember(event, {.given = {std::move(answered)}, .number = trial.number, .decision = verdict.decision});
}

}  // namespace volador::tune
