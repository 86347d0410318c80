#include "head/experiments/experiment_module.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <utility>

#include "head/experiments/experiment_rows.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/utf8.h"

namespace volador::head {
namespace {

constexpr int64_t kFailuresTold = 50;    // Failed trials per experiment that get their own event.
constexpr size_t kErrorBytesTold = 300;  // Limit for the first line of their errors.

constexpr std::string_view kFailed = "failed";

int64_t failed_trials(const Experiment& experiment) {
  const auto found = experiment.by_status.find(std::string(kFailed));
  return found == experiment.by_status.end() ? 0 : found->second;
}

// Rows of trials that newly failed with this update. They point into the update.
std::vector<const protocol::TrialRow*> newly_failed(const Experiment* before,
                                                    const protocol::ExperimentUpdate& update) {
  std::vector<const protocol::TrialRow*> found;
  for (const protocol::TrialRow& row : update.trials()) {
    if (row.status() != kFailed) continue;
    const bool had_failed = before != nullptr && before->trials.contains(row.trial_id()) &&
                            before->trials.at(row.trial_id()).status() == kFailed;
    if (!had_failed) found.push_back(&row);
  }
  return found;
}

}  // namespace

void ExperimentModule::on_update(DriverId driver, const protocol::ExperimentUpdate& update) {
  const auto before = experiments_.all().find(update.experiment());
  if (before != experiments_.all().end() && before->second.driver != driver)
    context_.changes.experiment_gone(update.experiment());
  const bool is_known = before != experiments_.all().end() && before->second.driver == driver;
  const std::string state_before = is_known ? before->second.state : std::string();
  const int64_t failed_before = is_known ? failed_trials(before->second) : 0;
  const std::vector<const protocol::TrialRow*> failing = newly_failed(is_known ? &before->second : nullptr, update);
  const Driver* const from = clients_.find(driver);
  if (!experiments_.update(driver, update, from == nullptr ? "" : from->machine_id)) {
    if (before == experiments_.all().end() && !std::exchange(said_full_, true)) {
      context_.event(
          log::Level::kWarn, "an experiment is not shown: the list is full and none of it has ended",
          {{"experiment", update.experiment()}, {"limit", std::to_string(context_.options.limits.experiments)}});
    }
    on_kept(driver, update.experiment(), update.number());
    return;
  }
  context_.changes.experiment(update.experiment());
  tag(update);
  for (const protocol::TrialRow& row : update.trials()) context_.changes.trial(update.experiment(), row);
  const auto known = experiments_.all().find(update.experiment());
  if (known == experiments_.all().end()) return;
  tell_failures(known->second.name, failing, failed_before);
  if (known->second.state != state_before) tell_state(known->second, state_before);
  keep(known->second, update);
}

void ExperimentModule::tell_state(const Experiment& experiment, const std::string& before) {
  const std::string& state = experiment.state;
  const std::string failed = std::to_string(failed_trials(experiment));
  if (state == "running" && before == "paused") {
    context_.event(log::Level::kInfo, "experiment resumed", {{"experiment", experiment.name}});
  } else if (state == "running") {
    const Driver* const driver = clients_.find(experiment.driver);
    context_.event(log::Level::kInfo, "experiment started",
                   {{"experiment", experiment.name},
                    {"driver", driver == nullptr ? "" : driver->name},
                    {"id", to_string(experiment.driver)}});
  } else if (state == "paused") {
    context_.event(log::Level::kInfo, "experiment paused", {{"experiment", experiment.name}});
  } else if (state == "finished") {
    const protocol::BestTrial& best = experiment.best;
    const std::string reached =
        best.trial().empty() ? std::string() : fmt::format("{} {:.4g}", experiment.metric, best.value());
    context_.event(log::Level::kInfo, "experiment finished",
                   {{"experiment", experiment.name}, {"best", reached}, {"trial", best.trial()}, {"failed", failed}},
                   {}, "experiment.finished");
  } else if (state == "interrupted") {
    context_.event(log::Level::kInfo, "experiment stopped before its end",
                   {{"experiment", experiment.name}, {"failed", failed}}, {}, "experiment.stopped");
  } else if (state == "failed") {
    context_.event(log::Level::kWarn, "experiment failed", {{"experiment", experiment.name}, {"failed", failed}}, {},
                   "experiment.failed");
  } else if (state == "crashed") {
    context_.event(log::Level::kWarn, "experiment crashed: its program has left",
                   {{"experiment", experiment.name}, {"failed", failed}}, {}, "experiment.crashed");
  }
}

void ExperimentModule::tell_failures(const std::string& experiment,
                                     const std::vector<const protocol::TrialRow*>& failing, int64_t before) {
  for (const protocol::TrialRow* row : failing) {
    if (before++ < kFailuresTold) {
      const std::string_view error = row->error();
      context_.event(log::Level::kWarn, "trial failed",
                     {{"experiment", experiment},
                      {"trial", row->trial_id()},
                      {"error", plain_text(error.substr(0, error.find('\n')), kErrorBytesTold)}});
    } else if (before == kFailuresTold + 1) {
      context_.event(log::Level::kWarn, "more trials of an experiment failed, they are not listed one by one",
                     {{"experiment", experiment}});
    }
  }
}

// Applies the program's tags unless the run has user notes. Tags beyond a limit are skipped.
void ExperimentModule::tag(const protocol::ExperimentUpdate& update) {
  const auto found = experiments_.all().find(update.experiment());
  if (update.tags().empty() || found == experiments_.all().end()) return;
  const std::string& directory = found->second.directory;
  if (experiment_notes_.find(found->first, directory) != nullptr) return;
  v1::AnnotateExperimentRequest request;
  *request.mutable_add_tags() = update.tags();
  const auto change = experiment_notes_.annotate(found->first, directory, request);
  if (!change)
    return context_.event(log::Level::kWarn, "experiment not tagged",
                          {{"experiment", found->first}, {"error", change.error().message}});
  if (change->journal) context_.journal(change->journal->table, change->journal->key, change->journal->value);
}

void ExperimentModule::keep(const Experiment& experiment, const protocol::ExperimentUpdate& update) {
  if (!context_.options.keep_experiments) return on_kept(experiment.driver, experiment.name, update.number());
  context_.actions.experiments.push_back({.experiment = experiment.name,
                                          .driver = experiment.driver,
                                          .machine_id = experiment.machine_id,
                                          .update = update.SerializeAsString(),
                                          .open = experiment.is_open(),
                                          .number = update.number()});
}

void ExperimentModule::on_kept(DriverId driver, const std::string& experiment, uint64_t number) {
  const Driver* const to = clients_.find(driver);
  if (number == 0 || to == nullptr || !to->session) return;
  protocol::HeadMessage message;
  message.mutable_kept()->set_experiment(experiment);
  message.mutable_kept()->set_number(number);
  context_.actions.to_clients.push_back({*to->session, std::move(message)});
}

void ExperimentModule::interrupt(DriverId driver) {
  for (const std::string& name : experiments_.on_driver_gone(driver)) {
    context_.changes.experiment(name);
    const Experiment& experiment = experiments_.all().at(name);
    tell_state(experiment, "running");
    protocol::ExperimentUpdate update;
    update.set_experiment(name);
    update.set_state(experiment.state);
    update.set_trials_total(experiment.trials_total);
    keep(experiment, update);
  }
}

void ExperimentModule::interrupt_orphaned() {
  std::set<DriverId> gone;
  for (const auto& [name, experiment] : experiments_.all()) {
    if (experiment.is_open() && clients_.find(experiment.driver) == nullptr) gone.insert(experiment.driver);
  }
  for (const DriverId driver : gone) interrupt(driver);
}

bool ExperimentModule::restore(DriverId driver, const std::string& machine_id, const protocol::ExperimentUpdate& part,
                               uint64_t rank) {
  if (!experiments_.restore(driver, machine_id, part, rank)) return false;
  context_.changes.experiment(part.experiment());
  for (const protocol::TrialRow& row : part.trials()) context_.changes.trial(part.experiment(), row);
  return true;
}

Result<void> ExperimentModule::check_added(const Experiment& experiment, const v1::ControlExperimentRequest& request,
                                           v1::ControlExperimentReply& reply) const {
  const auto refuse = [](std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); };
  std::string like;
  if (!request.trial().empty()) {
    const auto trial = ExperimentTable::resolve_trial(experiment, request.trial());
    if (!trial) return make_error(trial.error());
    reply.set_trial((*trial)->trial_id());
    like = (*trial)->config_json();
  } else if (request.config().empty()) {
    return refuse("config: expected a JSON object of parameters, or the trial to clone in trial; got neither");
  }
  if (request.config().size() > context_.options.limits.config_bytes)
    return refuse(fmt::format("config: it has {} bytes, at most {} are taken", request.config().size(),
                              context_.options.limits.config_bytes));
  return context_.options.check_config ? context_.options.check_config(experiment.space, like, request.config())
                                       : Result<void>();
}

