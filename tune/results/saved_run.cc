#include "tune/results/saved_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "runtime/nearest_word.h"
#include "tune/results/experiment_journal.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNearMax = 3;

fs::path state_path(const fs::path& directory) { return directory / "experiment_state.json"; }

bool holds_run(const fs::path& directory) {
  std::error_code code;
  return fs::exists(state_path(directory), code) || fs::exists(journal_path(directory), code);
}

Error no_run(const fs::path& directory) {
  std::error_code code;
  if (!fs::exists(directory, code))
    return {ErrorCode::kNotFound, fmt::format("{}: there is no such directory", directory.string())};
  if (fs::exists(journal_path(directory), code)) {
    return {
        ErrorCode::kNotFound,
        fmt::format(
            "{}: its program was killed before it had written experiment_state.json; volador tune resume goes on with "
            "the run",
            directory.string())};
  }
  return {
      ErrorCode::kNotFound,
      fmt::format(
          "{}: it holds no run: neither experiment_state.json nor journal.vlj; volador tune list FOLDER shows the runs "
          "of a folder",
          directory.string())};
}

void add_best(RunSummary& summary, const Analysis& analysis) {
  if (const auto best = analysis.find_best({})) {
    summary.best = best->value;
    summary.best_trial = to_string(best->trial->id);
  }
  if (const auto best = analysis.find_best({.scope = Scope::kAll})) {
    summary.best_so_far = best->value;
    summary.best_so_far_trial = to_string(best->trial->id);
  }
}

// Adds the journal's first record to the summary of a run that has no state yet.
void add_beginning(RunSummary& summary) {
  const auto journal = read_journal(summary.directory);
  if (!journal) {
    summary.state = "unreadable";
    summary.problem = journal.error().message;
    return;
  }
  summary.name = journal->header.name;
  summary.metric = journal->header.metric;
  summary.started = summary.written = WallTime(journal->header.started);
  summary.state = is_driven(summary.directory) ? "running" : "crashed";
}

RunSummary summarise(const fs::path& directory, WallTime now) {
  RunSummary summary{.directory = directory, .name = directory.filename().string()};
  std::error_code code;
  if (!fs::exists(state_path(directory), code)) {
    add_beginning(summary);
    return summary;
  }
  const auto run = load_run(directory);
  if (!run) {
    summary.state = "unreadable";
    summary.problem = run.error().message;
    return summary;
  }
  const ExperimentState& state = run->analysis.state();
  summary.name = state.name;
  summary.state = run->state;
  summary.metric = state.metric;
  summary.tags = state.tags;
  summary.started = state.started;
  summary.written = state.written;
  for (const Trial& trial : state.trials) ++summary.counts.by_status[static_cast<size_t>(trial.status)];
  summary.counts.known = static_cast<int64_t>(state.trials.size());
  summary.counts.total = trials_total(*run);
  summary.left = time_left(*run, now);
  add_best(summary, run->analysis);
  return summary;
}

std::string near_ids(const std::vector<Trial>& trials, std::string_view id) {
  std::vector<std::pair<size_t, std::string>> near;
  for (const Trial& trial : trials) {
    const std::string other = to_string(trial.id);
    near.emplace_back(edit_distance(id, std::string_view(other).substr(0, std::max<size_t>(id.size(), 1))), other);
  }
  const size_t count = std::min(kNearMax, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
  std::string text;
  for (size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + near[i].second;
  return text;
}

}  // namespace

Result<SavedRun> load_run(const fs::path& directory) {
  std::error_code code;
  if (!fs::exists(state_path(directory), code)) return make_error(no_run(directory));
  try {
    Analysis analysis = Analysis::load(directory);
    std::string state = analysis.state().state;
    if ((state == "running" || state == "paused") && !is_driven(directory)) state = "crashed";
    return SavedRun{std::move(analysis), std::move(state)};
  } catch (const Exception& exception) {
    Error error = exception.error();
    if (error.message.find(directory.string()) == std::string::npos)
      error.message = fmt::format("{}: {}", directory.string(), error.message);
    return make_error(std::move(error));
  }
}

Result<JournalContents> load_journal(const fs::path& directory) {
  std::error_code code;
  if (!fs::exists(directory, code)) return make_error(no_run(directory));
  if (!fs::exists(journal_path(directory), code)) {
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("{}: it holds no journal.vlj, from which this is told; volador tune show tells what its results do",
                    directory.string()));
  }
  return read_journal(directory);
}

