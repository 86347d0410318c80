#include "experiments/katib/katib_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/quantities.h"
#include "runtime/uuid.h"
#include "runtime/yaml/writer.h"

namespace volador::experiments::katib {
namespace {

constexpr std::string_view kJobPrefix = "katib-";

std::string row_key(const ResourceKey& key) { return key.kind + "/" + key.name_space + "/" + key.name; }
std::string words_of(const ResourceKey& key) {
  return fmt::format("{} {} of namespace {}", key.kind, key.name, key.name_space);
}

bool is_over(const std::string& state) { return state == "COMPLETED" || state == "ERROR" || state == "CANCELED"; }

// The first sentence of a reason as data: ["trial.early_stopped"].
bool has_sentence(const std::string& why, std::string_view key) {
  return why.starts_with("[\"" + std::string(key) + "\"");
}

template <class Row>
bool parse_record(std::string_view value, Row& row) {
  return row.ParseFromArray(value.data(), static_cast<int>(value.size()));
}

}  // namespace

ResourceKey key_of(const Resource& resource) {
  return {resource.kind, resource.metadata.name_space, resource.metadata.name};
}
ResourceKey key_of(const v1::KatibResource& resource) {
  return {resource.kind(), resource.namespace_(), resource.name()};
}

KatibCore::KatibCore(const KatibLimits& limits, Random& random) : limits_(limits), random_(random) {}
KatibCore::~KatibCore() = default;

std::string KatibCore::job_text(const std::string& uid) { return std::string(kJobPrefix) + uid; }
bool KatibCore::is_job_text(std::string_view text) { return text.starts_with(kJobPrefix); }

// ---- journal ----

bool KatibCore::load(std::string_view table, std::string_view, std::string_view value) {
  if (table == kResourcesTable) {
    protocol::KatibResourceRecord record;
    if (!parse_record(value, record)) return false;
    auto resource = resource_of(record.resource().object());
    if (!resource) return false;
    const ResourceKey key = key_of(record.resource());
    Held& held = resources_[key];
    held.resource = std::move(*resource);
    version_ = std::max(version_, record.resource().version());
    held.suggestion_version = record.resource().version();
    for (const int64_t id : record.experiments()) of_experiment_[id] = key;
    of_job_[record.uid()] = key;
    held.record = std::move(record);
    return true;
  }
  if (table == kKatibTrialsTable) {
    protocol::KatibTrialRecord record;
    if (!parse_record(value, record) || record.name().empty() || record.number() <= 0) return false;
    ResourceKey key{"Experiment", record.namespace_(), record.experiment()};
    // The row of the experiment may come later.
    Held& held = resources_[key];
    held.order[record.number()] = record.name();
    of_trial_[record.name()] = {key, record.name()};
    const std::string name = record.name();
    held.trials[name].record = std::move(record);
    return true;
  }
  return false;
}

void KatibCore::start(int64_t now_ms) {
  version_ = deleted_since_ = std::max(version_ + 1, now_ms);
  for (auto at = resources_.begin(); at != resources_.end();) {
    Held& held = at->second;
    if (held.record.uid().empty()) {  // Trials of an experiment that cannot be read.
      for (const auto& [name, trial] : held.trials) of_trial_.erase(name);
      at = resources_.erase(at);
      continue;
    }
    for (auto& [name, trial] : held.trials) trial.version = version_;
    ++at;
  }
}

void KatibCore::on_heard(int64_t now_ms) {
  heard_ = true;
  for (auto& [key, held] : resources_) reconcile(held, now_ms);
}

int64_t KatibCore::next_version(int64_t now_ms) { return version_ = std::max(version_ + 1, now_ms); }

void KatibCore::put(const Held& held) {
  actions_.rows.push_back(
      {std::string(kResourcesTable), row_key(key_of(held.record.resource())), held.record.SerializeAsString()});
}
void KatibCore::put(const Held& held, const Trial& trial) {
  const v1::KatibResource& of = held.record.resource();
  actions_.rows.push_back({std::string(kKatibTrialsTable),
                           of.namespace_() + "/" + of.name() + "/" + trial.record.name(),
                           trial.record.SerializeAsString()});
}

void KatibCore::touch(Held& held, int64_t now_ms) {
  const int64_t version = next_version(now_ms);
  held.record.mutable_resource()->set_version(version);
  held.suggestion_version = version;
  put(held);
  actions_.changed = true;
}

// The status of the experiment changes with its trials.
void KatibCore::touch(Held& held, Trial& trial, int64_t now_ms) {
  const int64_t version = next_version(now_ms);
  trial.version = version;
  held.record.mutable_resource()->set_version(version);
  put(held, trial);
  actions_.changed = true;
}

KatibActions KatibCore::take() { return std::exchange(actions_, {}); }

// ---- look-up and access ----

KatibCore::Held* KatibCore::find(const ResourceKey& key) {
  const auto found = resources_.find(key);
  return found == resources_.end() ? nullptr : &found->second;
}
KatibCore::Held* KatibCore::find(const ResourceKey& key, const std::string& uid) {
  Held* held = find(key);
  return held != nullptr && held->record.uid() == uid ? held : nullptr;
}

ExperimentRequester KatibCore::owner_of(const Held& held) const {
  return {.token_id = held.record.token_id(), .user = held.record.user(), .operates = held.record.operates()};
}

Result<void> KatibCore::may_change(const Held& held, const ExperimentRequester& by, std::string_view what) const {
  const protocol::KatibResourceRecord& record = held.record;
  const bool owns = record.user().empty() ? by.token_id == record.token_id() : by.user == record.user();
  if (owns || by.operates) return {};
  return make_error(
      ErrorCode::kPermissionDenied,
      fmt::format("{}: {} was created by {}, this request comes with {}; only its owner and operators may change it",
                  what, words_of(key_of(record.resource())),
                  record.user().empty() ? "token " + record.token_id() : "user " + record.user(),
                  by.user.empty() ? "token " + by.token_id : "a token of user " + by.user));
}

bool KatibCore::needs_files(const std::string& sha256) const {
  return std::ranges::any_of(resources_, [&](const auto& one) { return one.second.record.files_sha256() == sha256; });
}

Result<std::pair<int64_t, int64_t>> KatibCore::trial_of(const std::string& name) const {
  const auto found = of_trial_.find(name);
  if (found != of_trial_.end()) {
    const Held& held = resources_.at(found->second.first);
    const protocol::KatibTrialRecord& record = held.trials.at(name).record;
    const int at = record.incarnation() - 1;
    if (record.trial() != 0 && at >= 0 && at < held.record.experiments_size())
      return std::pair(held.record.experiments(at), record.trial());
  }
  return make_error(ErrorCode::kNotFound,
                    fmt::format("there is no trial \"{}\"; `volador get trials` shows the trials", name));
}

// ---- requests ----

// "created", "configured" or "unchanged".
Result<std::string> KatibCore::check_apply(const Resource& resource, const Applying& how,
                                           const ExperimentRequester& by) const {
  const ResourceKey key = key_of(resource);
  const auto found = resources_.find(key);
  if (found == resources_.end()) return "created";
  const Held& held = found->second;
  if (how.create_only)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} exists; change it with `volador apply`, or delete it first", words_of(key)));
  VOLADOR_TRY(may_change(held, by, "apply"));
  const auto change = change_of(held.resource, resource);
  if (!change) return make_error(change.error());
  if (*change == Change::kUnchanged) return "unchanged";
  if (is_experiment(held) && is_complete(held.record)) {
    const ExperimentSpec& spec = *resource.experiment;
    const auto* succeeded = katib::find_condition(held.record.conditions(), "Succeeded");
    const bool by_count = succeeded != nullptr && succeeded->reason() == kMaxTrialsReached;
    if (!by_count || held.spec().resume == ResumePolicy::kNever)
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{} has ended: it can be restarted only if it has succeeded because its maximum of "
                                    "trials was reached and its resumePolicy is LongRunning or FromVolume",
                                    words_of(key)));
    if (spec.max_trials && *spec.max_trials <= static_cast<int64_t>(held.trials.size()))
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: spec.maxTrialCount: expected more than {} to restart it, as many as it has, "
                                    "got {}",
                                    words_of(key), counted(held.trials.size(), "trial"), *spec.max_trials));
  }
  return "configured";
}

