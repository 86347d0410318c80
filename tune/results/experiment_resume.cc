#include "tune/results/experiment_resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "runtime/quantities.h"

namespace volador::tune {
namespace {

void append_node(std::string& out, const std::string& path, const SpaceNode& node);

void append_options(std::string& out, const std::string& path, const std::vector<SpaceNode>& options) {
  for (size_t i = 0; i < options.size(); ++i) append_node(out, fmt::format("{}[{}]", path, i), options[i]);
}

void append_node(std::string& out, const std::string& path, const SpaceNode& node) {
  if (const Config* constant = node.constant()) out += fmt::format("{} {}\n", path, constant->to_json());
  if (const Domain* domain = node.domain()) {
    out += fmt::format("{} {}\n", path, to_string(*domain));
    if (const auto* choice = std::get_if<ChoiceDomain>(domain)) append_options(out, path, choice->options);
    if (const auto* grid = std::get_if<GridDomain>(domain)) append_options(out, path, grid->options);
  }
  if (const auto* list = node.list()) append_options(out, path, *list);
  if (const auto* map = node.map()) {
    for (const SpaceEntry& entry : *map) append_node(out, path + "." + entry.name, entry.value);
  }
}

std::string condition_text(const Stop::Condition& condition) {
  if (const auto* threshold = std::get_if<Stop::Threshold>(&condition))
    return fmt::format("{} {}", threshold->metric, format_real(threshold->value));
  if (const auto* steps = std::get_if<Stop::MaxSteps>(&condition))
    return fmt::format("after {}", counted(steps->steps, "step"));
  if (const auto* time = std::get_if<Stop::MaxTime>(&condition)) return fmt::format("after {} ns", time->time.count());
  return fmt::format("condition {}", condition.index());
}

// Returns the first line in which the texts differ, from each.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  size_t start = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) {
    if (a[i] == '\n') start = i + 1;
  }
  const auto line = [start](const std::string& text) {
    return start >= text.size() ? std::string("nothing")
                                : "\"" + text.substr(start, text.find('\n', start) - start) + "\"";
  };
  return {line(a), line(b)};
}

// Filters the last events of an ended run that still apply: steps, checkpoints, tags.
std::optional<Event> after_ending(const Event& event) {
  if (std::holds_alternative<ResultReported>(event) || std::holds_alternative<TrialTagged>(event)) return event;
  const auto* saved = std::get_if<CheckpointSaved>(&event);
  if (saved == nullptr) return std::nullopt;
  return CheckpointFound{saved->trial, saved->attempt, saved->step, saved->location};
}

}  // namespace

Result<void> check_same_trainable(const std::vector<JournalRecord>& records, std::string_view trainable) {
  for (const JournalRecord& record : records) {
    const auto* labels = std::get_if<JournalLabels>(&record);
    if (labels == nullptr || labels->trainable.empty() || labels->trainable == trainable) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("resume: the trials of that run are those of {}, and this program runs {}: give the "
                                  "directory of one of its own runs, or start a "
                                  "new one without .resume",
                                  labels->trainable, trainable));
  }
  return {};
}

std::string difference_text(const std::string& before, const std::string& now) {
  if (before == now) return {};
  const auto [first, second] = first_difference(before, now);
  return fmt::format("{}, now it is {}", first, second);
}

std::string space_text(const Space& space) {
  std::string out;
  for (const SpaceEntry& entry : space.entries()) append_node(out, entry.name, entry.value);
  return out;
}

std::vector<std::string> stop_texts(const Stop& stop) {
  std::vector<std::string> texts;
  for (const Stop::Condition& condition : stop.conditions()) texts.push_back(condition_text(condition));
  return texts;
}

