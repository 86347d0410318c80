#include "tune/determined/determined_timed.h"

#include <algorithm>

namespace volador::tune::determined {

TimedAshaMethod::TimedAshaMethod(AshaBracket options) : options_(std::move(options)) {
  for (const int64_t length : options_.lengths) rungs_.push_back({.length = length});
}

void TimedAshaMethod::begin(Operations& operations, Creator& creator) {
  operations.emplace_back(creator.create());
  ++requested_;
}

void TimedAshaMethod::begin_if_left(Operations& operations, Creator& creator) {
  if (requested_ - invalid_ < options_.max_trials) begin(operations, creator);
}

Operations TimedAshaMethod::initial_operations(Creator& creator) {
  Operations operations;
  for (int64_t i = 0; i < options_.max_concurrent; ++i) begin(operations, creator);
  return operations;
}

void TimedAshaMethod::created(const RequestId& request) {
  if (numbers_.emplace(request, static_cast<uint32_t>(trials_.size())).second) trials_.push_back({.request = request});
}

TimedAshaMethod::Trial* TimedAshaMethod::find(const RequestId& request) {
  const auto found = numbers_.find(request);
  return found == numbers_.end() ? nullptr : &trials_[found->second];
}

bool TimedAshaMethod::passes(Rung& rung, uint32_t number, double metric) const {
  const size_t rank = rung.entries.insert({metric, number, false}, RankedEntries::Ties::kBefore);
  const auto best = static_cast<size_t>(static_cast<double>(rung.entries.size()) / options_.divisor);
  return rank < std::max<size_t>(best, 1);
}

Operations TimedAshaMethod::reported(Creator& creator, const RequestId& request, int64_t units, double metric) {
  Trial* trial = find(request);
  if (trial == nullptr || trial->over) return {};
  const auto number = static_cast<uint32_t>(trial - trials_.data());
  while (units >= rungs_[trial->rung].length) {
    const bool goes_on = passes(rungs_[trial->rung], number, metric);
    if (goes_on && trial->rung + 1 < rungs_.size()) {
      ++trial->rung;
      continue;
    }
    trial->over = true;
    Operations operations;
    operations.emplace_back(Close{request});
    begin_if_left(operations, creator);
    return operations;
  }
  return {};
}

Operations TimedAshaMethod::closed(Creator& creator, const RequestId& request) {
  Operations operations;
  Trial* trial = find(request);
  if (trial == nullptr) return operations;
  ++completed_;
  if (std::exchange(trial->over, true)) return operations;
  // It ended by itself, below its rung.
  rungs_[trial->rung].entries.insert({kExitedMetric, static_cast<uint32_t>(trial - trials_.data()), false},
                                     RankedEntries::Ties::kBefore);
  begin_if_left(operations, creator);
  return operations;
}

Operations TimedAshaMethod::exited(Creator& creator, const RequestId& request, ExitReason reason) {
  Operations operations;
  Trial* trial = find(request);
  if (trial == nullptr) return operations;
  const auto number = static_cast<uint32_t>(trial - trials_.data());
  if (std::exchange(trial->over, true)) return operations;
  if (is_invalid_hp(reason)) {
    operations.emplace_back(Close{request});
    ++invalid_;
    for (size_t i = 0; i <= trial->rung; ++i) rungs_[i].entries.erase(number);
  } else {
    rungs_[trial->rung].entries.insert({kExitedMetric, number, false}, RankedEntries::Ties::kBefore);
  }
  begin_if_left(operations, creator);
  return operations;
}

double TimedAshaMethod::progress(const TrialRecords&) const {
  return asha_progress(rungs_[0].entries.size(), completed_ - invalid_, options_.max_trials);
}

std::vector<SearchRung> TimedAshaMethod::rungs() const {
  std::vector<SearchRung> all;
  for (size_t i = 0; i < rungs_.size(); ++i) {
    SearchRung& shown = all.emplace_back(SearchRung{.length = rungs_[i].length, .members = {}});
    shown.awaited = std::ranges::count_if(trials_, [&](const Trial& one) { return one.rung == i && !one.over; });
    rungs_[i].entries.each([&](const RankedEntry& entry) {
      if (entry.metric == kExitedMetric) return;
      const Trial& trial = trials_[entry.trial];
      const Act act = i + 1 == rungs_.size() ? Act::kFinished : trial.rung > i ? Act::kPassed : Act::kStopped;
      shown.members.push_back({trial.request, entry.metric, act});
    });
  }
  return all;
}

Config TimedAshaMethod::state() const {
  Config rungs = Config::list({}), trials = Config::list({});
  for (const Rung& rung : rungs_) rungs.push_back(ranked_state(rung.entries));
  for (const Trial& trial : trials_) trials.push_back(Config::list({trial.request, trial.rung, trial.over}));
  return {{"rungs", std::move(rungs)},
          {"trials", std::move(trials)},
          {"requested", requested_},
          {"completed", completed_},
          {"invalid", invalid_}};
}

void TimedAshaMethod::read(const Config& state) {
  const Config rungs = state["rungs"], trials = state["trials"];
  if (rungs.size() != rungs_.size()) refuse_rungs();
  for (const Config& trial : trials.items()) {
    const int64_t rung = trial[1].integer();
    if (rung < 0 || rung >= static_cast<int64_t>(rungs_.size())) refuse_rungs();
    numbers_[trial[0].text()] = static_cast<uint32_t>(trials_.size());
    trials_.push_back({trial[0].text(), static_cast<size_t>(rung), trial[2].boolean()});
  }
  for (size_t i = 0; i < rungs_.size(); ++i) read_ranked(rungs[i], trials_.size(), rungs_[i].entries);
  requested_ = state.integer("requested");
  completed_ = state.integer("completed");
  invalid_ = state.integer("invalid");
}

}  // namespace volador::tune::determined