std::vector<Trial> suggested_trials(const JournalContents& journal) {
  std::vector<Trial> trials;
  for (const JournalRecord& record : journal.records) {
    const auto* suggestion = std::get_if<JournalSuggestion>(&record);
    if (suggestion == nullptr || suggestion->index != static_cast<int64_t>(trials.size())) continue;
    Trial& trial = trials.emplace_back();
    trial.id = TrialId::of(journal.header.trial_key(), suggestion->index);
    trial.index = suggestion->index;
    trial.config = suggestion->config;
  }
  return trials;
}

std::optional<TimeLeft> time_left(const SavedRun& run, WallTime now) {
  const ExperimentState& state = run.analysis.state();
  if (run.state != "running" || !state.left) return std::nullopt;
  const double age = std::max(std::chrono::duration<double>(now - state.written).count(), 0.0);
  TimeLeft left = *state.left;
  for (double* seconds : {&left.seconds, &left.low, &left.high}) *seconds = std::max(*seconds - age, 0.0);
  return left;
}

int64_t trials_total(const SavedRun& run) {
  const ExperimentState& state = run.analysis.state();
  const auto made = static_cast<int64_t>(state.trials.size());
  return run.goes_on() ? std::max(state.trials_planned, made) : made;
}

Result<const Trial*> find_trial(const std::vector<Trial>& trials, std::string_view id) {
  std::vector<const Trial*> found;
  for (const Trial& trial : trials) {
    if (to_string(trial.id).starts_with(id)) found.push_back(&trial);
  }
  if (found.size() == 1) return found.front();
  if (trials.empty()) return make_error(ErrorCode::kNotFound, "the run has no trials yet");
  if (found.empty())
    return make_error(ErrorCode::kNotFound, fmt::format("there is no trial \"{}\" among {}; the nearest: {}", id,
                                                        trials.size(), near_ids(trials, id)));
  std::string several;
  for (size_t i = 0; i < std::min(kNearMax, found.size()); ++i)
    several += (i == 0 ? "" : ", ") + to_string(found[i]->id);
  return make_error(ErrorCode::kNotFound, fmt::format("{} trials start with \"{}\": {}{}; give more of the id",
                                                      found.size(), id, several, found.size() > kNearMax ? ", …" : ""));
}

std::string id_of_name(const std::filesystem::path& directory, const std::string& name) {
  const auto run = load_run(directory);
  std::string id;
  for (const Trial& trial : run ? run->analysis.trials() : std::vector<Trial>()) {
    if (name.empty() || trial.name != name) continue;
    if (!id.empty()) return name;
    id = to_string(trial.id);
  }
  return id.empty() ? name : id;
}

std::vector<std::string> varying_parameters(const std::vector<const Trial*>& trials) {
  std::vector<std::string> order;
  std::map<std::string, std::set<std::string>> values;
  std::map<std::string, size_t> seen;
  for (const Trial* trial : trials) {
    for (const auto& [path, value] : trial->config.flatten()) {
      if (!values.contains(path)) order.push_back(path);
      if (auto& texts = values[path]; texts.size() < 2) texts.insert(value.to_json());
      ++seen[path];
    }
  }
  std::erase_if(order, [&](const std::string& path) { return values[path].size() < 2 && seen[path] == trials.size(); });
  return order;
}

Result<std::vector<RunSummary>> list_runs(const fs::path& folder, WallTime now) {
  if (holds_run(folder)) return std::vector<RunSummary>{summarise(folder, now)};
  std::vector<RunSummary> runs;
  std::error_code code;
  fs::directory_iterator entries(folder, code);
  if (code)
    return make_error(ErrorCode::kNotFound, fmt::format("{}: cannot be listed: {}", folder.string(), code.message()));
  for (const fs::directory_entry& entry : entries) {
    if (holds_run(entry.path())) runs.push_back(summarise(entry.path(), now));
  }
  std::ranges::sort(runs, [](const RunSummary& a, const RunSummary& b) {
    return std::tie(b.started, a.directory) < std::tie(a.started, b.directory);
  });
  return runs;
}

}  // namespace volador::tune
