#include "experiments/core/experiment_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "experiments/core/experiment_table.h"

namespace volador::experiments {
namespace {

constexpr int kListDefault = 200, kListMost = 10'000;
constexpr int kCheckpointsDefault = 1000, kCheckpointsMost = 10'000;
constexpr int kDeleteMost = 10'000;

Result<ExperimentCommand> command_from(const std::string& text) {
  for (size_t i = 0; i < kExperimentCommands; ++i) {
    const auto command = static_cast<ExperimentCommand>(i);
    if (to_string(command) == text) return command;
  }
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("command: expected activate, pause, cancel, kill, archive, unarchive or delete, got \"{}\"", text));
}

bool matches(const v1::ExperimentInfo& shown, const v1::ListExperimentsRequest& request) {
  if (!request.states().empty() && std::ranges::find(request.states(), shown.state()) == request.states().end())
    return false;
  if (!request.name().empty() && shown.name().find(request.name()) == std::string::npos) return false;
  if (!request.label().empty() && std::ranges::find(shown.labels(), request.label()) == shown.labels().end())
    return false;
  if (!request.user().empty() && shown.user() != request.user()) return false;
  if (!request.workspace().empty() && shown.workspace() != request.workspace()) return false;
  if (!request.project().empty() && shown.project() != request.project()) return false;
  return request.archived() || !shown.archived();
}

}  // namespace

ExperimentCore::ExperimentCore(const ExperimentLimits& limits, Random& random, ConfigFile defaults)
    : impl_(std::make_unique<Impl>(limits, random, std::move(defaults))) {}
ExperimentCore::~ExperimentCore() = default;

void ExperimentCore::set_keeper(std::function<std::string(const std::string& checkpoint)> keeper) {
  impl_->context.keeper = std::move(keeper);
}

bool ExperimentCore::load(std::string_view table, std::string_view key, std::string_view value) {
  return impl_->load(table, key, value);
}
void ExperimentCore::start(int64_t now_ms) { impl_->start(now_ms); }
ExperimentActions ExperimentCore::take() { return impl_->take(); }
void ExperimentCore::check_invariants() const { impl_->check_invariants(); }

// ---- requests of users ----

Result<ExperimentCore::Checked> ExperimentCore::check(const v1::CreateExperimentRequest& request,
                                                      const ExperimentRequester& by, const SlotsView& view) const {
  auto plan = impl_->plan(request, by, view);
  if (!plan) return make_error(plan.error());
  return std::move(plan->checked);
}

Result<v1::PreviewSearchReply> ExperimentCore::preview(const v1::PreviewSearchRequest& request) const {
  return impl_->preview(request);
}

std::optional<v1::CreateExperimentReply> ExperimentCore::created(const v1::CreateExperimentRequest& request,
                                                                 const ExperimentRequester& by) const {
  if (request.request_id().empty() || request.validate_only()) return std::nullopt;
  for (const auto& [id, experiment] : impl_->experiments) {
    const protocol::ExperimentDefinition& definition = experiment->definition();
    if (definition.request_id() != request.request_id() || experiment->is_deleted()) continue;
    const v1::ExperimentInfo& shown = definition.info();
    if (by.user.empty() ? shown.user().empty() && shown.owner() == by.token_id : shown.user() == by.user) {
      v1::CreateExperimentReply reply;
      *reply.mutable_experiment() = experiment->info();
      return reply;
    }
  }
  return std::nullopt;
}

