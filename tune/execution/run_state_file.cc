#include "tune/execution/run_state_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tune/results/experiment_resume.h"

namespace volador::tune {

void RunStateFile::begin(WallTime started, const JournalProgram& program,
                         const std::function<SourceRevision()>& source) {
  started_ = started;
  origin_ = {program.arguments, program.working_directory, program.hostname, {}, {}, false};
  if (source) revision_ = std::async(std::launch::async, source);
}

ExperimentState RunStateFile::state(const TrialLoop& loop, RunStanding standing) const {
  ExperimentState state;
  state.name = options_.name;
  state.state = std::move(standing.name);
  state.reason = std::move(standing.reason);
  state.metric = options_.metric;
  state.mode = options_.mode;
  state.tags = options_.tags;
  state.goals = {options_.objectives, options_.constraints};
  state.seed = seed_;
  state.scheduler = loop.scheduler().describe();
  state.searcher = loop.searcher().describe();
  state.space = space_text(options_.space);
  state.stop = stop_texts(options_.stop);
  state.origin = origin_;
  state.started = started_;
  state.written = clock_.wall();
  state.trials.assign(loop.trials().begin(), loop.trials().end());
  state.notices = std::move(standing.notices);
  state.trials_planned = loop.counts().total.value_or(0);
  state.left = standing.left;
  return state;
}

void RunStateFile::note_revision(bool wait, std::vector<std::string>& notices) {
  if (!revision_.valid() || (!wait && revision_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)) return;
  const SourceRevision revision = revision_.get();
  origin_.git_commit = revision.commit;
  origin_.git_branch = revision.branch;
  origin_.git_changed = revision.changed;
  if (!revision.changed) return;
  const auto written = write_file_atomically(directory_.path() / "source.diff", revision.diff);
  if (!written) notices.push_back(fmt::format("source.diff is not written: {}", written.error().message));
}

std::vector<std::string> RunStateFile::write(const TrialLoop& loop, RunStanding standing) {
  const BootTime begun = clock_.now();
  std::vector<std::string> notices;
  note_revision(standing.name != "running" && standing.name != "paused", notices);
  written_ = standing.name;
  standing.notices.insert(standing.notices.end(), notices.begin(), notices.end());
  const auto written = directory_.write_state(to_json(state(loop, std::move(standing))));
  if (!written && !trouble_)
    notices.push_back(fmt::format("experiment_state.json is not up to date: {}", written.error().message));
  trouble_ = !written;
  const BootTime after = clock_.now();
  next_ = after + std::max<std::chrono::nanoseconds>(kInterval, (after - begun) * kCostShare);
  return notices;
}

}  // namespace volador::tune