Result<std::vector<v1::AppliedKatibResource>> KatibCore::apply(const std::vector<Resource>& resources,
                                                               const Applying& how, const ExperimentRequester& by,
                                                               int64_t now_ms) {
  std::vector<v1::AppliedKatibResource> out;
  size_t created = 0;
  for (const Resource& resource : resources) {
    auto action = check_apply(resource, how, by);
    if (!action) return make_error(action.error());
    created += *action == "created";
    v1::AppliedKatibResource& one = out.emplace_back();
    one.set_kind(resource.kind);
    one.set_namespace_(resource.metadata.name_space);
    one.set_name(resource.metadata.name);
    one.set_group(std::string(group_of_kind(resource.kind)));
    one.set_action(std::move(*action));
  }
  if (resources_.size() + created > limits_.resources)
    return make_error(ErrorCode::kUnavailable, fmt::format("there are {}, the limit; delete some first",
                                                           counted(resources_.size(), "resource")));
  if (how.dry_run) return out;
  for (size_t i = 0; i < resources.size(); ++i) {
    if (out[i].action() == "created") create(resources[i], how, by, now_ms);
    if (out[i].action() == "configured") change(resources_.at(key_of(resources[i])), resources[i], now_ms);
  }
  return out;
}

void KatibCore::create(const Resource& resource, const Applying& how, const ExperimentRequester& by, int64_t now_ms) {
  const ResourceKey key = key_of(resource);
  Held& held = resources_[key];
  held.resource = resource;
  held.heard = true;
  protocol::KatibResourceRecord& record = held.record;
  record.set_uid(uuid_text(random_));
  record.set_files_sha256(how.files_sha256);
  record.set_created_ms(now_ms);
  record.set_generation(1);
  record.set_token_id(by.token_id);
  record.set_user(by.user);
  record.set_operates(by.operates);
  record.set_incarnation(1);
  v1::KatibResource& shown = *record.mutable_resource();
  shown.set_kind(key.kind);
  shown.set_namespace_(key.name_space);
  shown.set_name(key.name);
  shown.set_object(yaml::json_text(resource.object));
  of_job_[record.uid()] = key;
  if (is_experiment(held)) {
    record.set_started_ms(now_ms);
    set_condition(*record.mutable_conditions(), "Created", true, "ExperimentCreated", "Experiment is created", now_ms);
    auto& of_suggestion = *record.mutable_suggestion_conditions();
    set_condition(of_suggestion, "Created", true, "SuggestionCreated", "Suggestion is created", now_ms);
  } else {
    set_condition(*record.mutable_conditions(), "Created", true, key.kind + "Created",
                  fmt::format("{} {} is created", key.kind, key.name), now_ms);
  }
  touch(held, now_ms);
  event(held, "a resource was created");
  reconcile(held, now_ms);
}