Result<v1::CreateExperimentReply> ExperimentCore::create(const v1::CreateExperimentRequest& request,
                                                         const ExperimentRequester& by,
                                                         const std::pair<std::string, std::string>& token,
                                                         const SlotsView& view, int64_t now_ms,
                                                         const std::string& katib) {
  if (auto earlier = created(request, by)) {
    if (!token.first.empty()) impl_->context.actions.revoke.push_back(token.first);
    return std::move(*earlier);
  }
  auto plan = impl_->plan(request, by, view);
  if (!plan) return make_error(plan.error());
  protocol::ExperimentDefinition definition = impl_->definition_of(*plan, request, by, token, now_ms);
  definition.mutable_info()->set_katib(katib);
  v1::CreateExperimentReply reply;
  for (const std::string& warning : plan->checked.warnings) reply.add_warnings(warning);
  if (request.validate_only()) {
    *reply.mutable_experiment() = definition.info();
    reply.mutable_experiment()->set_id(0);
    reply.mutable_experiment()->set_config(json_of(plan->checked.config, Secrets::kHidden));
    return reply;
  }
  const int64_t id = definition.id();
  auto made =
      std::make_unique<RunningExperiment>(impl_->context, std::move(definition), std::move(plan->checked.config));
  impl_->context.last_experiment = id;
  RunningExperiment& experiment = *(impl_->experiments[id] = std::move(made));
  VOLADOR_TRY(experiment.begin(name_of(by), now_ms));
  *reply.mutable_experiment() = experiment.info();
  return reply;
}

Result<v1::ExperimentInfo> ExperimentCore::get(int64_t id, const ExperimentRequester&) const {
  const auto found = impl_->experiment(id);
  if (!found) return make_error(found.error());
  return (*found)->info_with_config();
}

v1::ListExperimentsReply ExperimentCore::list(const v1::ListExperimentsRequest& request,
                                              const ExperimentRequester&) const {
  v1::ListExperimentsReply reply;
  const int limit = request.limit() <= 0 ? kListDefault : std::min(request.limit(), kListMost);
  int64_t total = 0;
  for (auto each = impl_->experiments.rbegin(); each != impl_->experiments.rend(); ++each) {
    if (each->second->is_deleted()) continue;
    v1::ExperimentInfo shown = each->second->info();
    if (!matches(shown, request)) continue;
    ++total;
    const bool is_before = request.before() == 0 || shown.id() < request.before();
    if (is_before && reply.experiments_size() < limit) *reply.add_experiments() = std::move(shown);
  }
  reply.set_total(total);
  return reply;
}

Result<v1::ExperimentInfo> ExperimentCore::change(const v1::ChangeExperimentRequest& request,
                                                  const ExperimentRequester& by, int64_t now_ms) {
  const auto found = impl_->experiment(request.id());
  if (!found) return make_error(found.error());
  const auto command = command_from(request.command());
  if (!command) return make_error(command.error());
  RunningExperiment& experiment = **found;
  VOLADOR_TRY(impl_->check_owner(experiment, by, fmt::format("{} experiment {}", request.command(), request.id())));
  if (*command == ExperimentCommand::kDelete) {
    VOLADOR_TRY(experiment.may_delete_all());
    for (const auto& [id, other] : impl_->experiments) {
      const std::string& from = other->definition().warm_start_checkpoint();
      if (other->is_over() || id == request.id() || from.empty() || experiment.checkpoint(from) == nullptr) continue;
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("delete: experiment {}, which is {}, starts its trials from checkpoint {} of "
                                    "experiment {}; wait until it has ended, or kill it",
                                    id, to_string(other->state()), from, request.id()));
    }
  }
  VOLADOR_TRY(experiment.command(*command, name_of(by), now_ms));
  return experiment.info();
}

Result<v1::ExperimentInfo> ExperimentCore::edit(const v1::EditExperimentRequest& request, const ExperimentRequester& by,
                                                int64_t now_ms) {
  const auto found = impl_->experiment(request.id());
  if (!found) return make_error(found.error());
  VOLADOR_TRY(impl_->check_owner(**found, by, fmt::format("edit experiment {}", request.id())));
  VOLADOR_TRY((*found)->edit(request, by, now_ms));
  return (*found)->info();
}

SearchOutlook ExperimentCore::outlook(int64_t experiment, int64_t now_ms) const {
  const auto found = impl_->experiment(experiment);
  return found ? (*found)->outlook(now_ms) : SearchOutlook();
}