Result<void> ExperimentModule::control(const v1::ControlExperimentRequest& request, v1::ControlExperimentReply& reply,
                                       std::string_view by) {
  if (const std::string& act = request.act(); act != "stop" && act != "pause" && act != "resume" && act != "add")
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("act: expected stop, pause, resume or add, got \"{}\"", act));
  const auto experiment = experiments_.resolve_open(request.experiment());
  if (!experiment) return make_error(experiment.error());
  const Experiment& one = **experiment;
  reply.set_experiment(one.name);
  const bool adds = request.act() == "add";
  if (adds) VOLADOR_TRY(check_added(one, request, reply));
  if (!adds && !request.trial().empty()) {
    const auto trial = ExperimentTable::resolve_open_trial(one, request.trial());
    if (!trial) return make_error(trial.error());
    reply.set_trial(*trial);
  }
  const Driver* const driver = clients_.find(one.driver);
  if (driver == nullptr || !driver->session)
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the program that runs experiment \"{}\" is not connected now; ask again", one.name));
  protocol::HeadMessage message;
  message.mutable_request()->set_experiment(one.name);
  message.mutable_request()->set_trial(reply.trial());
  message.mutable_request()->set_act(request.act());
  message.mutable_request()->set_config(adds && request.config().empty() ? "{}" : request.config());
  if (!request.request_id().empty())
    message.mutable_request()->set_request_id(fmt::format("{}/{}", by, request.request_id()));
  context_.send({.session = *driver->session}, std::move(message));
  context_.event(log::Level::kInfo, "asked of an experiment",
                 {{"experiment", one.name}, {"trial", reply.trial()}, {"act", request.act()}, {"by", std::string(by)}});
  return {};
}

Result<void> ExperimentModule::annotate(const v1::AnnotateExperimentRequest& request,
                                        v1::AnnotateExperimentReply& reply, std::string_view by) {
  const auto found = experiments_.all().find(request.experiment());
  if (found == experiments_.all().end()) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("this cluster knows no experiment \"{}\"; volador list trials shows those it knows",
                                  request.experiment()));
  }
  auto change = experiment_notes_.annotate(found->first, found->second.directory, request);
  if (!change) return make_error(change.error());
  if (change->journal) {
    context_.journal(change->journal->table, change->journal->key, change->journal->value);
    context_.event(log::Level::kInfo, "experiment annotated",
                   {{"experiment", found->first},
                    {"what", fmt::format("{}", fmt::join(change->in_words, ", "))},
                    {"by", std::string(by)}});
    context_.changes.experiment(found->first);
  }
  fill_experiment(found->second, experiment_notes_, *reply.mutable_experiment());
  return {};
}

}  // namespace volador::head