void KatibCore::change(Held& held, const Resource& resource, int64_t now_ms) {
  protocol::KatibResourceRecord& record = held.record;
  held.resource = resource;
  record.mutable_resource()->set_object(yaml::json_text(resource.object));
  record.set_generation(record.generation() + 1);
  if (is_experiment(held) && is_complete(record)) {
    auto& conditions = *record.mutable_conditions();
    remove_condition(conditions, "Succeeded");
    remove_condition(conditions, "Failed");
    set_condition(conditions, "Restarting", true, "ExperimentRestarting", "Experiment is restarted", now_ms);
    remove_condition(*record.mutable_suggestion_conditions(), "Succeeded");
    record.set_completed_ms(0);
    record.set_exhausted(false);
    record.set_incarnation(record.incarnation() + 1);
    record.mutable_resource()->set_experiment(0);
    held.state.clear();
    held.ending = held.creating = held.running = held.waits = false;
    held.heard = true;
  }
  held.waits = false;
  touch(held, now_ms);
  event(held, "a resource was changed");
  reconcile(held, now_ms);
}

Result<v1::KatibResource> KatibCore::remove(const v1::DeleteKatibResourceRequest& request,
                                            const ExperimentRequester& by, int64_t now_ms) {
  const auto kind = kind_of(request.kind());
  if (!kind)
    return make_error(ErrorCode::kInvalidArgument, fmt::format("kind: there is no kind \"{}\"", request.kind()));
  const std::string name_space = request.namespace_().empty() ? "default" : request.namespace_();
  // They belong to an experiment.
  const bool is_part = *kind == "Trial" || *kind == "Suggestion";
  const ResourceKey key{*kind, name_space, request.name()};
  const auto missing = [&] {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("there is no {}; `volador get {}` shows what there is", words_of(key), *kind));
  };
  if (is_part) {
    const auto owner = of_trial_.find(request.name());
    if (*kind == "Suggestion" || owner == of_trial_.end() || owner->second.first.name_space != name_space)
      return *kind == "Suggestion" ? make_error(ErrorCode::kInvalidArgument,
                                                "a suggestion belongs to its experiment; delete the experiment")
                                   : missing();
    Held& held = resources_.at(owner->second.first);
    VOLADOR_TRY(may_change(held, by, "delete"));
    Trial& trial = held.trials.at(request.name());
    v1::KatibResource gone;
    gone.set_kind("Trial");
    gone.set_namespace_(name_space);
    gone.set_name(request.name());
    gone.set_object(trial_object(held.record, held.resource, trial.record));
    gone.set_trial(trial.record.trial());
    // It is killed, and counts as such: another with its number would be suggested anew.
    if (trial.record.trial() != 0) {
      actions_.kill_trials.push_back(trial.record.trial());
    } else if (!is_end(condition_of(trial.record))) {
      end_trial(held, trial, TrialCondition::kKilled, {}, now_ms);
      reconcile(held, now_ms);
    }
    return gone;
  }
  Held* held = find(key);
  if (held == nullptr) return missing();
  VOLADOR_TRY(may_change(*held, by, "delete"));
  v1::KatibResource gone = held->record.resource();
  event(*held, "a resource was deleted");
  erase(key, now_ms);
  return gone;
}