Result<v1::TrialInfo> ExperimentCore::trial(int64_t id, const ExperimentRequester&) const {
  const auto found = impl_->experiment_of_trial(id);
  if (!found) return make_error(found.error());
  return (*found)->trial_info(id);
}

Result<v1::ListTrialInfosReply> ExperimentCore::trials(const v1::ListTrialInfosRequest& request,
                                                       const ExperimentRequester&) const {
  const auto found = impl_->experiment(request.experiment());
  if (!found) return make_error(found.error());
  return (*found)->trials(request);
}

Result<v1::TrialInfo> ExperimentCore::kill_trial(int64_t id, const ExperimentRequester& by, int64_t now_ms) {
  const auto found = impl_->experiment_of_trial(id);
  if (!found) return make_error(found.error());
  VOLADOR_TRY(impl_->check_owner(**found, by, fmt::format("kill trial {}", id)));
  VOLADOR_TRY((*found)->kill_trial(id, name_of(by), now_ms));
  return (*found)->trial_info(id);
}

Result<v1::CheckpointInfo> ExperimentCore::checkpoint(const std::string& id, const ExperimentRequester&) const {
  const auto found = impl_->experiment_of_checkpoint(id);
  if (!found) return make_error(found.error());
  return *found->first->checkpoint(found->second);
}

Result<v1::CheckpointInfo> ExperimentCore::checkpoint_to_keep(const std::string& id, const ExperimentRequester&) const {
  const auto found = impl_->experiment_of_checkpoint(id);
  if (!found) return make_error(found.error());
  const auto& [experiment, checkpoint] = *found;
  const v1::CheckpointInfo& saved = *experiment->checkpoint(checkpoint);
  if (saved.state() != "COMPLETED")
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("checkpoint {} is {}: expected one that is COMPLETED", checkpoint, saved.state()));
  const RunState state = experiment->state();
  if (state == RunState::kDeleting || state == RunState::kDeleteFailed)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("checkpoint {}: its experiment {} is {}: expected one that is not deleted",
                                  checkpoint, experiment->id(), to_string(state)));
  return saved;
}

Result<v1::ListCheckpointsReply> ExperimentCore::checkpoints(const v1::ListCheckpointsRequest& request,
                                                             const ExperimentRequester&) const {
  if ((request.experiment() == 0) == (request.trial() == 0))
    return make_error(ErrorCode::kInvalidArgument, "checkpoints: expected either an experiment or a trial");
  const auto found =
      request.experiment() != 0 ? impl_->experiment(request.experiment()) : impl_->experiment_of_trial(request.trial());
  if (!found) return make_error(found.error());
  std::vector<const protocol::CheckpointRecord*> shown;
  for (const auto& [id, record] : (*found)->checkpoints()) {
    if (request.trial() != 0 && record.info().trial() != request.trial()) continue;
    if (request.deleted() || record.info().state() != "DELETED") shown.push_back(&record);
  }
  std::ranges::sort(shown, std::greater<>(), [](const auto* record) { return record->number(); });
  v1::ListCheckpointsReply reply;
  reply.set_total(static_cast<int64_t>(shown.size()));
  const int limit = request.limit() <= 0 ? kCheckpointsDefault : std::min(request.limit(), kCheckpointsMost);
  for (size_t i = 0; i < std::min(shown.size(), static_cast<size_t>(limit)); ++i)
    *reply.add_checkpoints() = shown[i]->info();
  return reply;
}

Result<void> ExperimentCore::delete_checkpoints(const v1::DeleteCheckpointsRequest& request,
                                                const ExperimentRequester& by) {
  if (request.ids().empty() || request.ids_size() > kDeleteMost)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("ids: expected 1 to {}, got {}", kDeleteMost, request.ids_size()));
  std::map<RunningExperiment*, std::vector<std::string>> chosen;
  for (const std::string& id : request.ids()) {
    const auto found = impl_->experiment_of_checkpoint(id);
    if (!found) return make_error(found.error());
    const auto& [experiment, checkpoint] = *found;
    VOLADOR_TRY(impl_->check_owner(*experiment, by, fmt::format("delete checkpoint {}", checkpoint)));
    VOLADOR_TRY(experiment->may_delete(checkpoint));
    chosen[experiment].push_back(checkpoint);
  }
  for (const auto& [experiment, ids] : chosen) experiment->delete_checkpoints(ids);
  return {};
}

