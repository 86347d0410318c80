#include "tune/determined/determined_asha.h"

#include <algorithm>

namespace volador::tune::determined {

double asha_progress(size_t arrived, int64_t completed, int64_t max_trials) {
  const auto trials = static_cast<double>(max_trials), metrics = static_cast<double>(arrived);
  const double share = metrics / (1.2 * trials);
  return metrics < trials ? share : std::max(share, static_cast<double>(completed) / trials);
}

Config ranked_state(const RankedEntries& entries) {
  Config out = Config::list({});
  entries.each([&](const RankedEntry& entry) {
    out.push_back(Config::list({entry.trial, entry.metric, entry.promoted}));
  });
  return out;
}

void refuse_rungs() { throw Exception(Error{ErrorCode::kInvalidArgument, "of another number of rungs"}); }

void read_ranked(const Config& state, size_t trials, RankedEntries& entries) {
  for (const Config& entry : state.items()) {
    const int64_t number = entry[0].integer();
    if (number < 0 || number >= static_cast<int64_t>(trials)) refuse_rungs();
    entries.append({entry[1].real(), static_cast<uint32_t>(number), entry[2].boolean()});
  }
}

AshaMethod::AshaMethod(AshaBracket options) : options_(std::move(options)) {
  for (const int64_t length : options_.lengths) rungs_.push_back({.length = length});
}

void AshaMethod::begin(Operations& operations, Creator& creator) {
  Create create = creator.create();
  const RequestId request = create.request;
  operations.emplace_back(std::move(create));
  operations.emplace_back(ValidateAfter{request, rungs_[0].length});
  ++requested_;
}

Operations AshaMethod::initial_operations(Creator& creator) {
  Operations operations;
  for (int64_t i = 0; i < options_.max_concurrent; ++i) begin(operations, creator);
  return operations;
}

void AshaMethod::created(const RequestId& request) {
  if (!numbers_.emplace(request, static_cast<uint32_t>(trials_.size())).second) return;
  trials_.push_back({.request = request});
  ++rungs_[0].outstanding;
}

Operations AshaMethod::validated(Creator& creator, const RequestId& request, double metric) {
  const auto found = numbers_.find(request);
  return found == numbers_.end() ? Operations() : arrive(creator, found->second, metric);
}

Operations AshaMethod::closed(Creator&, const RequestId& request) {
  const auto found = numbers_.find(request);
  if (found == numbers_.end()) return {};
  ++completed_;
  Trial& trial = trials_[found->second];
  if (!std::exchange(trial.closed, true)) trial.exited = true;  // Not by this search: it cannot go on.
  return {};
}

void AshaMethod::close(Operations& operations, Trial& trial) {
  operations.emplace_back(Close{trial.request});
  trial.closed = true;
}

std::optional<uint32_t> AshaMethod::promote(Rung& rung, uint32_t number, double metric) const {
  const size_t size = rung.entries.size();
  const auto before = static_cast<size_t>(static_cast<double>(size) / options_.divisor);
  const auto now = static_cast<size_t>(static_cast<double>(size + 1) / options_.divisor);
  const size_t rank = rung.entries.insert({metric, number, false}, RankedEntries::Ties::kAfter);
  rung.settled = false;
  if (rank < now) {
    rung.entries.at(rank).promoted = true;
    return number;
  }
  if (now == before) return std::nullopt;
  RankedEntry& next = rung.entries.at(before);
  if (std::exchange(next.promoted, true)) return std::nullopt;
  return next.trial;
}

bool AshaMethod::passes(Rung& rung, uint32_t number, double metric) const {
  const size_t rank = rung.entries.insert({metric, number, false}, RankedEntries::Ties::kBefore);
  const auto best = static_cast<size_t>(static_cast<double>(rung.entries.size()) / options_.divisor);
  const bool goes_on = rank < std::max<size_t>(best, 1);
  rung.entries.at(rank).promoted = goes_on;
  return goes_on;
}

bool AshaMethod::advance(Operations& operations, uint32_t number, size_t rung) {
  trials_[number].rung = rung;
  trials_[number].under_way = true;
  ++rungs_[rung].outstanding;
  if (trials_[number].exited) return false;
  operations.emplace_back(ValidateAfter{trials_[number].request, rungs_[rung].length});
  return true;
}

Operations AshaMethod::arrive(Creator& creator, uint32_t number, double metric) {
  Operations operations;
  Trial& trial = trials_[number];
  const size_t index = trial.rung;
  Rung& rung = rungs_[index];
  --rung.outstanding;
  trial.under_way = false;
  bool added = false;
  if (index + 1 == rungs_.size()) {
    rung.entries.append({metric, number, false});
    rung.settled = false;
    if (!trial.exited) close(operations, trial);
  } else if (options_.stop_once) {
    const bool goes_on = passes(rung, number, metric);
    if (!trial.exited) {
      if (goes_on) added = advance(operations, number, index + 1);
      if (!goes_on) close(operations, trial);
    }
  } else if (const auto promoted = promote(rung, number, metric)) {
    added = advance(operations, *promoted, index + 1);
    // As if it had continued and come out worst.
    if (!added) return arrive(creator, *promoted, kExitedMetric);
  }
  if (!added && requested_ - invalid_ < options_.max_trials) begin(operations, creator);
  if (!options_.stop_once && static_cast<int64_t>(rungs_[0].entries.size()) == options_.max_trials)
    close_out(operations);
  return operations;
}

void AshaMethod::close_out(Operations& operations) {
  for (Rung& rung : rungs_) {
    if (rung.outstanding > 0) return;
    if (std::exchange(rung.settled, true)) continue;
    rung.entries.each([&](const RankedEntry& entry) {
      Trial& trial = trials_[entry.trial];
      if (!entry.promoted && !trial.closed && !trial.exited) close(operations, trial);
    });
  }
}

Operations AshaMethod::exited(Creator& creator, const RequestId& request, ExitReason reason) {
  const auto found = numbers_.find(request);
  if (found == numbers_.end()) return {};
  Trial& trial = trials_[found->second];
  if (is_invalid_hp(reason) && !trial.closed) return replace_invalid(creator, found->second);
  trial.exited = trial.closed = true;
  return trial.under_way ? arrive(creator, found->second, kExitedMetric) : Operations();
}

Operations AshaMethod::replace_invalid(Creator& creator, uint32_t number) {
  Operations operations;
  Trial& trial = trials_[number];
  trial.exited = true;
  close(operations, trial);
  ++invalid_;
  if (std::exchange(trial.under_way, false)) --rungs_[trial.rung].outstanding;
  for (size_t i = 0; i <= trial.rung; ++i) rungs_[i].entries.erase(number);
  begin(operations, creator);
  return operations;
}

double AshaMethod::progress(const TrialRecords&) const {
  return asha_progress(rungs_[0].entries.size(), completed_ - invalid_, options_.max_trials);
}

std::vector<SearchRung> AshaMethod::rungs() const {
  std::vector<SearchRung> all;
  for (const Rung& rung : rungs_) {
    SearchRung& shown = all.emplace_back(SearchRung{.length = rung.length, .awaited = rung.outstanding, .members = {}});
    const bool is_last = &rung == &rungs_.back();
    rung.entries.each([&](const RankedEntry& entry) {
      if (entry.metric == kExitedMetric) return;
      const Trial& trial = trials_[entry.trial];
      const Act act = is_last                        ? Act::kFinished
                      : entry.promoted               ? Act::kPassed
                      : trial.closed || trial.exited ? Act::kStopped
                                                     : Act::kPaused;
      shown.members.push_back({trial.request, entry.metric, act});
    });
    if (is_last) std::ranges::stable_sort(shown.members, {}, &SearchRung::Member::metric);
  }
  return all;
}

Config AshaMethod::state() const {
  Config rungs = Config::list({}), trials = Config::list({});
  for (const Rung& rung : rungs_)
    rungs.push_back({{"outstanding", rung.outstanding}, {"entries", ranked_state(rung.entries)}});
  for (const Trial& trial : trials_)
    trials.push_back(Config::list({trial.request, trial.rung, trial.under_way, trial.exited, trial.closed}));
  return {{"rungs", std::move(rungs)},
          {"trials", std::move(trials)},
          {"requested", requested_},
          {"completed", completed_},
          {"invalid", invalid_}};
}

void AshaMethod::read(const Config& state) {
  const Config rungs = state["rungs"], trials = state["trials"];
  if (rungs.size() != rungs_.size()) refuse_rungs();
  for (const Config& trial : trials.items()) {
    const int64_t rung = trial[1].integer();
    if (rung < 0 || rung >= static_cast<int64_t>(rungs_.size())) refuse_rungs();
    numbers_[trial[0].text()] = static_cast<uint32_t>(trials_.size());
    trials_.push_back(
        {trial[0].text(), static_cast<size_t>(rung), trial[2].boolean(), trial[3].boolean(), trial[4].boolean()});
  }
  for (size_t i = 0; i < rungs_.size(); ++i) {
    rungs_[i].outstanding = rungs[i].integer("outstanding");
    read_ranked(rungs[i]["entries"], trials_.size(), rungs_[i].entries);
  }
  requested_ = state.integer("requested");
  completed_ = state.integer("completed");
  invalid_ = state.integer("invalid");
}

}  // namespace volador::tune::determined
