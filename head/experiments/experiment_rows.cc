#include "head/experiments/experiment_rows.h"

#include "runtime/language/reason.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::head {

namespace {

void fill_best(const protocol::BestTrial& best, v1::BestTrial& out) {
  out.set_trial(best.trial());
  out.set_name(best.name());
  out.set_value(best.value());
  out.set_step(best.step());
  out.set_config_json(best.config_json());
}

}  // namespace

void fill_experiment_row(const Experiment& experiment, v1::Experiment& out) {
  out.set_name(experiment.name);
  out.set_state(experiment.state);
  out.set_metric(experiment.metric);
  out.set_mode(experiment.mode);
  out.set_directory(experiment.directory);
  out.set_trials_total(experiment.trials_total);
  out.set_trials_planned(experiment.trials_planned);
  if (!experiment.best.trial().empty()) fill_best(experiment.best, *out.mutable_best());
  if (!experiment.best_so_far.trial().empty()) fill_best(experiment.best_so_far, *out.mutable_best_so_far());
  if (experiment.left) {
    v1::TimeLeft& left = *out.mutable_left();
    left.set_seconds(experiment.left->seconds());
    left.set_low(experiment.left->low());
    left.set_high(experiment.left->high());
    left.set_number(experiment.updated);
  }
  out.set_scheduler(experiment.scheduler);
  for (const protocol::SchedulerRung& rung : experiment.rungs) {
    v1::SchedulerRung& one = *out.add_rungs();
    one.set_bracket(rung.bracket());
    one.set_milestone(rung.milestone());
    one.set_trials(rung.trials());
    one.set_passed(rung.passed());
    one.set_cutoff(rung.cutoff());
    one.set_state(rung.state());
    one.set_awaited(rung.awaited());
    for (const auto& member : rung.members()) {
      v1::SchedulerRung::Member& of = *one.add_members();
      of.set_trial(member.trial());
      of.set_value(member.value());
      of.set_act(member.act());
    }
  }
  for (const auto& [status, count] : experiment.by_status) (*out.mutable_trials_by_status())[status] = count;
  out.set_machine_id(experiment.machine_id);
  out.set_driver_id(to_string(experiment.driver));
}

void fill_experiment(const Experiment& experiment, const ExperimentNotes& notes, v1::Experiment& out) {
  fill_experiment_row(experiment, out);
  const protocol::ExperimentNoteRecord* note = notes.find(experiment.name, experiment.directory);
  if (note == nullptr) return;
  *out.mutable_tags() = note->tags();
  out.set_note(note->note());
  out.set_archived(note->archived());
}

void fill_trial_row(const std::string& experiment, const protocol::TrialRow& trial, v1::Trial& out) {
  out.set_id(trial.trial_id());
  out.set_experiment(experiment);
  out.set_status(trial.status());
  if (!trial.actor_id().empty()) out.set_actor(to_string(id_from_raw<ActorId>(trial.actor_id())));
  out.set_node(trial.node_name());
  out.set_step(trial.step());
  out.set_config_json(trial.config_json());
  *out.mutable_metrics() = trial.metrics();
  out.set_error(trial.error());
  if (Reason::from_json(trial.error_why())) out.set_error_why(trial.error_why());
  set_reason(out, reason_of(trial));
  out.set_started_ms(trial.started_ms());
  out.set_ended_ms(trial.ended_ms());
  out.set_name(trial.name());
  *out.mutable_tags() = trial.tags();
  out.set_cloned_from(trial.cloned_from());
}

void fill_point(const protocol::TrialPoint& point, v1::TrialPoint& out) {
  out.set_step(point.step());
  out.set_time_s(point.time_s());
  *out.mutable_metrics() = point.metrics();
}

}  // namespace volador::head