// Watches hear of it.
void KatibCore::forget(v1::KatibResource gone, int64_t now_ms) {
  gone.set_version(next_version(now_ms));
  gone.set_deleted(true);
  deleted_.push_back(std::move(gone));
  if (deleted_.size() <= limits_.deleted) return;
  deleted_since_ = deleted_.front().version();
  deleted_.pop_front();
}

// Its experiments and jobs have no resource then, which ends and removes them.
void KatibCore::erase(const ResourceKey& key, int64_t now_ms) {
  Held& held = resources_.at(key);
  std::map<int64_t, std::vector<v1::TrialInfo>> of_experiments;
  for (const auto& [name, trial] : held.trials) {
    v1::KatibResource gone;
    gone.set_kind("Trial");
    gone.set_namespace_(key.name_space);
    gone.set_name(name);
    forget(std::move(gone), now_ms);
    of_trial_.erase(name);
    if (const int at = trial.record.incarnation() - 1; at >= 0 && at < held.record.experiments_size()) {
      v1::TrialInfo& info = of_experiments[held.record.experiments(at)].emplace_back();
      info.set_job(trial.record.job());
    }
    actions_.rows.push_back(
        {std::string(kKatibTrialsTable), key.name_space + "/" + key.name + "/" + name, std::nullopt});
  }
  if (is_experiment(held)) {
    actions_.ended.push_back(key);
    v1::KatibResource gone;
    gone.set_kind("Suggestion");
    gone.set_namespace_(key.name_space);
    gone.set_name(key.name);
    forget(std::move(gone), now_ms);
  }
  forget(held.record.resource(), now_ms);
  actions_.rows.push_back({std::string(kResourcesTable), row_key(key), std::nullopt});
  std::vector<v1::ExperimentInfo> left;
  for (const int64_t id : held.record.experiments()) {
    of_experiment_.erase(id);
    v1::ExperimentInfo info;
    info.set_id(id);
    info.set_state(id == held.record.resource().experiment() ? held.state : "COMPLETED");
    left.push_back(std::move(info));
  }
  of_job_.erase(held.record.uid());
  if (!held.record.resource().job().empty()) {
    const std::string& job = held.record.resource().job();
    (is_complete(held.record) ? actions_.delete_jobs : actions_.stop_jobs).push_back(job);
  }
  resources_.erase(key);
  actions_.changed = true;
  for (const v1::ExperimentInfo& info : left) on_experiment(info, of_experiments[info.id()], now_ms);
}

