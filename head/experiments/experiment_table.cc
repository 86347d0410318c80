#include "head/experiments/experiment_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "head/experiments/run_names.h"
#include "runtime/protocol/trial_points.h"
#include "runtime/result.h"

namespace volador::head {
namespace {

constexpr int kMetricsMax = 256;  // Per row.
constexpr int kTagsMax = 32;      // Per row.

bool has_ended(const protocol::TrialRow& trial) {
  const std::string& status = trial.status();
  return status == "finished" || status == "stopped" || status == "failed" || status == "interrupted";
}

void cut(std::string& text, size_t bytes_max) {
  if (text.size() <= bytes_max) return;
  while (bytes_max > 0 && (static_cast<unsigned char>(text[bytes_max]) & 0xC0) == 0x80)
    --bytes_max;  // Not inside a UTF-8 character.
  text.resize(bytes_max);
  text += "…";
}

std::string unknown(std::string_view name) {
  return fmt::format("this cluster knows no experiment \"{}\"; volador list trials shows those it knows", name);
}

// By whole id; by whole name if no id matches.
std::vector<const protocol::TrialRow*> whole_matches(const Experiment& experiment, std::string_view text) {
  std::vector<const protocol::TrialRow*> found;
  if (text.empty()) return found;
  if (const auto row = experiment.trials.find(std::string(text)); row != experiment.trials.end()) return {&row->second};
  for (const auto& [id, row] : experiment.trials) {
    if (row.name() == text) found.push_back(&row);
  }
  return found;
}

std::vector<const protocol::TrialRow*> starting_with(const Experiment& experiment, std::string_view text) {
  std::vector<const protocol::TrialRow*> found;
  if (text.empty()) return found;
  for (auto row = experiment.trials.lower_bound(std::string(text));
       row != experiment.trials.end() && row->first.starts_with(text); ++row)
    found.push_back(&row->second);
  return found;
}

}  // namespace

void ExperimentTable::keep_best(const protocol::BestTrial& told, protocol::BestTrial& kept) const {
  kept = told;
  cut(*kept.mutable_trial(), limits_.name_bytes);
  cut(*kept.mutable_name(), limits_.name_bytes);
  cut(*kept.mutable_config_json(), limits_.trial_bytes);
}

void ExperimentTable::keep_rungs(const protocol::ExperimentUpdate& update,
                                 std::vector<protocol::SchedulerRung>& kept) const {
  kept.clear();
  int members = 0;
  for (const protocol::SchedulerRung& rung : update.rungs()) {
    if (kept.size() == kRungsMax) return;
    protocol::SchedulerRung& one = kept.emplace_back(rung);
    cut(*one.mutable_state(), limits_.name_bytes);
    const int room = std::max(kRungMembersMax - members, 0);
    if (one.members_size() > room) one.mutable_members()->DeleteSubrange(room, one.members_size() - room);
    members += one.members_size();
    for (auto& member : *one.mutable_members()) {
      cut(*member.mutable_trial(), limits_.name_bytes);
      cut(*member.mutable_act(), limits_.name_bytes);
    }
  }
}

bool ExperimentTable::update(DriverId driver, const protocol::ExperimentUpdate& update, const std::string& machine_id) {
  std::string name = update.experiment();
  cut(name, limits_.name_bytes);
  if (name.empty()) return false;
  const auto before = experiments_.find(name);
  const bool is_numbered = update.number() > 0;
  if (is_numbered && before != experiments_.end() && before->second.driver == driver &&
      update.number() <= before->second.number)
    return false;
  if (before == experiments_.end() && experiments_.size() >= limits_.experiments) {
    auto oldest = experiments_.end();  // Only ended experiments; running ones keep their rows.
    for (auto at = experiments_.begin(); at != experiments_.end(); ++at) {
      if (at->second.is_open()) continue;
      if (oldest == experiments_.end() || at->second.updated < oldest->second.updated) oldest = at;
    }
    if (oldest == experiments_.end()) return false;
    forget_actors(oldest->second);
    experiments_.erase(oldest);
  }
  Experiment& experiment = experiments_[name];
  if (experiment.driver != driver) {  // A later run with this name.
    forget_actors(experiment);
    experiment = Experiment{};
  }
  experiment.name = name;
  experiment.driver = driver;
  if (!machine_id.empty()) experiment.machine_id = machine_id;
  experiment.updated = ++updates_;
  if (is_numbered) experiment.number = update.number();
  if (!update.state().empty()) experiment.state = update.state();
  if (!update.metric().empty()) experiment.metric = update.metric();
  if (!update.mode().empty()) experiment.mode = update.mode();
  if (!update.directory().empty()) experiment.directory = update.directory();
  for (std::string* text : {&experiment.state, &experiment.metric, &experiment.mode, &experiment.directory})
    cut(*text, limits_.trial_bytes);
  if (!update.scheduler().empty()) experiment.scheduler = update.scheduler();
  cut(experiment.scheduler, limits_.trial_bytes);
  if (!update.space().empty())
    experiment.space = update.space().size() <= limits_.space_bytes ? update.space() : std::string();
  if (!update.rungs().empty()) keep_rungs(update, experiment.rungs);
  if (update.trials_total() > 0) experiment.trials_total = update.trials_total();
  if (update.trials_planned() > 0) experiment.trials_planned = update.trials_planned();
  if (update.has_best()) keep_best(update.best(), experiment.best);
  if (update.has_best_so_far()) keep_best(update.best_so_far(), experiment.best_so_far);
  experiment.left = update.has_left() && experiment.state == "running" ? std::optional(update.left()) : std::nullopt;
  for (const protocol::TrialRow& changed : update.trials()) {
    if (changed.trial_id().empty() || changed.trial_id().size() > limits_.name_bytes) continue;
    const auto known = experiment.trials.find(changed.trial_id());
    if (known == experiment.trials.end() && experiment.trials.size() >= limits_.trials) {
      experiment.has_left_out = true;
      continue;
    }
    if (known != experiment.trials.end()) --experiment.by_status[known->second.status()];
    protocol::TrialRow& row = experiment.trials[changed.trial_id()];
    forget_actor(experiment, row);
    row = changed;
    index_actor(experiment, row);
    protocol::release_points(row);
    for (std::string* text : {row.mutable_config_json(), row.mutable_error(), row.mutable_reason()})
      cut(*text, limits_.trial_bytes);
    for (std::string* text : {row.mutable_status(), row.mutable_node_name(), row.mutable_name()})
      cut(*text, limits_.name_bytes);
    if (row.metrics().size() > kMetricsMax) row.clear_metrics();
    if (row.tags_size() > kTagsMax) row.mutable_tags()->DeleteSubrange(kTagsMax, row.tags_size() - kTagsMax);
    for (std::string& tag : *row.mutable_tags()) cut(tag, limits_.name_bytes);
    ++experiment.by_status[row.status()];
  }
  std::erase_if(experiment.by_status, [](const auto& entry) { return entry.second == 0; });
  return true;
}

bool ExperimentTable::restore(DriverId driver, const std::string& machine_id, const protocol::ExperimentUpdate& part,
                              uint64_t rank) {
  const auto known = experiments_.find(part.experiment());
  const bool is_new = known == experiments_.end();
  if (is_new && experiments_.size() >= limits_.experiments) return false;
  if (!is_new && (known->second.driver != driver || known->second.updated != rank)) return false;
  if (part.experiment().empty() || part.experiment().size() > limits_.name_bytes) return false;
  update(driver, part, machine_id);
  experiments_.at(part.experiment()).updated = rank;
  return true;
}

std::vector<std::string> ExperimentTable::on_driver_gone(DriverId driver) {
  std::vector<std::string> interrupted;
  for (auto& [name, experiment] : experiments_) {
    if (experiment.driver != driver || !experiment.is_open()) continue;
    experiment.state = "crashed";
    experiment.left.reset();
    if (!experiment.has_left_out)
      experiment.trials_total = static_cast<int64_t>(experiment.trials.size());  // No more follow.
    interrupted.push_back(name);
  }
  return interrupted;
}

std::vector<ExperimentTable::FoundTrial> ExperimentTable::find_trials(std::string_view text, Match match) const {
  std::vector<FoundTrial> found;
  for (const auto& [name, experiment] : experiments_) {
    if (match == Match::kWhole) {
      for (const protocol::TrialRow* row : whole_matches(experiment, text)) found.push_back({&experiment, row});
    } else {
      for (const protocol::TrialRow* row : starting_with(experiment, text)) found.push_back({&experiment, row});
    }
  }
  return found;
}

const protocol::TrialRow* ExperimentTable::trial_of(ActorId actor, const Experiment** of) const {
  const auto found = actors_.find(raw(actor));
  if (found == actors_.end()) return nullptr;
  const auto experiment = experiments_.find(found->second.first);
  if (experiment == experiments_.end()) return nullptr;
  const auto row = experiment->second.trials.find(found->second.second);
  if (row == experiment->second.trials.end()) return nullptr;
  *of = &experiment->second;
  return &row->second;
}

// A reused actor maps to the trial that has not ended.
void ExperimentTable::index_actor(const Experiment& experiment, const protocol::TrialRow& row) {
  if (row.actor_id().empty() || (has_ended(row) && actors_.contains(row.actor_id()))) return;
  actors_[row.actor_id()] = {experiment.name, row.trial_id()};
}

void ExperimentTable::forget_actor(const Experiment& experiment, const protocol::TrialRow& row) {
  const auto found = actors_.find(row.actor_id());
  const bool is_its =
      found != actors_.end() && found->second.first == experiment.name && found->second.second == row.trial_id();
  if (is_its) actors_.erase(found);
}

void ExperimentTable::forget_actors(const Experiment& experiment) {
  for (const auto& [id, row] : experiment.trials) forget_actor(experiment, row);
}

Result<const protocol::TrialRow*> ExperimentTable::resolve_trial(const Experiment& experiment, std::string_view text) {
  auto found = whole_matches(experiment, text);
  if (found.empty()) found = starting_with(experiment, text);
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("experiment \"{}\" has no trial \"{}\"; volador list trials {} shows them",
                                  experiment.name, text, experiment.name));
  }
  std::vector<std::string> ids;
  for (const protocol::TrialRow* row : found) ids.push_back(row->trial_id());
  return make_error(ErrorCode::kNotFound,
                    fmt::format("\"{}\": {} trials of experiment \"{}\" match: {}; give more of the id", text,
                                found.size(), experiment.name, listed(ids)));
}

