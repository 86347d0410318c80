#include "tune/execution/run_output.h"

#include <fmt/format.h>

namespace volador::tune {

void RunOutput::say(const Reason& notice) {
  notices_.push_back(notice);
  if (options_.progress != Progress::kSilent) display_.say(notice);
}

void RunOutput::note_actor(const ActorId& actor, TrialId trial) {
  if (options_.reuse_actors || options_.log_to_file) trial_of_[actor] = trial;
}

void RunOutput::note_start(const Trial& trial) {
  if (options_.log_to_file) trial_named_.insert_or_assign("trial " + name_of(trial), trial.id);
}

void RunOutput::print(const LogLine& line, const TrialLoop& loop, ResultLogger& logger) {
  const auto trial = trial_of_.find(line.actor);
  const std::string display = trial == trial_of_.end() ? line.display : "trial " + name_of(*loop.find(trial->second));
  if (options_.log_to_file) {
    const auto named = trial_named_.find(display);
    if (trial != trial_of_.end())
      logger.log_output(trial->second, line.is_stderr, line.text);
    else if (named != trial_named_.end())
      logger.log_output(named->second, line.is_stderr, line.text);
    if (options_.progress == Progress::kSilent) return;
  }
  const std::string node = line.node_name.empty() ? "" : ", node " + line.node_name;
  display_.print(fmt::format("({}{}) {}", display, node, line.text));
}

void RunOutput::draw(BootTime now, const std::function<ProgressSnapshot()>& snapshot) {
  if (options_.progress == Progress::kSilent || now < next_draw_ || !display_.is_due(now)) return;
  display_.update(snapshot(), now);
  const BootTime after = clock_.now();
  next_draw_ = after + (after - now) * kCostShare;
}

void RunOutput::finish(const std::function<ProgressSnapshot()>& snapshot) {
  if (options_.progress != Progress::kSilent) display_.finish(snapshot());
}

}  // namespace volador::tune