// ---- what is heard of experiments ----

void KatibCore::on_created(const ResourceKey& of, const std::string& uid, const Result<v1::ExperimentInfo>& made,
                           int64_t now_ms) {
  Held* held = find(of, uid);
  if (held == nullptr) {
    if (made) on_experiment(*made, {}, now_ms);  // It was deleted meanwhile.
    return;
  }
  held->creating = false;
  if (!made) {
    const ErrorCode code = made.error().code;
    if (code == ErrorCode::kUnavailable || code == ErrorCode::kInfeasible || code == ErrorCode::kCancelled)
      return retry_later(*held, now_ms);
    const std::string message = "Experiment has failed because it cannot run: " + made.error().message;
    return finish(*held, {.failed = true, .reason = "ExperimentFailed", .message = message}, now_ms);
  }
  if (held->record.resource().experiment() != made->id()) {
    held->record.mutable_resource()->set_experiment(made->id());
    held->record.add_experiments(made->id());
    of_experiment_[made->id()] = of;
    touch(*held, now_ms);
  }
  held->state = made->state();
  held->heard = true;
  reconcile(*held, now_ms);
}

void KatibCore::on_experiment(const v1::ExperimentInfo& experiment, const std::vector<v1::TrialInfo>& trials,
                              int64_t now_ms) {
  const auto owner = of_experiment_.find(experiment.id());
  if (owner == of_experiment_.end()) {
    // While it is being created its id is not known.
    const std::string& name = experiment.katib();
    const size_t slash = name.find('/');
    if (slash != std::string::npos) {
      const Held* held = find({"Experiment", name.substr(0, slash), name.substr(slash + 1)});
      if (held != nullptr && held->record.resource().experiment() == 0) return;
    }
    delete_jobs_of(trials);
    if (experiment.state() == "DELETING" || experiment.state() == "DELETE_FAILED") return;
    actions_.change.emplace_back(experiment.id(), is_over(experiment.state()) ? "delete" : "kill");
    return;
  }
  Held& held = resources_.at(owner->second);
  if (experiment.id() != held.record.resource().experiment()) return;  // It ran before a restart.
  held.state = experiment.state();
  held.heard = true;
  for (const v1::TrialInfo& trial : trials) see(held, trial, now_ms);
  reconcile(held, now_ms);
}

// They end with their trials, which have no resource any more.
void KatibCore::delete_jobs_of(const std::vector<v1::TrialInfo>& trials) {
  for (const v1::TrialInfo& trial : trials) {
    if (!trial.job().empty()) actions_.delete_jobs.push_back(trial.job());
  }
}

// It was deleted by itself.
void KatibCore::on_experiment_gone(int64_t experiment, int64_t now_ms) {
  const auto owner = of_experiment_.find(experiment);
  if (owner == of_experiment_.end()) return;
  Held& held = resources_.at(owner->second);
  if (experiment != held.record.resource().experiment()) return;
  held.state = "DELETED";
  held.heard = true;
  reconcile(held, now_ms);
}

void KatibCore::see(Held& held, const v1::TrialInfo& info, int64_t now_ms) {
  const auto found = held.trials.find(info.name());
  if (found == held.trials.end()) {
    // It was dropped when fewer were to run at once.
    if (goes_on(info.state())) actions_.kill_trials.push_back(info.id());
    return delete_jobs_of({info});
  }
  Trial& trial = found->second;
  trial.heard = true;
  protocol::KatibTrialRecord& record = trial.record;
  if (is_end(condition_of(record))) return;
  const bool is_new = record.trial() != info.id() || record.job() != info.job();
  record.set_trial(info.id());
  record.set_job(info.job());
  if (info.state() == "COMPLETED") {
    const TrialCondition end = has_sentence(info.why(), "trial.early_stopped") ? TrialCondition::kEarlyStopped
                               : has_sentence(info.why(), "trial.metrics_unavailable")
                                   ? TrialCondition::kMetricsUnavailable
                                   : TrialCondition::kSucceeded;
    return end_trial(held, trial, end, info, now_ms);
  }
  if (info.state() == "ERROR") return end_trial(held, trial, TrialCondition::kFailed, info, now_ms);
  if (info.state() == "CANCELED") return end_trial(held, trial, TrialCondition::kKilled, info, now_ms);
  if (info.started_ms() != 0 && condition_of(record) == TrialCondition::kCreated) {
    record.set_started_ms(info.started_ms());
    record.set_state("Running");
    set_condition(*record.mutable_conditions(), "Running", true, "TrialRunning", "Trial is running", now_ms);
    return touch(held, trial, now_ms);
  }
  if (is_new) touch(held, trial, now_ms);
}