Result<const Experiment*> ExperimentTable::resolve(std::string_view name) const {
  std::vector<std::string_view> starting;
  for (auto at = experiments_.lower_bound(std::string(name));
       !name.empty() && at != experiments_.end() && at->first.starts_with(name); ++at) {
    starting.push_back(at->first);
  }
  if (starting.empty()) return make_error(ErrorCode::kNotFound, unknown(name));
  if (const auto named = named_run(starting, name)) return &experiments_.find(std::string(starting[*named]))->second;
  return make_error(ErrorCode::kNotFound,
                    fmt::format("\"{}\": {} experiments start so: {}; give more of the name", name, starting.size(),
                                listed({starting.begin(), starting.end()})));
}

Result<const Experiment*> ExperimentTable::resolve_open(std::string_view name) const {
  std::vector<const Experiment*> open, ended;
  for (auto at = experiments_.lower_bound(std::string(name)); at != experiments_.end() && at->first.starts_with(name);
       ++at) {
    const Experiment& one = at->second;
    if (one.name == name && one.is_open()) return &one;
    (one.is_open() ? open : ended).push_back(&one);
  }
  if (open.size() == 1 && !name.empty()) return open.front();
  if (open.size() > 1) {  // An operation that stops or changes a run never guesses.
    std::vector<std::string> names;
    for (const Experiment* one : open) names.push_back(one->name);
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{} experiments that run start with \"{}\": {}; give more of the name", open.size(),
                                  name, listed(names)));
  }
  if (!ended.empty() && !name.empty())
    return make_error(ErrorCode::kNotFound, fmt::format("experiment \"{}\" has ended ({}); nothing of it runs",
                                                        ended.back()->name, ended.back()->state));
  return make_error(ErrorCode::kNotFound, unknown(name));
}

