#include "tune/determined/determined_asha.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tune/determined/determined_names.h"

namespace volador::tune::determined {
namespace {

constexpr double kExited = std::numeric_limits<double>::max();

}  // namespace

AshaMethod::AshaMethod(AshaBracket options) : options_(std::move(options)) {
  for (const int64_t length : options_.lengths) rungs_.push_back({length, {}, 0});
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
  if (!rung_of_.emplace(request, 0).second) return;
  order_.push_back(request);
  ++rungs_[0].outstanding;
}

Operations AshaMethod::closed(Creator&, const RequestId& request) {
  ++completed_;
  closed_.insert(request);
  return {};
}

void AshaMethod::close(Operations& operations, const RequestId& request) {
  operations.emplace_back(Close{request});
  closed_.insert(request);
}

RequestId AshaMethod::promote(Rung& rung, const RequestId& request, double metric) const {
  std::vector<Entry>& entries = rung.entries;
  const auto before = static_cast<size_t>(static_cast<double>(entries.size()) / options_.divisor);
  const auto now = static_cast<size_t>(static_cast<double>(entries.size() + 1) / options_.divisor);
  const auto place = std::upper_bound(entries.begin(), entries.end(), metric,
                                      [](double m, const Entry& entry) { return m < entry.metric; });
  const bool goes_on = static_cast<size_t>(place - entries.begin()) < now;
  entries.insert(place, {request, metric, goes_on});
  if (goes_on) return request;
  if (now == before || entries[before].promoted) return {};
  entries[before].promoted = true;
  return entries[before].request;
}

bool AshaMethod::passes(Rung& rung, const RequestId& request, double metric) const {
  std::vector<Entry>& entries = rung.entries;
  const auto place = std::lower_bound(entries.begin(), entries.end(), metric,
                                      [](const Entry& entry, double m) { return entry.metric < m; });
  const auto index = static_cast<size_t>(place - entries.begin());
  entries.insert(place, {request, metric, false});
  const bool goes_on =
      index < std::max<size_t>(static_cast<size_t>(static_cast<double>(entries.size()) / options_.divisor), 1);
  entries[index].promoted = goes_on;
  return goes_on;
}

bool AshaMethod::advance(Operations& operations, const RequestId& request, size_t rung) {
  rung_of_[request] = rung;
  ++rungs_[rung].outstanding;
  if (early_exits_.contains(request)) return false;
  operations.emplace_back(ValidateAfter{request, rungs_[rung].length});
  return true;
}

Operations AshaMethod::arrive(Creator& creator, const RequestId& request, double metric) {
  Operations operations;
  const auto found = rung_of_.find(request);
  if (found == rung_of_.end()) return operations;
  const size_t index = found->second;
  Rung& rung = rungs_[index];
  --rung.outstanding;
  bool added = false;
  if (index + 1 == rungs_.size()) {
    rung.entries.push_back({request, metric, false});
    if (!early_exits_.contains(request)) close(operations, request);
  } else if (options_.stop_once) {
    const bool goes_on = passes(rung, request, metric);
    if (!early_exits_.contains(request)) {
      if (goes_on) added = advance(operations, request, index + 1);
      if (!goes_on) close(operations, request);
    }
  } else if (const RequestId promoted = promote(rung, request, metric); !promoted.empty()) {
    added = advance(operations, promoted, index + 1);
    // As if it had continued and come out worst.
    if (!added) return arrive(creator, promoted, kExited);
  }
  if (!added && requested_ - invalid_ < options_.max_trials) begin(operations, creator);
  if (!options_.stop_once && static_cast<int64_t>(rungs_[0].entries.size()) == options_.max_trials)
    close_out(operations);
  return operations;
}

void AshaMethod::close_out(Operations& operations) {
  for (const Rung& rung : rungs_) {
    if (rung.outstanding > 0) return;
    for (const Entry& entry : rung.entries) {
      if (!entry.promoted && !closed_.contains(entry.request) && !early_exits_.contains(entry.request))
        close(operations, entry.request);
    }
  }
}

Operations AshaMethod::exited(Creator& creator, const RequestId& request, ExitReason reason) {
  if (!rung_of_.contains(request)) return {};
  if (reason == ExitReason::kInvalidHp) return replace_invalid(creator, request);
  early_exits_.insert(request);
  closed_.insert(request);
  return arrive(creator, request, kExited);
}

Operations AshaMethod::replace_invalid(Creator& creator, const RequestId& request) {
  Operations operations;
  early_exits_.insert(request);
  close(operations, request);
  ++invalid_;
  const size_t highest = rung_of_.at(request);
  --rungs_[highest].outstanding;
  for (size_t i = 0; i <= highest; ++i)
    std::erase_if(rungs_[i].entries, [&](const Entry& entry) { return entry.request == request; });
  begin(operations, creator);
  return operations;
}

double AshaMethod::progress(const std::map<RequestId, double>&) const {
  const auto trials = static_cast<double>(options_.max_trials);
  const auto arrived = static_cast<double>(rungs_[0].entries.size());
  const double share = arrived / (1.2 * trials);
  return arrived < trials ? share : std::max(share, static_cast<double>(completed_ - invalid_) / trials);
}

Config AshaMethod::state() const {
  Config rungs = Config::list({}), trials = Config::list({});
  for (const Rung& rung : rungs_) {
    Config entries = Config::list({});
    for (const Entry& entry : rung.entries)
      entries.push_back(Config::list({entry.request, entry.metric, entry.promoted}));
    rungs.push_back({{"outstanding", rung.outstanding}, {"entries", std::move(entries)}});
  }
  for (const RequestId& request : order_) trials.push_back(Config::list({request, rung_of_.at(request)}));
  return {{"rungs", std::move(rungs)}, {"trials", std::move(trials)}, {"early_exits", names(early_exits_)},
          {"closed", names(closed_)},  {"requested", requested_},     {"completed", completed_},
          {"invalid", invalid_}};
}

void AshaMethod::read(const Config& state) {
  const auto refuse = [] { throw Exception(Error{ErrorCode::kInvalidArgument, "of another number of rungs"}); };
  const Config rungs = state["rungs"], trials = state["trials"];
  if (rungs.size() != rungs_.size()) refuse();
  for (size_t i = 0; i < rungs_.size(); ++i) {
    const Config rung = rungs[i];
    rungs_[i].outstanding = rung.integer("outstanding");
    const Config entries = rung["entries"];
    for (const Config& entry : entries.items())
      rungs_[i].entries.push_back({entry[0].text(), entry[1].real(), entry[2].boolean()});
  }
  for (const Config& trial : trials.items()) {
    const int64_t rung = trial[1].integer();
    if (rung < 0 || rung >= static_cast<int64_t>(rungs_.size())) refuse();
    order_.push_back(trial[0].text());
    rung_of_[order_.back()] = static_cast<size_t>(rung);
  }
  early_exits_ = names_of(state["early_exits"]);
  closed_ = names_of(state["closed"]);
  requested_ = state.integer("requested");
  completed_ = state.integer("completed");
  invalid_ = state.integer("invalid");
}

}  // namespace volador::tune::determined
