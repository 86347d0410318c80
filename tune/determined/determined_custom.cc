#include "tune/determined/determined_custom.h"

#include <algorithm>
#include <array>

namespace volador::tune::determined {
namespace {

using Kind = SearchEvent::Kind;

constexpr std::array<std::string_view, 6> kEventNames = {"initial_operations",   "trial_created", "trial_progress",
                                                         "validation_completed", "trial_closed",  "trial_exited_early"};
constexpr std::array<std::string_view, 5> kReasonNames = {"ERRORED", "INVALID_HP", "INIT_INVALID_HP",
                                                          "USER_REQUESTED_STOP", "USER_CANCELED"};

// Index of the name; throws kInvalidArgument.
template <class Names>
size_t index_of(const Names& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw Exception(Error{ErrorCode::kInvalidArgument, "unknown event or reason \"" + name + "\""});
  return static_cast<size_t>(found - names.begin());
}

SearchEvent event_from(const Config& config) {
  SearchEvent event{.id = config.integer("id"),
                    .kind = static_cast<Kind>(index_of(kEventNames, config.text("event"))),
                    .request = config.get_or("request", ""),
                    .length = config.get_or("length", 0)};
  if (event.kind == Kind::kValidationCompleted) event.value = config.real("metric");
  if (event.kind == Kind::kTrialProgress) event.value = config.real("units");
  if (event.kind == Kind::kTrialExitedEarly)
    event.reason = static_cast<ExitReason>(index_of(kReasonNames, config.text("reason")));
  return event;
}

}  // namespace

std::string_view to_string(SearchEvent::Kind kind) { return kEventNames[static_cast<size_t>(kind)]; }
std::string_view to_string(ExitReason reason) { return kReasonNames[static_cast<size_t>(reason)]; }

Config to_config(const SearchEvent& event) {
  Config out{{"id", event.id}, {"event", to_string(event.kind)}};
  if (event.kind != Kind::kInitialOperations) out.set("request", event.request);
  if (event.kind == Kind::kValidationCompleted) {
    out.set("length", event.length);
    out.set("metric", event.value);
  }
  if (event.kind == Kind::kTrialProgress) out.set("units", event.value);
  if (event.kind == Kind::kTrialExitedEarly) out.set("reason", to_string(event.reason));
  return out;
}

void CustomMethod::add(SearchEvent event) {
  event.id = ++last_;
  events_.push_back(std::move(event));
}

void CustomMethod::answer(int64_t event, const Operations& operations, std::optional<double> progress) {
  while (!events_.empty() && events_.front().id <= event) events_.pop_front();
  answered_ = event;
  if (progress) progress_ = *progress;
  for (const Operation& operation : operations) {
    if (const auto* validate = std::get_if<ValidateAfter>(&operation)) lengths_[validate->request] = validate->length;
  }
}

Operations CustomMethod::initial_operations(Creator&) {
  add({.kind = Kind::kInitialOperations});
  return {};
}

void CustomMethod::created(const RequestId& request) { add({.kind = Kind::kTrialCreated, .request = request}); }

Operations CustomMethod::validated(Creator&, const RequestId& request, double metric) {
  const auto asked = lengths_.extract(request);
  add({.kind = Kind::kValidationCompleted,
       .request = request,
       .length = asked.empty() ? 0 : asked.mapped(),
       .value = metric});
  return {};
}

void CustomMethod::trained(const RequestId& request, double units) {
  std::erase_if(events_, [&](const SearchEvent& event) {
    return event.kind == Kind::kTrialProgress && event.request == request;
  });
  add({.kind = Kind::kTrialProgress, .request = request, .value = units});
}

Operations CustomMethod::closed(Creator&, const RequestId& request) {
  add({.kind = Kind::kTrialClosed, .request = request});
  return {};
}

Operations CustomMethod::exited(Creator&, const RequestId& request, ExitReason reason) {
  lengths_.erase(request);
  add({.kind = Kind::kTrialExitedEarly, .request = request, .reason = reason});
  return {};
}

Config CustomMethod::state() const {
  Config events = Config::list({}), lengths = Config::list({});
  for (const SearchEvent& event : events_) events.push_back(to_config(event));
  std::map<RequestId, int64_t> ordered(lengths_.begin(), lengths_.end());
  for (const auto& [request, length] : ordered) lengths.push_back(Config::list({request, length}));
  return {{"events", std::move(events)},
          {"last", last_},
          {"answered", answered_},
          {"progress", progress_},
          {"lengths", std::move(lengths)}};
}

void CustomMethod::read(const Config& state) {
  const Config events = state["events"], lengths = state["lengths"];
  for (const Config& event : events.items()) events_.push_back(event_from(event));
  for (const Config& one : lengths.items()) lengths_[one[0].text()] = one[1].integer();
  last_ = state.integer("last");
  answered_ = state.integer("answered");
  progress_ = state.real("progress");
}

}  // namespace volador::tune::determined
