#include "tune/results/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "runtime/csv_text.h"
#include "runtime/files/directory_parts.h"
#include "runtime/files/durable_file.h"
#include "tune/refusal.h"
#include "tune/results/result_number.h"
#include "tune/results/result_text.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;  // Preserves the order of configurations and metrics.

constexpr size_t kStateBytesMax = size_t{4} << 30;

// Edit distance, for suggesting a similar name.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

Error never_reported(const std::string& metric, const std::vector<Trial>& trials) {
  std::set<std::string> names;
  for (const Trial& trial : trials) {
    for (const auto& [name, summary] : trial.metrics) names.insert(name);
    for (const auto& [name, value] : trial.last_result) names.insert(name);
  }
  if (names.empty())
    return {ErrorCode::kInvalidArgument,
            fmt::format("metric \"{}\" was never reported: no trial reported anything", metric)};
  std::string list, near;
  size_t distance = 3;
  for (const std::string& name : names) {
    list += (list.empty() ? "" : ", ") + name;
    if (const size_t d = edit_distance(metric, name); d < distance) {
      distance = d;
      near = name;
    }
  }
  return {ErrorCode::kInvalidArgument,
          fmt::format("metric \"{}\" was never reported; trials report: {}.{}", metric, list,
                      near.empty() ? "" : fmt::format(" Did you mean \"{}\"?", near))};
}

}  // namespace

fs::path SavedCheckpoint::path() const {
  const fs::path files = stored_ / "files";
  std::error_code code;
  if (fs::is_directory(files, code)) return files;
  auto unpacked = unpack_archives(parts_in(stored_), files);
  if (!unpacked) throw Exception(std::move(unpacked).error());
  return files;
}

Analysis::Analysis(ExperimentState state, fs::path directory)
    : state_(std::move(state)), directory_(std::move(directory)) {
  for (const Trial& trial : state_.trials) {
    if (trial.status == TrialStatus::kFailed) errors_.push_back({trial.id, trial.error});
  }
}

Analysis Analysis::load(const fs::path& directory) {
  const std::string text = unwrap(read_file(directory / "experiment_state.json", kStateBytesMax));
  return Analysis(unwrap(experiment_state_from_json(text)), directory);
}

Result<std::vector<BestTrial>> Analysis::ranked(const By& by) const {
  const std::string& metric = by.metric.empty() ? state_.metric : by.metric;
  if (metric.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "no metric to rank trials by: give .metric to tune::run, or {.metric = …} here");
  }
  std::vector<BestTrial> ranking = rank_trials(state_.trials, metric, by.mode.value_or(state_.mode), by.scope);
  if (ranking.empty()) return make_error(never_reported(metric, state_.trials));
  if (!is_result(ranking.front().value)) {
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("metric \"{}\" is NaN or infinite in {} that reported it: none is best", metric,
                    ranking.size() == 1 ? "the only trial" : fmt::format("all {} trials", ranking.size())));
  }
  return ranking;
}

std::vector<const Trial*> Analysis::ranking(const By& by) const {
  std::vector<const Trial*> trials;
  for (const BestTrial& one : unwrap(ranked(by))) trials.push_back(one.trial);
  return trials;
}

const Trial& Analysis::best_trial(const By& by) const { return *unwrap(ranked(by)).front().trial; }

std::optional<BestTrial> Analysis::find_best(const By& by) const {
  const auto ranking = ranked(by);
  return ranking ? std::optional(ranking->front()) : std::nullopt;
}

SavedCheckpoint Analysis::best_checkpoint(const By& by) const {
  for (const BestTrial& one : unwrap(ranked(by))) {
    if (const Checkpoint* checkpoint = one.trial->best_checkpoint(by.mode.value_or(state_.mode))) {
      return SavedCheckpoint(directory_ / checkpoint->location, checkpoint->step);
    }
  }
  throw Exception({ErrorCode::kNotFound,
                   "no trial has a checkpoint: set .checkpoint = {.frequency = …} or {.at_end = true}, and let the "
                   "trainable save one"});
}