Result<std::optional<v1::GetSearcherEventsReply>> ExperimentCore::searcher_events(int64_t id,
                                                                                  const ExperimentRequester& by) const {
  const auto found = impl_->experiment(id);
  if (!found) return make_error(found.error());
  VOLADOR_TRY(impl_->check_owner(**found, by, fmt::format("read events of experiment {}", id)));
  if ((*found)->definition().info().searcher() != "custom")
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("experiment {}: searcher.name is {}: only a custom search has events", id,
                                  (*found)->definition().info().searcher()));
  return (*found)->searcher_events();
}

Result<void> ExperimentCore::searcher_operations(const v1::PostSearcherOperationsRequest& request,
                                                 const ExperimentRequester& by, int64_t now_ms) {
  const auto found = impl_->experiment(request.experiment());
  if (!found) return make_error(found.error());
  VOLADOR_TRY(impl_->check_owner(**found, by, fmt::format("answer events of experiment {}", request.experiment())));
  return (*found)->searcher_operations(request, now_ms);
}

// ---- requests of trials' processes ----

Result<v1::StartTrialRunReply> ExperimentCore::start_run(const v1::StartTrialRunRequest& request,
                                                         const ExperimentRequester& by, int64_t now_ms) {
  const auto found = impl_->process(request.trial(), request.run(), by);
  if (!found) return make_error(found.error());
  return (*found)->start_run(request, now_ms);
}

Result<std::optional<v1::GetTrialOperationReply>> ExperimentCore::operation(int64_t trial, int64_t run,
                                                                            const ExperimentRequester& by) const {
  const auto found = impl_->process(trial, run, by);
  if (!found) return make_error(found.error());
  return (*found)->operation(trial);
}

Result<void> ExperimentCore::complete(const v1::CompleteTrialOperationRequest& request, const ExperimentRequester& by,
                                      int64_t now_ms) {
  const auto found = impl_->process(request.trial(), request.run(), by);
  if (!found) return make_error(found.error());
  return (*found)->complete(request, now_ms);
}

Result<v1::ReportMetricsReply> ExperimentCore::report_metrics(const v1::ReportMetricsRequest& request,
                                                              const ExperimentRequester& by, int64_t now_ms) {
  const auto found = impl_->process(request.trial(), request.run(), by);
  if (!found) return make_error(found.error());
  return (*found)->report_metrics(request, now_ms);
}

Result<void> ExperimentCore::report_progress(const v1::ReportProgressRequest& request, const ExperimentRequester& by,
                                             int64_t now_ms) {
  const auto found = impl_->process(request.trial(), request.run(), by);
  if (!found) return make_error(found.error());
  return (*found)->report_progress(request, now_ms);
}

Result<void> ExperimentCore::report_exit(const v1::ReportTrialExitRequest& request, const ExperimentRequester& by,
                                         int64_t now_ms) {
  const auto found = impl_->process(request.trial(), request.run(), by);
  if (!found) return make_error(found.error());
  return (*found)->report_exit(request, now_ms);
}

Result<void> ExperimentCore::report_checkpoint(const v1::ReportCheckpointRequest& request,
                                               const ExperimentRequester& by, int64_t now_ms) {
  const auto found = impl_->process(request.trial(), request.run(), by);
  if (!found) return make_error(found.error());
  return (*found)->report_checkpoint(request, now_ms);
}

Result<bool> ExperimentCore::should_preempt(int64_t trial, int64_t run, const ExperimentRequester& by) const {
  const auto found = impl_->process(trial, run, by);
  if (!found) return make_error(found.error());
  return (*found)->should_preempt(trial);
}

