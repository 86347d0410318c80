#include "dashboard/study_text.h"

#include <map>

#include "dashboard/json_text.h"
#include "runtime/protocol/volador/v1/studies.pb.h"

namespace volador::dashboard {
namespace {

void append_trials(std::string& out, const google::protobuf::RepeatedPtrField<v1::StudyTrial>& trials) {
  out += '[';
  for (const v1::StudyTrial& trial : trials) out += (out.back() == '[' ? "" : ",") + study_trial_text(trial);
  out += ']';
}

}  // namespace

std::string study_trial_text(const v1::StudyTrial& trial) {
  std::string text;
  JsonObject row(text);
  row.integer("number", trial.number());
  row.text("state", trial.state());
  row.raw("config", trial.config_json());
  std::string& values = row.value_of("values");
  values += '[';
  for (const double value : trial.values()) {
    if (values.back() != '[') values += ',';
    append_json_number(values, value);
  }
  values += ']';
  row.integer("step", trial.step());
  if (trial.step() > 0) {
    row.number("reported", trial.reported());
  } else {
    row.raw("reported", "null");
  }
  row.integer("attempt", trial.attempt());
  row.text("worker", trial.worker());
  row.text("reason", trial.reason());
  if (!trial.why().empty()) row.raw("why", trial.why());
  row.integer("started_ms", trial.started_ms());
  row.integer("ended_ms", trial.ended_ms());
  row.integer("lease_ends_ms", trial.lease_ends_ms());
  row.end();
  return text;
}

std::string study_text(const v1::Study& study) {
  std::string text;
  JsonObject row(text);
  row.text("name", study.name());
  row.raw("space", study.space_json());
  row.text("searcher", study.searcher());
  row.text("scheduler", study.scheduler());
  row.text("about", study.about());
  std::string& objectives = row.value_of("objectives");
  objectives += '[';
  for (const v1::StudyObjective& one : study.objectives()) {
    if (objectives.back() != '[') objectives += ',';
    JsonObject objective(objectives);
    objective.text("metric", one.metric());
    objective.text("mode", one.mode());
    objective.end();
  }
  objectives += ']';
  row.raw("seed", std::to_string(study.seed()));
  row.integer("max_trials", study.max_trials());
  row.integer("lease_s", study.lease_s());
  row.integer("max_retries", study.max_retries());
  row.integer("created_ms", study.created_ms());
  row.integer("trials_total", study.trials_total());
  JsonObject states(row.value_of("trials_by_state"));
  for (const auto& [state, count] :
       std::map<std::string, int64_t>(study.trials_by_state().begin(), study.trials_by_state().end()))
    states.integer(state, count);
  states.end();
  append_trials(row.value_of("best"), study.best());
  row.end();
  return text;
}

std::string ask_text(const v1::AskReply& reply) {
  std::string text;
  JsonObject row(text);
  append_trials(row.value_of("trials"), reply.trials());
  row.boolean("done", reply.done());
  row.text("reason", reply.reason());
  if (!reply.why().empty()) row.raw("why", reply.why());
  row.integer("retry_after_ms", reply.retry_after_ms());
  row.end();
  return text;
}

std::string report_text(const v1::ReportReply& reply) {
  std::string text;
  JsonObject row(text);
  row.boolean("should_stop", reply.should_stop());
  row.text("decision", reply.decision());
  row.text("reason", reply.reason());
  if (!reply.why().empty()) row.raw("why", reply.why());
  row.integer("lease_ends_ms", reply.lease_ends_ms());
  row.end();
  return text;
}

}  // namespace volador::dashboard
