#include "tune/determined/determined_methods.h"

#include <algorithm>
#include <numeric>

#include "tune/determined/determined_names.h"

namespace volador::tune::determined {
namespace {

// Progress in full runs: that of the closed and the running trials.
double full_runs(const std::set<RequestId>& closed, const std::map<RequestId, double>& units, int64_t max_length,
                 double trials) {
  double done = 0;
  for (const auto& [request, trained] : units) {
    if (!closed.contains(request)) done += std::min(trained, static_cast<double>(max_length));
  }
  done += static_cast<double>(closed.size()) * static_cast<double>(max_length);
  return std::min(done / (static_cast<double>(max_length) * trials), 1.0);
}

int64_t at_once(const SearchOptions& options, int64_t trials) {
  return options.max_concurrent_trials > 0 ? std::min(options.max_concurrent_trials, trials) : trials;
}

}  // namespace

// ---- Random.

void RandomMethod::begin(Operations& operations, Creator& creator) {
  Create create = creator.create();
  const RequestId request = create.request;
  operations.emplace_back(std::move(create));
  operations.emplace_back(ValidateAfter{request, options_.max_length});
  ++created_;
}

Operations RandomMethod::initial_operations(Creator& creator) {
  Operations operations;
  for (int64_t i = 0; i < at_once(options_, trials()); ++i) begin(operations, creator);
  return operations;
}

Operations RandomMethod::closed(Creator& creator, const RequestId& request) {
  Operations operations;
  closed_.insert(request);
  if (created_ < trials()) begin(operations, creator);
  return operations;
}

Operations RandomMethod::exited(Creator& creator, const RequestId&, ExitReason reason) {
  Operations operations;
  if (reason != ExitReason::kInvalidHp || single_) return operations;
  --created_;
  begin(operations, creator);
  return operations;
}

double RandomMethod::progress(const std::map<RequestId, double>& units) const {
  return full_runs(closed_, units, options_.max_length, static_cast<double>(trials()));
}

Config RandomMethod::state() const { return {{"created", created_}, {"closed", names(closed_)}}; }
void RandomMethod::read(const Config& state) {
  created_ = state.integer("created");
  closed_ = names_of(state["closed"]);
}

// ---- Grid.

void GridMethod::begin(Operations& operations, Creator& creator) {
  Create create = creator.create(std::move(left_.back()));
  left_.pop_back();
  const RequestId request = create.request;
  operations.emplace_back(std::move(create));
  operations.emplace_back(ValidateAfter{request, options_.max_length});
}

Operations GridMethod::initial_operations(Creator& creator) {
  Operations operations;
  for (int64_t i = at_once(options_, static_cast<int64_t>(total_)); i > 0; --i) begin(operations, creator);
  return operations;
}

Operations GridMethod::closed(Creator& creator, const RequestId& request) {
  Operations operations;
  closed_.insert(request);
  if (!left_.empty()) begin(operations, creator);
  return operations;
}

Operations GridMethod::exited(Creator& creator, const RequestId& request, ExitReason) {
  Operations operations;
  if (closed_.insert(request).second && !left_.empty()) begin(operations, creator);
  return operations;
}

double GridMethod::progress(const std::map<RequestId, double>& units) const {
  return full_runs(closed_, units, options_.max_length, static_cast<double>(total_));
}

Config GridMethod::state() const { return {{"left", left_.size()}, {"closed", names(closed_)}}; }
void GridMethod::read(const Config& state) {
  const int64_t left = state.integer("left");
  if (left < 0 || left > static_cast<int64_t>(left_.size()))
    throw Exception(Error{ErrorCode::kInvalidArgument, "of another grid"});
  left_.resize(static_cast<size_t>(left));
  closed_ = names_of(state["closed"]);
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
Operations TournamentMethod::closed(Creator& creator, const RequestId& request) {
  return ask(request, [&](Method& method) { return method.closed(creator, request); });
}
Operations TournamentMethod::exited(Creator& creator, const RequestId& request, ExitReason reason) {
  return ask(request, [&](Method& method) { return method.exited(creator, request, reason); });
}

double TournamentMethod::progress(const std::map<RequestId, double>& units) const {
  double sum = 0;
  for (const auto& method : methods_) sum += method->progress(units);
  return sum / static_cast<double>(methods_.size());
}

Config TournamentMethod::state() const {
  Config methods = Config::list({}), owners = Config::list({});
  for (const auto& method : methods_) methods.push_back(method->state());
  for (const auto& [request, method] : owners_) owners.push_back(Config::list({request, method}));
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
