#include "runtime/actor/experiment_update.h"

namespace volador {

namespace {

void fill(const BestReport& best, protocol::BestTrial& out) {
  out.set_trial(best.trial);
  out.set_name(best.name);
  out.set_value(best.value);
  out.set_step(best.step);
  out.set_config_json(best.config_json);
}

}  // namespace

protocol::ExperimentUpdate to_update(const ExperimentReport& report) {
  protocol::ExperimentUpdate update;
  update.set_experiment(report.experiment);
  update.set_state(report.state);
  update.set_metric(report.metric);
  update.set_mode(report.mode);
  update.set_directory(report.directory);
  update.set_trials_total(report.trials_total);
  update.set_scheduler(report.scheduler);
  update.set_space(report.space);
  update.set_trials_planned(report.trials_planned);
  if (report.best) fill(*report.best, *update.mutable_best());
  if (report.best_so_far) fill(*report.best_so_far, *update.mutable_best_so_far());
  if (report.left) {
    update.mutable_left()->set_seconds(report.left->seconds);
    update.mutable_left()->set_low(report.left->low);
    update.mutable_left()->set_high(report.left->high);
  }
  for (const std::string& tag : report.tags) update.add_tags(tag);
  for (const RungReport& rung : report.rungs) {
    auto& one = *update.add_rungs();
    one.set_bracket(rung.bracket);
    one.set_milestone(rung.milestone);
    one.set_trials(rung.trials);
    one.set_passed(rung.passed);
    one.set_cutoff(rung.cutoff);
    one.set_state(rung.state);
    one.set_awaited(rung.awaited);
    for (const RungReport::Member& member : rung.members) {
      auto& of = *one.add_members();
      of.set_trial(member.trial);
      of.set_value(member.value);
      of.set_act(member.act);
    }
  }
  for (const TrialReport& trial : report.trials) {
    auto& row = *update.add_trials();
    row.set_trial_id(trial.trial_id);
    row.set_status(trial.status);
    row.set_actor_id(raw(trial.actor));
    row.set_node_name(trial.node_name);
    row.set_step(trial.step);
    row.set_config_json(trial.config_json);
    for (const auto& [name, value] : trial.metrics) (*row.mutable_metrics())[name] = value;
    row.set_error(trial.error.text());
    row.set_error_why(trial.error.to_json());
    set_reason(row, trial.reason);
    row.set_started_ms(trial.started_ms);
    row.set_ended_ms(trial.ended_ms);
    row.set_name(trial.name);
    for (const std::string& tag : trial.tags) row.add_tags(tag);
    row.set_cloned_from(trial.cloned_from);
    for (const TrialPoint& point : trial.points) {
      auto& one = *row.add_points();
      one.set_step(point.step);
      one.set_time_s(point.time_s);
      for (const auto& [name, value] : point.metrics) (*one.mutable_metrics())[name] = value;
    }
  }
  return update;
}

}  // namespace volador