void KatibCore::end_trial(Held& held, Trial& trial, TrialCondition condition, const v1::TrialInfo& info,
                          int64_t now_ms) {
  protocol::KatibTrialRecord& record = trial.record;
  record.clear_observation();
  const auto metrics = nlohmann::json::parse(info.metrics(), nullptr, false);
  if (metrics.is_object() && metrics.contains("observation") && metrics["observation"].is_array()) {
    for (const auto& one : metrics["observation"]) {
      const auto text = [&one](const char* key) {
        const auto value = one.find(key);
        if (value == one.end()) return std::string();
        return value->is_string() ? value->get<std::string>() : value->dump();
      };
      protocol::KatibMetric& metric = *record.add_observation();
      metric.set_name(text("name"));
      metric.set_min(text("min"));
      metric.set_max(text("max"));
      metric.set_latest(text("latest"));
    }
  }
  const Objective& objective = held.spec().objective;
  const bool collects = held.spec().collector.kind != CollectorKind::kNone;
  if (condition == TrialCondition::kSucceeded && collects && !objective_of(objective, record))
    condition = TrialCondition::kMetricsUnavailable;
  if (condition == TrialCondition::kMetricsUnavailable && record.observation().empty()) {
    protocol::KatibMetric& metric = *record.add_observation();
    metric.set_name(objective.metric);
    for (std::string* text : {metric.mutable_min(), metric.mutable_max(), metric.mutable_latest()})
      *text = kUnavailable;
  }
  if (record.started_ms() == 0) record.set_started_ms(info.started_ms());
  record.set_completed_ms(info.ended_ms() == 0 ? now_ms : info.ended_ms());
  record.set_state(std::string(to_string(condition)));
  std::string reason = fmt::format("Trial{}", to_string(condition)), message;
  switch (condition) {
    case TrialCondition::kSucceeded:
      message = "Trial has succeeded";
      break;
    case TrialCondition::kEarlyStopped:
      message = "Trial is early stopped";
      break;
    case TrialCondition::kMetricsUnavailable:
      reason = "MetricsUnavailable";
      message = "Metrics are not available";
      break;
    case TrialCondition::kKilled:
      message = info.reason().empty() ? "Trial is killed" : "Trial is killed: " + info.reason();
      break;
    default: {
      const yaml::Value* kind = held.spec().trial_template.trial_spec.find("kind");
      const bool is_job = kind != nullptr && kind->text == "Job";
      const bool ran = info.started_ms() != 0 && !has_sentence(info.why(), "trial.refused");
      if (!ran) {
        message = "Trial has failed: " + info.reason();
      } else if (is_job) {
        reason = "TrialFailed. Job reason: BackoffLimitExceeded";
        message = "Trial has failed. Job message: Job has reached the specified backoff limit";
      } else {
        reason = fmt::format("TrialFailed. Job reason: {}Failed", kind == nullptr ? "Job" : kind->text);
        message = "Trial has failed. Job message: " + info.reason();
      }
    }
  }
  set_end(*record.mutable_conditions(), to_string(condition), reason, message, now_ms);
  held.waits = false;
  touch(held, trial, now_ms);
}

void KatibCore::check_invariants() const {
  for (const auto& [key, held] : resources_) {
    VOLADOR_CHECK(key == key_of(held.record.resource()), key.name);
    VOLADOR_CHECK(held.order.size() == held.trials.size(), key.name);
    for (const auto& [number, name] : held.order) VOLADOR_CHECK(held.trials.at(name).record.number() == number, name);
  }
}

}  // namespace volador::experiments::katib