std::vector<const Trial*> Analysis::pareto_front() const {
  if (state_.goals.objectives.empty()) {
    throw Exception({ErrorCode::kInvalidArgument,
                     "pareto_front: the run had one metric: give .objectives = {{…}, {…}} to tune::run, or ask for "
                     "best_trial()"});
  }
  std::vector<const Trial*> whole;
  std::vector<Outcome> outcomes;
  for (const Trial& trial : state_.trials) {
    Outcome outcome = outcome_of(trial.last_result, state_.goals);
    const bool numbers = std::ranges::none_of(outcome.values, [](double value) { return !is_result(value); });
    if (trial.status == TrialStatus::kFailed || !numbers || outcome.violation > 0) continue;
    whole.push_back(&trial);
    outcomes.push_back(std::move(outcome));
  }
  const std::vector<size_t> ranks = domination_ranks(outcomes);
  std::vector<std::pair<double, const Trial*>> front;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (ranks[i] == 0) front.emplace_back(outcomes[i].values[0], whole[i]);
  }
  std::ranges::stable_sort(front, {}, [](const auto& one) { return one.first; });
  std::vector<const Trial*> trials;
  for (const auto& [value, trial] : front) trials.push_back(trial);
  return trials;
}

std::vector<Analysis::Row> Analysis::results() const {
  std::vector<Row> rows;
  for (const Trial& trial : state_.trials) {
    const fs::path path = directory_ / folder_of(trial) / "result.json";
    std::ifstream in(path);
    if (!in) {
      // A killed program may not have written the file of a running trial.
      if (trial.step_max == 0 || state_.state == "running" || state_.state == "paused") continue;
      throw Exception(file_error("read", path, errno));
    }
    size_t number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      const Json fields = Json::parse(line, nullptr, false);
      if (!fields.is_object() && in.eof())
        break;  // The last line is incomplete: it is being written, or its program
                // was killed.
      if (!fields.is_object()) {
        throw Exception({ErrorCode::kInvalidArgument,
                         fmt::format("{}:{}: expected one JSON object a line", path.string(), number)});
      }
      Row row{trial.id, {}};
      for (const auto& [name, value] : fields.items()) {
        if (const auto known = result_number(name, value)) row.result.set(name, *known);
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string Analysis::as_json() const {
  Json whole = Json::parse(tune::to_json(state_));
  whole.erase("version");
  Json document{{"api_version", "v1"}, {"directory", directory_.string()}};
  document.update(whole);
  std::unordered_map<std::string, Json> results_of;
  for (const Row& row : results()) results_of[to_string(row.trial)].push_back(Json::parse(row.result.to_json()));
  for (Json& trial : document["trials"]) {
    const auto found = results_of.find(trial["trial_id"].get<std::string>());
    trial["results"] = found == results_of.end() ? Json::array() : std::move(found->second);
  }
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void Analysis::to_csv(const fs::path& path) const {
  auto written = write_file_atomically(path, as_csv());
  if (!written) throw Exception(std::move(written).error());
}

std::string Analysis::as_csv() const {
  const std::vector<Row> rows = results();
  std::vector<std::string> parameters, metrics;
  std::set<std::string> seen_parameters, seen_metrics;
  std::unordered_map<TrialId, std::unordered_map<std::string, std::string>> configs;
  for (const Trial& trial : state_.trials) {
    for (const auto& [name, value] : trial.config.flatten()) {
      if (seen_parameters.insert(name).second) parameters.push_back(name);
      configs[trial.id][name] = to_text(value);
    }
  }
  for (const Row& row : rows) {
    for (const auto& [name, value] : row.result) {
      if (seen_metrics.insert(name).second) metrics.push_back(name);
    }
  }
  std::string out = "trial_id";
  for (const std::string& name : parameters) {
    out += ',';
    append_csv_text(out, "config/" + name);
  }
  for (const std::string& name : metrics) {
    out += ',';
    append_csv_text(out, name);
  }
  out += '\n';
  for (const Row& row : rows) {
    out += to_string(row.trial);
    for (const std::string& name : parameters) {
      out += ',';
      const auto& config = configs[row.trial];
      if (const auto found = config.find(name); found != config.end()) append_csv_text(out, found->second);
    }
    for (const std::string& name : metrics) {
      out += ',';
      if (const auto value = row.result.get(name)) out += format_real(*value);
    }
    out += '\n';
  }
  return out;
}

}  // namespace volador::tune
