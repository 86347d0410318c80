#include "volador/roles/experiment_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>

#include "experiments/core/trial_job.h"
#include "runtime/ids.h"

namespace volador {
namespace {

constexpr size_t kRunNameBytesMax = 80;  // For the experiment's own name.
constexpr std::string_view kTrialRow = "trial-";
constexpr std::string_view kValidationGroup = "validation";

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::string run_state_of(const v1::ExperimentInfo& experiment) {
  const std::string& state = experiment.state();
  if (state == "PAUSED") return "paused";
  if (state == "COMPLETED") return "finished";
  if (state == "CANCELED") return "interrupted";
  if (state == "ERROR") return "failed";
  if (state == "DELETING" || state == "DELETE_FAILED" || state == "DELETED") return "";  // As it ended.
  return "running";
}

std::string trial_status_of(const v1::TrialInfo& trial, const TrialPlace* place) {
  const std::string& state = trial.state();
  if (state == "COMPLETED") return "finished";
  if (state == "CANCELED") return "stopped";
  if (state == "ERROR") return "failed";
  const bool runs = place != nullptr && place->job_state == "running";
  if (state == "PAUSED") return runs ? "running" : "paused";
  if (runs) return trial.started_ms() == 0 ? "starting" : "running";
  return "waiting";
}

bool has_ended(const v1::TrialInfo& trial) {
  return trial.state() == "COMPLETED" || trial.state() == "CANCELED" || trial.state() == "ERROR";
}

}  // namespace

std::string run_name_of(const v1::ExperimentInfo& experiment) {
  if (!experiment.run().empty()) return experiment.run();
  std::string name;
  for (const char c : experiment.name().substr(0, kRunNameBytesMax)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_kept = std::isalnum(byte) != 0 || c == '.' || c == '_' || c == '-';
    if (is_kept) {
      name += c;
    } else if (name.empty() || name.back() != '_') {
      name += '_';
    }
  }
  if (name.empty() || std::isalnum(static_cast<unsigned char>(name.front())) == 0) name.insert(0, "experiment");
  return fmt::format("{}-{}", name, experiment.id());
}

std::optional<int64_t> experiment_of_run(std::string_view run) {
  const size_t dash = run.rfind('-');
  return dash == std::string_view::npos ? std::nullopt : whole_number(run.substr(dash + 1));
}

std::string trial_row_id(int64_t trial) { return fmt::format("{}{}", kTrialRow, trial); }

std::optional<int64_t> trial_of_row(std::string_view id) {
  return id.starts_with(kTrialRow) ? whole_number(id.substr(kTrialRow.size())) : std::nullopt;
}

std::optional<TrialRun> trial_run_of(std::string_view text) {
  const auto parsed = experiments::parse_trial_text(text);
  if (!parsed || parsed->is_garbage) return std::nullopt;
  return TrialRun{.trial = parsed->id, .run = parsed->run};
}

TrialPlace place_of(const v1::Job& job, int64_t run) {
  TrialPlace place{.run = run, .job_state = job.state(), .node = {}, .actor = {}};
  for (const v1::JobRank& rank : job.ranks()) {
    if (rank.rank() != 0) continue;
    place.node = rank.node();
    if (const auto actor = parse_id<ActorId>(rank.actor())) place.actor = raw(*actor);
  }
  return place;
}

protocol::ExperimentUpdate experiment_update(const v1::ExperimentInfo& experiment, int64_t trials_planned) {
  protocol::ExperimentUpdate update;
  update.set_experiment(run_name_of(experiment));
  update.set_state(run_state_of(experiment));
  update.set_metric(experiment.metric());
  update.set_mode(experiment.smaller_is_better() ? "min" : "max");
  update.set_scheduler(experiment.searcher());
  update.set_trials_total(experiment.trials());
  update.set_trials_planned(trials_planned);
  for (const std::string& label : experiment.labels()) update.add_tags(label);
  return update;
}

void fill(protocol::ExperimentUpdate& update, const experiments::SearchOutlook& outlook) {
  for (const experiments::SearchOutlook::Rung& rung : outlook.rungs) {
    protocol::SchedulerRung& shown = *update.add_rungs();
    shown.set_bracket(rung.bracket);
    shown.set_milestone(static_cast<double>(rung.length));
    shown.set_trials(rung.trials);
    shown.set_passed(rung.passed);
    shown.set_awaited(rung.awaited);
    shown.set_cutoff(rung.cutoff);
    shown.set_state("open");
    for (const experiments::SearchOutlook::Member& member : rung.members) {
      protocol::SchedulerRung::Member& one = *shown.add_members();
      one.set_trial(trial_row_id(member.trial));
      one.set_value(member.value);
      one.set_act(member.act);
    }
  }
  if (!outlook.left) return;
  update.mutable_left()->set_seconds(outlook.left->seconds);
  update.mutable_left()->set_low(outlook.left->low);
  update.mutable_left()->set_high(outlook.left->high);
}

protocol::BestTrial best_trial(const v1::TrialInfo& trial, double metric) {
  protocol::BestTrial best;
  best.set_trial(trial_row_id(trial.id()));
  best.set_value(metric);
  best.set_step(trial.batches());
  best.set_config_json(trial.hparams());
  return best;
}

protocol::TrialRow trial_row(const v1::TrialInfo& trial, const TrialPlace* place) {
  protocol::TrialRow row;
  row.set_trial_id(trial_row_id(trial.id()));
  row.set_status(trial_status_of(trial, place));
  row.set_step(trial.batches());
  row.set_config_json(trial.hparams());
  const auto metrics = nlohmann::json::parse(trial.metrics(), nullptr, false);
  if (metrics.is_object()) {
    for (const auto& [name, value] : metrics.items()) {
      if (value.is_number()) (*row.mutable_metrics())[name] = value.get<double>();
    }
  }
  if (place != nullptr) {
    row.set_actor_id(place->actor);
    row.set_node_name(place->node);
  }
  if (trial.state() == "ERROR") {
    row.set_error(trial.reason());
    row.set_error_why(trial.why());
  } else {
    row.set_reason(trial.reason());
    row.set_why(trial.why());
  }
  row.set_started_ms(trial.started_ms());
  row.set_ended_ms(has_ended(trial) ? trial.ended_ms() : 0);
  return row;
}

int64_t planned_trials(std::string_view config_json) {
  const auto config = nlohmann::json::parse(config_json, nullptr, false);
  if (!config.is_object() || !config.contains("searcher") || !config["searcher"].is_object()) return 0;
  const auto& searcher = config["searcher"];
  if (searcher.value("name", nlohmann::json()) == "single") return 1;
  const auto trials = searcher.find("max_trials");
  return trials != searcher.end() && trials->is_number_integer() ? trials->get<int64_t>() : 0;
}

void TrialPoints::add(const experiments::MetricReport& report, int64_t trial_started_ms) {
  if (report.batches <= 0) return;
  const bool validates = report.group == kValidationGroup;
  if (points_.empty() || points_.back().step() < report.batches) {
    points_.emplace_back().set_step(report.batches);
    is_whole_ = false;
  }
  if (points_.back().step() != report.batches) return;  // The run goes on from an earlier checkpoint.
  protocol::TrialPoint& point = points_.back();
  point.set_time_s(static_cast<double>(std::max<int64_t>(report.time_ms - trial_started_ms, 0)) / 1000);
  for (const auto& [name, value] : report.values)
    (*point.mutable_metrics())[validates ? name : fmt::format("{}_{}", report.group, name)] = value;
  is_whole_ |= validates;
}

std::vector<protocol::TrialPoint> TrialPoints::take(bool all) {
  std::vector<protocol::TrialPoint> out;
  const size_t ready = points_.size() - (all || is_whole_ || points_.empty() ? 0 : 1);
  for (size_t at = 0; at < ready; ++at) out.push_back(std::move(points_[at]));
  points_.erase(points_.begin(), points_.begin() + static_cast<std::ptrdiff_t>(ready));
  return out;
}

}  // namespace volador
