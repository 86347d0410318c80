#include "cli/render/study_view.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/render/json_text.h"
#include "cli/render/table.h"
#include "runtime/protocol/volador/v1/studies.pb.h"
#include "tune/space/config.h"

namespace volador::cli {
namespace {

using Json = nlohmann::ordered_json;

Json parsed(const std::string& text) { return Json::parse(text, nullptr, false); }

std::string values_of(const v1::StudyTrial& trial) {
  std::string out;
  for (const double value : trial.values()) out += (out.empty() ? "" : " ") + tune::format_real(value);
  return out;
}

std::string config_of(const v1::StudyTrial& trial) {
  const auto config = tune::Config::from_json(trial.config_json());
  if (!config) return printable(trial.config_json());
  std::string out;
  for (const auto& [path, value] : config->flatten())
    out += fmt::format("{}{} {}", out.empty() ? "" : "  ", path, tune::to_text(value));
  return printable(out);
}

std::string objectives_of(const v1::Study& study) {
  std::string out;
  for (const v1::StudyObjective& one : study.objectives())
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", one.mode(), one.metric());
  return printable(out);
}

int64_t count_of(const v1::Study& study, const std::string& state) {
  const auto found = study.trials_by_state().find(state);
  return found == study.trials_by_state().end() ? 0 : found->second;
}

}  // namespace

Json study_trial_json(const v1::StudyTrial& trial) {
  Json values = Json::array();
  for (const double value : trial.values()) values.push_back(number(value));
  return {{"number", trial.number()},
          {"state", trial.state()},
          {"config", parsed(trial.config_json())},
          {"values", values},
          {"step", trial.step()},
          {"reported", trial.step() > 0 ? number(trial.reported()) : Json()},
          {"attempt", trial.attempt()},
          {"worker", trial.worker()},
          {"reason", trial.reason()},
          {"why", why_json(trial.why())},
          {"started_ms", trial.started_ms()},
          {"ended_ms", trial.ended_ms()},
          {"lease_ends_ms", trial.lease_ends_ms()}};
}

Json study_json(const v1::Study& study) {
  Json objectives = Json::array(), best = Json::array(), states = Json::object();
  for (const v1::StudyObjective& one : study.objectives())
    objectives.push_back({{"metric", one.metric()}, {"mode", one.mode()}});
  for (const v1::StudyTrial& one : study.best()) best.push_back(study_trial_json(one));
  for (const char* state : {"waiting", "running", "complete", "pruned", "fail"}) states[state] = count_of(study, state);
  return {{"name", study.name()},
          {"space", parsed(study.space_json())},
          {"searcher", study.searcher()},
          {"scheduler", study.scheduler()},
          {"objectives", objectives},
          {"seed", study.seed()},
          {"max_trials", study.max_trials()},
          {"lease_s", study.lease_s()},
          {"max_retries", study.max_retries()},
          {"created_ms", study.created_ms()},
          {"trials_total", study.trials_total()},
          {"trials_by_state", states},
          {"best", best}};
}

std::string study_trial_line(const v1::StudyTrial& trial) {
  return fmt::format("{} {}  {}", trial.number(), trial.state(), config_of(trial));
}

std::string studies_text(const v1::ListStudiesReply& reply, const Terminal& terminal) {
  if (reply.studies().empty()) return terminal.tr("no studies; volador study create makes one") + "\n";
  Table table({{.title = terminal.tr("study"), .width_max = 40, .width_min = 16, .cut = Cut::kMiddle},
               {.title = terminal.tr("searcher"), .rank = 2, .width_max = 30, .width_min = 8},
               {.title = terminal.tr("objective"), .width_max = 40, .width_min = 10},
               {.title = terminal.tr("trials"), .align = Align::kRight},
               {.title = terminal.tr("running"), .align = Align::kRight},
               {.title = terminal.tr("best"), .rank = 1}});
  for (const v1::Study& study : reply.studies()) {
    const std::string best = study.best().empty() ? "" : values_of(study.best(0)) + (study.best_size() > 1 ? " …" : "");
    table.add({study.name(), study.searcher(), objectives_of(study), std::to_string(study.trials_total()),
               std::to_string(count_of(study, "running")), best});
  }
  return fitted(table, terminal);
}

std::string study_text(const v1::Study& study, const v1::ListStudyTrialsReply& trials, const Terminal& terminal) {
  std::string counts;
  for (const auto& [state, word] : std::initializer_list<std::pair<const char*, const char*>>{{"running", "running"},
                                                                                              {"waiting", "waiting"},
                                                                                              {"complete", "complete"},
                                                                                              {"pruned", "pruned"},
                                                                                              {"fail", "failed"}})
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count_of(study, state), terminal.word(word));
  const std::string total =
      study.trials_total() == 1 ? terminal.tr("1 trial") : terminal.fill("{} trials", study.trials_total());
  std::string out =
      fmt::format("{} · {} · {} · {}: {}\n", study.name(), study.about(), objectives_of(study), total, counts);
  for (const v1::StudyTrial& best : study.best())
    out += fmt::format("{} {}  {}   {}\n", terminal.tr("best"), best.number(), values_of(best), config_of(best));
  if (trials.trials().empty()) return out;
  Table table({{terminal.tr("trial"), Align::kRight},
               {terminal.tr("state")},
               {terminal.tr("values"), Align::kRight},
               {terminal.tr("step"), Align::kRight},
               {terminal.tr("worker")},
               {terminal.tr("configuration")},
               {terminal.tr("why")}});
  for (const v1::StudyTrial& trial : trials.trials()) {
    table.add({std::to_string(trial.number()), terminal.word(trial.state()), values_of(trial),
               trial.step() > 0 ? std::to_string(trial.step()) : "", printable(trial.worker()), config_of(trial),
               printable(terminal.reason(trial.reason(), trial.why()))});
  }
  out += table.text();
  if (trials.total() > trials.trials_size())
    out += terminal.fill("… {} more; --limit shows them", trials.total() - trials.trials_size()) + "\n";
  return out;
}

}  // namespace volador::cli
