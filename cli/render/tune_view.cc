#include "cli/render/tune_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/render/cluster_view.h"
#include "cli/render/json_text.h"
#include "cli/render/table.h"
#include "runtime/clock.h"
#include "runtime/language/text_width.h"
#include "runtime/quantities.h"
#include "tune/display/progress_table.h"
#include "tune/loop/best_trial.h"
#include "tune/results/experiment_directory.h"

namespace volador::cli {
namespace {

using Json = nlohmann::ordered_json;
using tune::Trial;

constexpr size_t kParametersMax = 8;  // Maximum columns of a table.
constexpr size_t kFrontMax = 20;      // Maximum trials of the front in text.

Json config_json(const tune::Config& config) { return Json::parse(config.to_json(), nullptr, false); }

std::string day_and_time(WallTime time) {
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char buffer[32];
  return std::string(buffer, std::strftime(buffer, sizeof buffer, "%Y-%m-%d %H:%M:%S", &parts));
}

std::string parameter_text(const tune::Config& config, const std::string& path) {
  const tune::Config* value = config.find(path);
  if (value == nullptr) return "";
  return value->kind() == tune::Config::Kind::kReal ? tune::format_value(value->real()) : printable(value->to_json());
}

// "24 trials: 6 running, 18 stopped".
std::string counts_text(const tune::TrialCounts& counts, const Terminal& terminal) {
  std::string text;
  for (int i = 0; i < tune::kTrialStatuses; ++i) {
    const auto status = static_cast<tune::TrialStatus>(i);
    if (counts[status] > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", counts[status], terminal.word(tune::to_string(status)));
  }
  return text;
}

tune::TrialCounts counts_of(const std::vector<Trial>& trials) {
  tune::TrialCounts counts;
  for (const Trial& trial : trials) ++counts.by_status[static_cast<size_t>(trial.status)];
  counts.known = static_cast<int64_t>(trials.size());
  return counts;
}

Json counts_json(const tune::TrialCounts& counts) {
  Json json = Json::object();
  for (int i = 0; i < tune::kTrialStatuses; ++i) {
    const auto status = static_cast<tune::TrialStatus>(i);
    if (counts[status] > 0) json[std::string(tune::to_string(status))] = counts[status];
  }
  return json;
}

// Best first, then those that never reported the metric, in their order.
std::vector<const Trial*> best_first(const tune::Analysis& analysis) {
  std::vector<const Trial*> order;
  try {
    order = analysis.ranking({});
  } catch (const Exception&) {
    // No metric, or only NaN.
  }
  const std::set<const Trial*> ranked(order.begin(), order.end());
  for (const Trial& trial : analysis.trials()) {
    if (!ranked.contains(&trial)) order.push_back(&trial);
  }
  return order;
}

std::optional<double> value_of(const Trial& trial, const std::string& metric) {
  const auto found = trial.metrics.find(metric);
  return found == trial.metrics.end() ? std::nullopt : std::optional(found->second.last);
}

Json trial_json(const Trial& trial, const std::string& metric) {
  Json json{{"trial_id", to_string(trial.id)},
            {"name", tune::name_of(trial)},
            {"folder", tune::folder_of(trial)},
            {"index", trial.index},
            {"tags", trial.tags},
            {"status", tune::to_string(trial.status)},
            {"steps", trial.step_max}};
  const auto value = value_of(trial, metric);
  json["value"] = value ? number(*value) : Json();
  json["config"] = config_json(trial.config);
  Json last = Json::object();
  for (const auto& [name, of] : trial.last_result) last[name] = number(of);
  json["last_result"] = std::move(last);
  json["checkpoints"] = trial.checkpoints.size();
  json["failures"] = trial.failures;
  json["reason"] = trial.reason.text();
  json["why"] = why_json(trial.reason.to_json());
  json["error"] = trial.error.text();
  json["cloned_from"] = trial.cloned_from ? Json(to_string(*trial.cloned_from)) : Json();
  return json;
}

Json decision_json(const tune::DecisionRecord& record) {
  Json json{{"trial_id", to_string(record.trial)},
            {"step", record.step},
            {"act", tune::to_string(record.act)},
            {"rule", record.rule}};
  json["bracket"] = record.bracket >= 0 ? Json(record.bracket) : Json();
  json["milestone"] = record.milestone > 0 ? Json(record.milestone) : Json();
  json["value"] = number(record.value);
  json["rank"] = record.rank > 0 ? Json(record.rank) : Json();
  json["of"] = record.of > 0 ? Json(record.of) : Json();
  json["pass"] = record.pass > 0 ? Json(record.pass) : Json();
  json["cutoff"] = number(record.cutoff);
  json["other"] = record.act == tune::Act::kCloned ? Json(to_string(record.other)) : Json();
  const Reason reason = reason_of(record);
  json["text"] = reason.text();
  json["why"] = why_json(reason.to_json());
  return json;
}

std::string trials_table(const tune::ExperimentState& state, const std::vector<const Trial*>& trials, size_t limit,
                         const Terminal& terminal) {
  std::vector<std::string> parameters = tune::varying_parameters(trials);
  if (parameters.size() > kParametersMax) parameters.resize(kParametersMax);
  const bool named = std::any_of(trials.begin(), trials.end(), [](const Trial* trial) { return !trial->name.empty(); });
  const bool tagged =
      std::any_of(trials.begin(), trials.end(), [](const Trial* trial) { return !trial->tags.empty(); });
  std::vector<Table::Column> columns{{.title = terminal.tr("trial")}};
  if (named) columns.push_back({.title = terminal.tr("name"), .width_max = 40, .width_min = 12, .cut = Cut::kMiddle});
  columns.push_back({.title = terminal.tr("status")});
  columns.push_back({.title = terminal.tr("step"), .align = Align::kRight});
  columns.push_back(
      {.title = state.metric.empty() ? terminal.tr("value") : cut_middle(printable(state.metric), kNameColumns),
       .align = Align::kRight});
  int rank = 10;
  for (const std::string& path : parameters)
    columns.push_back({.title = cut_middle(printable(path), kNameColumns), .align = Align::kRight, .rank = rank++});
  if (tagged) columns.push_back({.title = terminal.tr("tags"), .rank = 31, .width_max = 60, .width_min = 8});
  columns.push_back({.title = terminal.tr("reason"), .rank = 30, .width_max = 80, .width_min = 16});
  Table table(std::move(columns));
  for (size_t i = 0; i < std::min(limit, trials.size()); ++i) {
    const Trial& trial = *trials[i];
    std::vector<std::string> cells{to_string(trial.id)};
    if (named) cells.push_back(printable(trial.name));
    cells.push_back(terminal.paint_state(tune::to_string(trial.status)));
    cells.push_back(std::to_string(trial.step_max));
    const auto value = value_of(trial, state.metric);
    cells.push_back(value ? tune::format_value(*value) : "");
    for (const std::string& path : parameters) cells.push_back(parameter_text(trial.config, path));
    if (tagged) cells.push_back(printable(fmt::format("{}", fmt::join(trial.tags, ", "))));
    cells.push_back(
        printable((trial.status == tune::TrialStatus::kFailed ? trial.error : trial.reason).text(terminal.language())));
    table.add(std::move(cells));
  }
  std::string text = fitted(table, terminal);
  if (trials.size() > limit)
    text += terminal.fill("… {} more: --limit={}", trials.size() - limit, trials.size()) + "\n";
  return text;
}

std::string origin_text(const tune::RunOrigin& origin, const Terminal& terminal) {
  std::string text;
  if (!origin.arguments.empty())
    text += titled(terminal.tr("command"), printable(fmt::format("{}", fmt::join(origin.arguments, " "))));
  if (!origin.hostname.empty())
    text += titled(terminal.tr("host"),
                   terminal.fill("{}, in {}", printable(origin.hostname), printable(origin.working_directory)));
  if (origin.git_commit.empty()) return text;
  return text +
         titled("git",
                fmt::format("{}{}{}", origin.git_commit.substr(0, 12),
                            origin.git_branch.empty() ? "" : " " + terminal.fill("on {}", printable(origin.git_branch)),
                            origin.git_changed ? terminal.tr(", with changes: source.diff") : ""));
}

std::string goals_text(const tune::SavedRun& run, const Terminal& terminal) {
  const tune::Goals& goals = run.analysis.state().goals;
  std::string objectives, text;
  for (const tune::Objective& objective : goals.objectives)
    objectives += fmt::format("{}{} {}", objectives.empty() ? "" : ", ", printable(objective.metric),
                              tune::to_string(objective.mode));
  if (!objectives.empty()) text += titled(terminal.tr("objectives"), objectives);
  if (!goals.constraints.empty())
    text += titled(terminal.tr("constraints"),
                   terminal.fill("{} at most 0", printable(fmt::format("{}", fmt::join(goals.constraints, ", ")))));
  if (goals.objectives.empty()) return text;
  const auto front = run.analysis.pareto_front();
  text += titled(terminal.tr("front"),
                 front.size() == 1 ? terminal.tr("1 trial") : terminal.fill("{} trials", front.size()));
  for (size_t i = 0; i < std::min(front.size(), kFrontMax); ++i) {
    text += fmt::format("              {}", to_string(front[i]->id));
    for (const tune::Objective& objective : goals.objectives)
      text += fmt::format("  {} {}", printable(objective.metric),
                          tune::format_value(front[i]->last_result.get(objective.metric).value_or(std::nan(""))));
    text += "\n";
  }
  if (front.size() > kFrontMax)
    text += "              " + terminal.fill("… {} more: --json has all", front.size() - kFrontMax) + "\n";
  return text;
}

std::string head_of(const tune::SavedRun& run, const Terminal& terminal) {
  const tune::ExperimentState& state = run.analysis.state();
  const auto total = tune::trials_total(run);
  const std::string trials = total == 1 ? terminal.tr("1 trial") : terminal.fill("{} trials", total);
  std::string text =
      fmt::format("{} · {} · {}: {}\n", terminal.paint(Colour::kBold, printable(state.name)),
                  terminal.paint_state(run.state), trials, counts_text(counts_of(state.trials), terminal));
  if (!state.reason.empty()) text += titled(terminal.tr("ended"), printable(state.reason.text(terminal.language())));
  if (run.state == "crashed")
    text += titled(terminal.tr("crashed"),
                   terminal.tr("its program is gone without having ended it; volador tune resume goes on"));
  text += titled(terminal.tr("scheduler"), printable(state.scheduler));
  text += titled(terminal.tr("searcher"), printable(state.searcher));
  const std::string time = format_duration(state.written - state.started);
  const bool goes_on = run.goes_on() || run.state == "crashed";
  text +=
      titled(terminal.tr("started"), goes_on ? terminal.fill("{}, written after {}", day_and_time(state.started), time)
                                             : terminal.fill("{}, took {}", day_and_time(state.started), time));
  if (run.state == "running")
    text +=
        titled(terminal.tr("left"), tune::format_left(tune::time_left(run, SystemClock().wall()), terminal.language()));
  text += origin_text(state.origin, terminal);
  if (!state.tags.empty())
    text += titled(terminal.tr("tags"), printable(fmt::format("{}", fmt::join(state.tags, ", "))));
  text += titled(terminal.tr("seed"), std::to_string(state.seed));
  return text + titled(terminal.tr("directory"), tune::display_path(run.analysis.directory()));
}

std::string value_and_step(const tune::ExperimentState& state, const tune::BestTrial& best, const Terminal& terminal) {
  const std::string step = best.step > 0 ? terminal.fill(" at step {}", best.step) : "";
  return fmt::format("{} {}{}", printable(state.metric), tune::format_value(best.value), step);
}

std::string best_text(const tune::SavedRun& run, const tune::BestTrial& best, const Terminal& terminal) {
  const tune::ExperimentState& state = run.analysis.state();
  const Trial& trial = *best.trial;
  std::string text = titled(
      terminal.tr("best"),
      fmt::format("{}  {}", terminal.paint(Colour::kBold, to_string(trial.id)), value_and_step(state, best, terminal)));
  text += fmt::format("              {}\n", printable(trial.config.to_json()));
  if (const tune::Checkpoint* checkpoint = trial.best_checkpoint(state.mode))
    text += fmt::format("              {}\n",
                        printable(tune::display_path(run.analysis.directory() / checkpoint->location)));
  const auto so_far = run.analysis.find_best({.scope = tune::Scope::kAll});
  if (so_far && (so_far->trial != best.trial || so_far->value != best.value))
    text += titled(terminal.tr("best so far"),
                   fmt::format("{}  {}", to_string(so_far->trial->id), value_and_step(state, *so_far, terminal)));
  return text;
}

Json saved_left_json(const std::optional<TimeLeft>& left) {
  if (!left) return Json();
  return {{"point", left->seconds}, {"low", left->low}, {"high", left->high}};
}

}  // namespace

std::string runs_text(const std::vector<tune::RunSummary>& runs, const Terminal& terminal) {
  if (runs.empty()) return terminal.tr("no runs") + "\n";
  Table table(
      {{.title = terminal.tr("run"), .width_max = 40, .width_min = 20, .cut = Cut::kMiddle},
       {.title = terminal.tr("state")},
       {.title = terminal.tr("trials"), .align = Align::kRight},
       {.title = terminal.tr("metric"), .rank = 2, .width_max = 20, .width_min = 8, .cut = Cut::kMiddle},
       {.title = terminal.tr("best"), .align = Align::kRight},
       {.title = terminal.tr("trial"), .rank = 1, .width_max = kNameColumns, .width_min = 8, .cut = Cut::kMiddle},
       {.title = terminal.tr("left"), .align = Align::kRight},
       {.title = terminal.tr("started"), .rank = 3},
       {.title = terminal.tr("problem"), .rank = 4, .width_max = 80, .width_min = 16}});
  for (const tune::RunSummary& run : runs) {
    const bool known = run.started != WallTime{};
    const auto left = run.left ? std::optional(run.left->seconds) : std::nullopt;
    table.add({printable(run.directory.filename().string()), terminal.paint_state(run.state),
               std::to_string(run.counts.total.value_or(run.counts.known)), printable(run.metric),
               run.best ? tune::format_value(*run.best) : "", run.best_trial, left_cell(run.state, left),
               known ? day_and_time(run.started) : "", printable(run.problem)});
  }
  return fitted(table, terminal);
}

std::string runs_json(const std::vector<tune::RunSummary>& runs) {
  Json rows = Json::array();
  for (const tune::RunSummary& run : runs) {
    rows.push_back({{"directory", run.directory.string()},
                    {"name", run.name},
                    {"state", run.state},
                    {"problem", run.problem},
                    {"trials", run.counts.known},
                    {"trials_by_status", counts_json(run.counts)},
                    {"metric", run.metric},
                    {"tags", run.tags},
                    {"best_value", run.best ? number(*run.best) : Json()},
                    {"best_trial", run.best_trial},
                    {"best_so_far_value", run.best_so_far ? number(*run.best_so_far) : Json()},
                    {"best_so_far_trial", run.best_so_far_trial},
                    {"trials_total", run.counts.total.value_or(run.counts.known)},
                    {"left_s", saved_left_json(run.left)},
                    {"started_wall_ns", run.started.time_since_epoch().count()},
                    {"written_wall_ns", run.written.time_since_epoch().count()}});
  }
  return text_of({{"api_version", "v1"}, {"runs", std::move(rows)}});
}

std::string run_text(const tune::SavedRun& run, size_t limit, const Terminal& terminal) {
  const tune::ExperimentState& state = run.analysis.state();
  std::string text = head_of(run, terminal);
  const std::vector<const Trial*> order = best_first(run.analysis);
  if (const auto best = run.analysis.find_best({})) text += best_text(run, *best, terminal);
  text += goals_text(run, terminal);
  for (const Reason& notice : state.notices)
    text += titled(terminal.tr("note"), printable(notice.text(terminal.language())));
  for (const auto& error : run.analysis.errors())
    text += titled(terminal.tr("failed"), fmt::format("{}: {}", to_string(error.trial), printable(error.message)));
  if (!order.empty()) text += "\n" + trials_table(state, order, limit, terminal);
  return text;
}

std::string run_json(const tune::SavedRun& run) {
  const tune::ExperimentState& state = run.analysis.state();
  Json json{{"api_version", "v1"},
            {"directory", run.analysis.directory().string()},
            {"name", state.name},
            {"state", run.state},
            {"reason", state.reason.text()},
            {"why", why_json(state.reason.to_json())},
            {"metric", state.metric},
            {"mode", tune::to_string(state.mode)},
            {"seed", state.seed},
            {"tags", state.tags},
            {"scheduler", state.scheduler},
            {"searcher", state.searcher},
            {"started_wall_ns", state.started.time_since_epoch().count()},
            {"written_wall_ns", state.written.time_since_epoch().count()},
            {"trials_by_status", counts_json(counts_of(state.trials))},
            {"notices", run.analysis.notices()}};
  for (const Reason& notice : state.notices) json["notices_why"].push_back(why_json(notice.to_json()));
  json["left_s"] = saved_left_json(tune::time_left(run, SystemClock().wall()));
  json["trials_total"] = tune::trials_total(run);
  json["trials_planned"] = state.trials_planned;
  json["origin"] = {{"arguments", state.origin.arguments},   {"working_directory", state.origin.working_directory},
                    {"hostname", state.origin.hostname},     {"git_commit", state.origin.git_commit},
                    {"git_branch", state.origin.git_branch}, {"git_changed", state.origin.git_changed}};
  if (!state.goals.objectives.empty()) {
    json["front"] = Json::array();
    for (const Trial* trial : run.analysis.pareto_front()) json["front"].push_back(to_string(trial->id));
  }
  const std::vector<const Trial*> order = best_first(run.analysis);
  const auto best = run.analysis.find_best({}), so_far = run.analysis.find_best({.scope = tune::Scope::kAll});
  json["best"] = best ? trial_json(*best->trial, state.metric) : Json();
  json["best_so_far"] =
      so_far
          ? Json{{"trial_id", to_string(so_far->trial->id)}, {"value", number(so_far->value)}, {"step", so_far->step}}
          : Json();
  Json trials = Json::array();
  for (const Trial* trial : order) trials.push_back(trial_json(*trial, state.metric));
  json["trials"] = std::move(trials);
  return text_of(json);
}

std::string story_text(const tune::TrialStory& story, const Terminal& terminal) {
  std::string text =
      fmt::format("{} {} · {} · {}\n", terminal.tr("trial"), terminal.paint(Colour::kBold, to_string(story.trial)),
                  printable(story.scheduler), printable(story.searcher));
  text += titled(terminal.tr("values"), printable(story.config.to_json()));
  if (story.step > 0) {
    const auto value = story.last_result.get(story.metric);
    text += titled(terminal.tr("last report"),
                   terminal.fill("step {}", story.step) +
                       (value ? fmt::format(", {} {}", printable(story.metric), tune::format_value(*value)) : ""));
  }
  if (!story.notice.empty()) text += titled(terminal.tr("note"), printable(story.notice.text(terminal.language())));
  text += "\n";
  for (const auto& moment : story.moments) {
    text += fmt::format("{:>9.3f} s  {}\n", std::chrono::duration<double>(moment.at).count(),
                        printable(moment.text.text(terminal.language())));
    for (const tune::DecisionRecord& other : moment.others)
      text += fmt::format("             {}  {:>10}  {}\n", to_string(other.trial), tune::format_value(other.value),
                          terminal.word(tune::to_string(other.act)));
    if (moment.others_left_out > 0)
      text += "             " + terminal.fill("… {} more: --others=N shows more", moment.others_left_out) + "\n";
  }
  return text;
}

std::string story_json(const tune::TrialStory& story) {
  Json moments = Json::array();
  for (const auto& moment : story.moments) {
    Json json{{"seconds", std::chrono::duration<double>(moment.at).count()},
              {"text", moment.text.text()},
              {"why", why_json(moment.text.to_json())}};
    json["decision"] = moment.decision ? decision_json(*moment.decision) : Json();
    Json others = Json::array();
    for (const tune::DecisionRecord& other : moment.others) others.push_back(decision_json(other));
    json["others"] = std::move(others);
    json["others_left_out"] = moment.others_left_out;
    moments.push_back(std::move(json));
  }
  Json last = Json::object();
  for (const auto& [name, value] : story.last_result) last[name] = number(value);
  return text_of({{"api_version", "v1"},
                  {"trial_id", to_string(story.trial)},
                  {"index", story.index},
                  {"config", config_json(story.config)},
                  {"searcher", story.searcher},
                  {"scheduler", story.scheduler},
                  {"reports_known", story.reports_known},
                  {"step", story.step},
                  {"last_result", std::move(last)},
                  {"notice", story.notice.text()},
                  {"moments", std::move(moments)}});
}

std::string comparison_text(const tune::RunComparison& comparison, const Terminal& terminal) {
  std::vector<Table::Column> columns{{terminal.tr("run")},
                                     {terminal.tr("state")},
                                     {printable(comparison.metric), Align::kRight},
                                     {terminal.tr("trial")},
                                     {terminal.tr("trials"), Align::kRight}};
  columns.insert(columns.end(), {{terminal.tr("steps"), Align::kRight},
                                 {terminal.tr("time"), Align::kRight},
                                 {terminal.tr("scheduler")},
                                 {terminal.tr("searcher")}});
  for (const std::string& path : comparison.parameters) columns.push_back({printable(path), Align::kRight});
  Table table(std::move(columns));
  for (const auto& row : comparison.rows) {
    const tune::ExperimentState& state = row.run->analysis.state();
    std::vector<std::string> cells{printable(row.run->analysis.directory().filename().string()),
                                   terminal.paint_state(row.run->state), tune::format_value(row.value),
                                   to_string(row.best->id), std::to_string(state.trials.size())};
    cells.insert(cells.end(), {std::to_string(row.steps), format_duration(row.time), printable(state.scheduler),
                               printable(state.searcher)});
    for (const std::string& path : comparison.parameters) cells.push_back(parameter_text(row.best->config, path));
    table.add(std::move(cells));
  }
  return terminal.fill("by {} ({}), best first", printable(comparison.metric),
                       terminal.word(tune::to_string(comparison.mode))) +
         "\n" + table.text();
}

std::string comparison_json(const tune::RunComparison& comparison) {
  Json rows = Json::array();
  for (const auto& row : comparison.rows) {
    const tune::ExperimentState& state = row.run->analysis.state();
    rows.push_back({{"directory", row.run->analysis.directory().string()},
                    {"name", state.name},
                    {"state", row.run->state},
                    {"value", number(row.value)},
                    {"trials", state.trials.size()},
                    {"steps", row.steps},
                    {"seconds", std::chrono::duration<double>(row.time).count()},
                    {"scheduler", state.scheduler},
                    {"searcher", state.searcher},
                    {"best", trial_json(*row.best, comparison.metric)}});
  }
  return text_of({{"api_version", "v1"},
                  {"metric", comparison.metric},
                  {"mode", tune::to_string(comparison.mode)},
                  {"runs", std::move(rows)}});
}

}  // namespace volador::cli