Result<std::string> ExperimentTable::resolve_open_trial(const Experiment& experiment, std::string_view id) {
  const auto found = resolve_trial(experiment, id);
  if (!found) return make_error(found.error());
  if (has_ended(**found))
    return make_error(ErrorCode::kNotFound, fmt::format("trial {} has ended ({}); nothing of it runs",
                                                        (*found)->trial_id(), (*found)->status()));
  return (*found)->trial_id();
}

void ExperimentTable::check_invariants() const {
  VOLADOR_CHECK(experiments_.size() <= limits_.experiments, fmt::format("{}", experiments_.size()));
  size_t named = 0;
  for (const auto& [name, experiment] : experiments_) {
    VOLADOR_CHECK(experiment.trials.size() <= limits_.trials, name);
    int64_t rows = 0;
    for (const auto& [status, count] : experiment.by_status) rows += count;
    VOLADOR_CHECK(rows == static_cast<int64_t>(experiment.trials.size()), name);
    named += experiment.trials.size();
  }
  VOLADOR_CHECK(actors_.size() <= named, fmt::format("{} actors of {} trials", actors_.size(), named));
  for (const auto& [actor, trial] : actors_) {
    VOLADOR_CHECK(experiments_.at(trial.first).trials.at(trial.second).actor_id() == actor, trial.second);
  }
}

}  // namespace volador::head