std::string limits_text(const LoopOptions& options) {
  const CheckpointOptions& checkpoint = options.checkpoint;
  std::string text = fmt::format(
      "max_concurrent_trials {}\nmax_failures {}\nmax_losses {}\ncheckpoint.frequency {}\ncheckpoint.at_end {}\n"
      "checkpoint.num_to_keep {}\ncheckpoint.score {} {}\n",
      options.max_concurrent_trials, options.max_failures, options.max_losses, checkpoint.frequency, checkpoint.at_end,
      checkpoint.num_to_keep, checkpoint.score_attribute, to_string(checkpoint.score_order));
  if (options.retry_backoff.count() > 0)
    text +=
        fmt::format("retry_backoff {} ns to {} ns\n", options.retry_backoff.count(), options.retry_backoff_max.count());
  for (const Objective& objective : options.goals.objectives)
    text += fmt::format("objective {} {}\n", objective.metric, to_string(objective.mode));
  for (const std::string& constraint : options.goals.constraints) text += fmt::format("constraint {}\n", constraint);
  for (const std::string& rule : stop_texts(options.stop)) text += fmt::format("stop {}\n", rule);
  return text;
}

Result<void> check_same_run(const JournalHeader& journal, const JournalHeader& run) {
  const auto compare = [](std::string_view option, const std::string& before, const std::string& now) -> Result<void> {
    if (before == now) return {};
    const auto [first, second] = first_difference(before, now);
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("resume: {} is not that of the run to go on with: it was {}, now it is {}; give the "
                                  "options of that run, or start "
                                  "a new one without .resume",
                                  option, first, second));
  };
  VOLADOR_TRY(compare("metric", journal.metric, run.metric));
  VOLADOR_TRY(compare("mode", journal.mode, run.mode));
  VOLADOR_TRY(compare("seed", std::to_string(journal.seed), std::to_string(run.seed)));
  VOLADOR_TRY(compare("space", journal.space, run.space));
  VOLADOR_TRY(compare("searcher", journal.searcher, run.searcher));
  VOLADOR_TRY(compare("scheduler", journal.scheduler, run.scheduler));
  VOLADOR_TRY(compare("an option", journal.limits, run.limits));
  const bool fewer = run.total >= 0 && (journal.total < 0 || run.total < journal.total);
  if (fewer) return compare("num_samples", counted(journal.total, "trial"), counted(run.total, "trial"));
  return {};
}

std::vector<JournalEvent> effective_events(const std::vector<JournalRecord>& records) {
  std::vector<const JournalEvent*> events;
  std::map<int64_t, bool> endings;  // By the event that caused them.
  for (const JournalRecord& record : records) {
    if (const auto* event = std::get_if<JournalEvent>(&record)) events.push_back(event);
    if (const auto* ending = std::get_if<JournalEnding>(&record)) endings[ending->event] = true;
  }
  std::vector<JournalEvent> told;
  bool ended = false;
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i]->event;
    const auto number = static_cast<int64_t>(i);
    if (std::holds_alternative<Resumed>(event)) ended = false;
    const auto* stop = std::get_if<StopRequested>(&event);
    const bool taken_back = std::holds_alternative<Interrupt>(event) || std::holds_alternative<Abort>(event) ||
                            (stop != nullptr && stop->whole);
    if (ended) {
      if (auto left = after_ending(event)) told.push_back({events[i]->at, events[i]->wall, std::move(*left), number});
    } else if (!taken_back) {
      told.push_back(*events[i]);
      told.back().number = number;
    }
    ended = ended || taken_back || endings.contains(number);
  }
  return told;
}

std::vector<RecordedSuggestion> recorded_suggestions(const std::vector<JournalRecord>& records) {
  std::vector<RecordedSuggestion> found;
  for (const JournalRecord& record : records) {
    const auto* suggestion = std::get_if<JournalSuggestion>(&record);
    if (suggestion != nullptr && suggestion->index == static_cast<int64_t>(found.size()))
      found.push_back({suggestion->config, suggestion->event});
  }
  return found;
}

}  // namespace volador::tune
