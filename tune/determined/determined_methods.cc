#include "tune/determined/determined_methods.h"

#include <algorithm>

namespace volador::tune::determined {
namespace {

// Progress in full runs: that of the closed and the running trials.
double full_runs(const TrialRecords& trials, int64_t max_length, double wanted, bool counts_invalid) {
  double done = 0;
  const auto full = static_cast<double>(max_length);
  for (const auto& [request, trial] : trials) {
    if (trial.invalid && !counts_invalid) continue;
    done += trial.closed ? full : trial.invalid ? 0 : std::min(trial.units, full);
  }
  return done / (full * wanted);
}

// Begins a trial of full length.
void begin_full(Operations& operations, Create create, const SearchOptions& options) {
  const RequestId request = create.request;
  operations.emplace_back(std::move(create));
  if (options.timed) return;
  operations.emplace_back(ValidateAfter{request, options.max_length});
  operations.emplace_back(Close{request});
}

int64_t at_once(const SearchOptions& options, int64_t trials) {
  return options.max_concurrent_trials > 0 ? std::min(options.max_concurrent_trials, trials) : trials;
}

}  // namespace

// ---- Random.

void RandomMethod::begin(Operations& operations, Creator& creator) {
  begin_full(operations, creator.create(), options_);
  ++created_;
}

Operations RandomMethod::initial_operations(Creator& creator) {
  Operations operations;
  for (int64_t i = 0; i < at_once(options_, trials()); ++i) begin(operations, creator);
  return operations;
}

Operations RandomMethod::closed(Creator& creator, const RequestId&) {
  Operations operations;
  if (created_ < trials()) begin(operations, creator);
  return operations;
}

Operations RandomMethod::exited(Creator&, const RequestId&, ExitReason reason) {
  if (is_invalid_hp(reason) && !single_) --created_;
  return {};
}

double RandomMethod::progress(const TrialRecords& trials) const {
  return full_runs(trials, options_.max_length, static_cast<double>(this->trials()), false);
}

Config RandomMethod::state() const { return {{"created", created_}}; }
void RandomMethod::read(const Config& state) { created_ = state.integer("created"); }

// ---- Grid.

void GridMethod::begin(Operations& operations, Creator& creator) {
  begin_full(operations, creator.create(std::move(left_.back())), options_);
  left_.pop_back();
}

Operations GridMethod::initial_operations(Creator& creator) {
  Operations operations;
  for (int64_t i = at_once(options_, static_cast<int64_t>(total_)); i > 0; --i) begin(operations, creator);
  return operations;
}

Operations GridMethod::closed(Creator& creator, const RequestId&) {
  Operations operations;
  if (!left_.empty()) begin(operations, creator);
  return operations;
}

double GridMethod::progress(const TrialRecords& trials) const {
  return full_runs(trials, options_.max_length, static_cast<double>(total_), true);
}

Config GridMethod::state() const { return {{"left", left_.size()}}; }
void GridMethod::read(const Config& state) {
  const int64_t left = state.integer("left");
  if (left < 0 || left > static_cast<int64_t>(left_.size()))
    throw Exception(Error{ErrorCode::kInvalidArgument, "of another grid"});
  left_.resize(static_cast<size_t>(left));
}

// ---- Tournament.

Operations TournamentMethod::owned(size_t method, Operations operations) {
  for (const Operation& operation : operations) {
    if (const auto* create = std::get_if<Create>(&operation)) owners_[create->request] = method;
  }
  return operations;
}

Operations TournamentMethod::initial_operations(Creator& creator) {
  Operations all;
  for (size_t i = 0; i < methods_.size(); ++i) {
    Operations some = owned(i, methods_[i]->initial_operations(creator));
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  return all;
}

template <class F>
Operations TournamentMethod::ask(const RequestId& request, F&& ask) {
  const auto found = owners_.find(request);
  if (found == owners_.end()) return {};
  return owned(found->second, ask(*methods_[found->second]));
}

void TournamentMethod::created(const RequestId& request) {
  ask(request, [&](Method& method) {
    method.created(request);
    return Operations();
  });
}
Operations TournamentMethod::validated(Creator& creator, const RequestId& request, double metric) {
  return ask(request, [&](Method& method) { return method.validated(creator, request, metric); });
}
Operations TournamentMethod::reported(Creator& creator, const RequestId& request, int64_t units, double metric) {
  return ask(request, [&](Method& method) { return method.reported(creator, request, units, metric); });
}
Operations TournamentMethod::closed(Creator& creator, const RequestId& request) {
  return ask(request, [&](Method& method) { return method.closed(creator, request); });
}
Operations TournamentMethod::exited(Creator& creator, const RequestId& request, ExitReason reason) {
  return ask(request, [&](Method& method) { return method.exited(creator, request, reason); });
}

double TournamentMethod::progress(const TrialRecords& trials) const {
  double sum = 0;
  for (const auto& method : methods_) sum += method->progress(trials);
  return sum / static_cast<double>(methods_.size());
}

std::vector<SearchRung> TournamentMethod::rungs() const {
  std::vector<SearchRung> all;
  for (size_t i = 0; i < methods_.size(); ++i) {
    for (SearchRung& rung : methods_[i]->rungs()) {
      rung.bracket = static_cast<int64_t>(i);
      all.push_back(std::move(rung));
    }
  }
  return all;
}

Config TournamentMethod::state() const {
  Config methods = Config::list({}), owners = Config::list({});
  for (const auto& method : methods_) methods.push_back(method->state());
  for (const auto& [request, method] : std::map(owners_.begin(), owners_.end()))
    owners.push_back(Config::list({request, method}));
  return {{"methods", std::move(methods)}, {"owners", std::move(owners)}};
}

void TournamentMethod::read(const Config& state) {
  const auto refuse = [] { throw Exception(Error{ErrorCode::kInvalidArgument, "of another number of brackets"}); };
  const Config methods = state["methods"], owners = state["owners"];
  if (methods.size() != methods_.size()) refuse();
  for (size_t i = 0; i < methods_.size(); ++i) methods_[i]->read(methods[i]);
  for (const Config& owner : owners.items()) {
    const int64_t method = owner[1].integer();
    if (method < 0 || method >= static_cast<int64_t>(methods_.size())) refuse();
    owners_[owner[0].text()] = static_cast<size_t>(method);
  }
}

}  // namespace volador::tune::determined