// Its job ends next, which says the same.
Result<void> ExperimentCore::acknowledge_preemption(int64_t trial, int64_t run, const ExperimentRequester& by,
                                                    int64_t) {
  const auto found = impl_->process(trial, run, by);
  if (!found) return make_error(found.error());
  return {};
}

// ---- deletion of checkpoints ----

Result<v1::GetGarbageReply> ExperimentCore::garbage(int64_t id, const ExperimentRequester& by) const {
  const auto found = impl_->experiment(id);
  if (!found) return make_error(found.error());
  VOLADOR_TRY(impl_->check_process(**found, by));
  return (*found)->garbage();
}

Result<void> ExperimentCore::garbage_collected(const v1::ReportGarbageRequest& request, const ExperimentRequester& by,
                                               int64_t now_ms) {
  const auto found = impl_->experiment(request.experiment());
  if (!found) return make_error(found.error());
  VOLADOR_TRY(impl_->check_process(**found, by));
  (*found)->garbage_collected(request, now_ms);
  return {};
}

Result<TrialJob> ExperimentCore::garbage_job(int64_t id, const std::pair<std::string, std::string>& token) {
  const auto found = impl_->experiment(id);
  if (!found) return make_error(found.error());
  if (!(*found)->has_garbage())
    return make_error(ErrorCode::kInvalidArgument, fmt::format("experiment {} has nothing to delete", id));
  return (*found)->garbage_job(token);
}

void ExperimentCore::on_garbage_job_failed(int64_t id, const std::string& why, int64_t now_ms) {
  if (const auto found = impl_->experiment(id)) (*found)->garbage_failed(why, now_ms);
}

// ---- events ----

void ExperimentCore::on_job(const v1::Job& job, int64_t now_ms) {
  const auto of = parse_trial_text(job.spec().trial());
  if (!of) return;
  if (of->is_garbage) {
    if (const auto found = impl_->experiment(of->id)) (*found)->on_garbage_job(of->run, job, now_ms);
    return;
  }
  impl_->with_trial(of->id, [&](RunningExperiment& one) { one.on_job(of->id, of->run, job, now_ms); });
}

void ExperimentCore::on_refused(int64_t trial, int64_t run, const Error& error, int64_t now_ms) {
  impl_->with_trial(trial, [&](RunningExperiment& one) { one.on_refused(trial, run, error, now_ms); });
}

void ExperimentCore::on_job_gone(int64_t trial, int64_t run, int64_t now_ms) {
  impl_->with_trial(trial, [&](RunningExperiment& one) { one.on_job_gone(trial, run, now_ms); });
}

std::vector<ExperimentCore::OpenJob> ExperimentCore::open_jobs() const {
  std::vector<OpenJob> jobs;
  for (const auto& [id, experiment] : impl_->experiments)
    std::ranges::move(experiment->open_jobs(), std::back_inserter(jobs));
  return jobs;
}

void ExperimentCore::on_tick(int64_t now_ms) {
  for (const auto& [id, experiment] : impl_->experiments) {
    if (!experiment->is_over()) experiment->on_tick(now_ms);
  }
}

std::optional<int64_t> ExperimentCore::deadline_ms() const {
  std::optional<int64_t> first;
  for (const auto& [id, experiment] : impl_->experiments) {
    if (experiment->is_over()) continue;
    if (const auto at = experiment->deadline_ms()) first = std::min(first.value_or(*at), *at);
  }
  return first;
}

bool ExperimentCore::needs_files(const std::string& sha256) const {
  return std::ranges::any_of(impl_->experiments, [&](const auto& one) {
    return !one.second->is_deleted() && one.second->definition().info().files_sha256() == sha256;
  });
}

std::optional<int64_t> ExperimentCore::experiment_of(int64_t trial) const {
  const auto found = impl_->context.experiment_of.find(trial);
  return found == impl_->context.experiment_of.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace volador::experiments
