#include "volador/roles/study_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "runtime/nearest_word.h"
#include "runtime/quantities.h"
#include "volador/roles/study_messages.h"

namespace volador {

// A row of `studies`; in this file for the codec.
struct StudyRecord {
  tune::StudyDefinition definition;
  int64_t created_ms = 0;
  std::string request;
};
VOLADOR_FIELDS(StudyRecord, definition, created_ms, request);
struct StudyStateRecord {
  uint64_t next = 0;
  std::string snapshot;
};
VOLADOR_FIELDS(StudyStateRecord, next, snapshot);
struct StudyDeletionRecord {
  std::string study;
  int64_t at_ms = 0;
};
VOLADOR_FIELDS(StudyDeletionRecord, study, at_ms);

namespace {

constexpr const char* kStudies = "studies";
constexpr const char* kStates = "study_states";
constexpr const char* kEvents = "study_events";
constexpr const char* kRequests = "study_requests";
constexpr size_t kTrialsPage = 1000, kTrialsPageMost = 20'000;
constexpr int64_t kAskAgainMs = 1000;
constexpr uint64_t kReplayedMost = 4000;  // Events, for a study with many trials.

std::string event_key(const std::string& study, uint64_t number) { return fmt::format("{}/{:016x}", study, number); }

// Error for an unreadable stored study.
tl::unexpected<Error> damaged(const std::string& study, std::string_view why) {
  return make_error(
      ErrorCode::kInternal,
      fmt::format("study {}: what is stored of it cannot be read: {}. Delete it to use the name again.", study, why));
}

}  // namespace

// ---- The store.

void StudyRegistry::load(std::string_view table, std::string_view key, std::string_view value) {
  if (table == kRequests) {
    if (const auto deletion = from_bytes<StudyDeletionRecord>(value))
      deletions_[std::string(key)] = {deletion->study, deletion->at_ms};
    return;
  }
  const size_t slash = table == kEvents ? std::min(key.find('/'), key.size()) : key.size();
  Stored& stored = stored_[std::string(key.substr(0, slash))];
  if (table == kStudies) stored.definition = value;
  if (table == kStates) stored.state = value;
  if (table != kEvents) return;
  uint64_t number = 0;
  const std::string_view text = key.substr(std::min(slash + 1, key.size()));
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  stored.events[number] = value;
}

Result<StudyRegistry::Held> StudyRegistry::restored(const Stored& stored) const {
  const auto record = from_bytes<StudyRecord>(stored.definition);
  if (!record) return make_error(record.error());
  uint64_t next = 0;
  auto study = [&]() -> Result<tune::SharedStudy> {
    if (stored.state.empty()) return tune::SharedStudy::create(record->definition, record->created_ms);
    const auto state = from_bytes<StudyStateRecord>(stored.state);
    if (!state) return make_error(state.error());
    next = state->next;
    return tune::SharedStudy::restore(record->definition, state->snapshot);
  }();
  if (!study) return make_error(study.error());
  Held held{.study = std::move(*study), .request = record->request, .first = next, .next = next};
  for (const auto& [number, bytes] : stored.events) {
    if (number < held.next) continue;
    if (number != held.next) return make_error(ErrorCode::kInternal, fmt::format("event {} is missing", held.next));
    const auto event = from_bytes<tune::StudyEvent>(bytes);
    if (!event) return make_error(event.error());
    VOLADOR_TRY(held.study.replay(*event));
    ++held.next;
  }
  return held;
}

void StudyRegistry::open(int64_t now_ms) {
  for (const auto& [name, stored] : stored_) {
    auto held = restored(stored);
    if (held) {
      held->study.resume(now_ms);
      studies_.emplace(name, std::move(*held));
      changed_.insert(name);
    } else {
      unreadable_[name] = damaged(name, held.error().message).value();
    }
  }
  stored_.clear();
}

std::vector<head::Mutation> StudyRegistry::take_mutations() {
  for (const std::string& name : changed_) {
    const auto found = studies_.find(name);
    if (found == studies_.end()) continue;
    Held& held = found->second;
    for (const tune::StudyEvent& event : held.study.take_events())
      mutations_.push_back({kEvents, event_key(name, held.next++), to_bytes(event)});
    // A snapshot costs as much as there are trials, and a replay what the searcher needs for the events; both are
    // limited.
    const uint64_t due =
        std::max<uint64_t>(limits_.events_min, std::min<uint64_t>(held.study.trials().size() / 4, kReplayedMost));
    if (held.next - held.first < due) continue;
    mutations_.push_back({kStates, name, to_bytes(StudyStateRecord{held.next, held.study.snapshot()})});
    while (held.first < held.next) mutations_.push_back({kEvents, event_key(name, held.first++), std::nullopt});
  }
  changed_.clear();
  return std::exchange(mutations_, {});
}

// ---- Requests.

Result<const StudyRegistry::Held*> StudyRegistry::find(const std::string& name) const {
  const auto found = studies_.find(name);
  if (found != studies_.end()) return &found->second;
  if (const auto lost = unreadable_.find(name); lost != unreadable_.end()) return make_error(lost->second);
  std::vector<std::string> names;
  for (const auto& [known, held] : studies_) names.push_back(known);
  return make_error(ErrorCode::kNotFound, fmt::format("there is no study \"{}\"{}", name.substr(0, 80),
                                                      did_you_mean(name.substr(0, 80), names)));
}

Result<StudyRegistry::Held*> StudyRegistry::find(const std::string& name) {
  const auto found = std::as_const(*this).find(name);
  if (!found) return make_error(found.error());
  return const_cast<Held*>(*found);
}

Result<v1::Study> StudyRegistry::create(const v1::CreateStudyRequest& request, int64_t now_ms) {
  auto definition = definition_of(request);
  if (!definition) return make_error(definition.error());
  if (const auto lost = unreadable_.find(definition->name); lost != unreadable_.end()) return make_error(lost->second);
  if (const auto found = studies_.find(definition->name); found != studies_.end()) {
    const Held& held = found->second;
    const bool repeated = !request.request_id().empty() && held.request == request.request_id();
    const std::string differs = differences(held.study.definition(), *definition);
    if ((repeated || request.load_if_exists()) && differs.empty()) return to_api(held.study);
    return make_error(
        ErrorCode::kInvalidArgument,
        differs.empty()
            ? fmt::format(
                  "study.name: there is a study \"{}\" already: take another name, or load_if_exists to work on it",
                  definition->name)
            : fmt::format("study.name: there is a study \"{}\" already, with another {}: take another name, or ask for "
                          "the same",
                          definition->name, differs));
  }
  if (request.request_id().size() > tune::StudyLimits::kTextBytes)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("request_id: {} bytes; at most {} are kept", request.request_id().size(),
                                  tune::StudyLimits::kTextBytes));
  if (studies_.size() + unreadable_.size() >= limits_.studies)
    return make_error(
        ErrorCode::kInfeasible,
        fmt::format("there {}, and a head keeps no more: delete one that is not needed any more",
                    limits_.studies == 1 ? "is 1 study" : fmt::format("are {} studies", limits_.studies)));
  auto study = tune::SharedStudy::create(std::move(*definition), now_ms);
  if (!study) return make_error(study.error());
  const std::string name = study->definition().name;
  mutations_.push_back({kStudies, name, to_bytes(StudyRecord{study->definition(), now_ms, request.request_id()})});
  const auto made = studies_.emplace(name, Held{.study = std::move(*study), .request = request.request_id()}).first;
  return to_api(made->second.study);
}

Result<v1::Study> StudyRegistry::get(const v1::GetStudyRequest& request) const {
  const auto held = find(request.study());
  if (!held) return make_error(held.error());
  return to_api((*held)->study);
}

v1::ListStudiesReply StudyRegistry::list() const {
  v1::ListStudiesReply reply;
  for (const auto& [name, held] : studies_) *reply.add_studies() = to_api(held.study);
  return reply;
}

Result<v1::DeleteStudyReply> StudyRegistry::remove(const v1::DeleteStudyRequest& request, int64_t now_ms) {
  const std::string& name = request.study();
  const std::string& id = request.request_id();
  if (const auto before = deletions_.find(id); !id.empty() && before != deletions_.end()) {
    if (before->second.study == name) return v1::DeleteStudyReply();
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("request_id: \"{}\" deleted study {}: take a new one for each request", id, before->second.study));
  }
  if (id.size() > tune::StudyLimits::kTextBytes)
    return make_error(ErrorCode::kInvalidArgument, fmt::format("request_id: {} bytes; at most {} are kept", id.size(),
                                                               tune::StudyLimits::kTextBytes));
  const auto found = studies_.find(name);
  if (found == studies_.end() && !unreadable_.contains(name))
    return make_error(std::as_const(*this).find(name).error());
  mutations_.push_back({kStudies, name, std::nullopt});
  mutations_.push_back({kStates, name, std::nullopt});
  if (found != studies_.end()) {
    for (uint64_t number = found->second.first; number < found->second.next; ++number)
      mutations_.push_back({kEvents, event_key(name, number), std::nullopt});
    studies_.erase(found);
  }
  unreadable_.erase(name);
  changed_.erase(name);
  if (id.empty()) return v1::DeleteStudyReply();
  deletions_[id] = {name, now_ms};
  mutations_.push_back({kRequests, id, to_bytes(StudyDeletionRecord{name, now_ms})});
  if (deletions_.size() > limits_.deletions) {
    const auto oldest = std::min_element(deletions_.begin(), deletions_.end(),
                                         [](const auto& a, const auto& b) { return a.second.at_ms < b.second.at_ms; });
    mutations_.push_back({kRequests, oldest->first, std::nullopt});
    deletions_.erase(oldest);
  }
  return v1::DeleteStudyReply();
}

Result<v1::ListStudyTrialsReply> StudyRegistry::trials(const v1::ListStudyTrialsRequest& request) const {
  const auto held = find(request.study());
  if (!held) return make_error(held.error());
  const auto state = tune::study_trial_state_of(request.state());
  if (!request.state().empty() && !state)
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("state: expected waiting, running, complete, pruned or fail, got \"{}\"", request.state()));
  if (request.page_size() < 0 || static_cast<size_t>(request.page_size()) > kTrialsPageMost)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("page_size: expected 0 to {}, got {}", kTrialsPageMost, request.page_size()));
  int64_t from = 0;
  const std::string& token = request.page_token();
  if (!token.empty() &&
      (std::from_chars(token.data(), token.data() + token.size(), from).ptr != token.data() + token.size() || from < 0))
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("page_token: expected next_page_token of the page before, got \"{}\"", token.substr(0, 40)));
  const size_t size = request.page_size() == 0 ? kTrialsPage : static_cast<size_t>(request.page_size());
  v1::ListStudyTrialsReply reply;
  for (const tune::StudyTrial& trial : (*held)->study.trials()) {
    if (state && trial.state != *state) continue;
    reply.set_total(reply.total() + 1);
    if (trial.number < from) continue;
    if (static_cast<size_t>(reply.trials_size()) < size) {
      *reply.add_trials() = to_api(trial);
    } else if (reply.next_page_token().empty()) {
      reply.set_next_page_token(std::to_string(trial.number));
    }
  }
  return reply;
}

Result<v1::AskReply> StudyRegistry::ask(const v1::AskRequest& request, int64_t now_ms) {
  const auto held = find(request.study());
  if (!held) return make_error(held.error());
  size_t bytes = 0;
  for (const auto& [name, one] : studies_) bytes += one.study.config_bytes();
  if (bytes >= limits_.config_bytes)
    return make_error(ErrorCode::kInfeasible, fmt::format("the configurations of all studies take {} MiB, and a head "
                                                          "keeps no more: delete a study that is not needed any more",
                                                          bytes >> 20));
  const auto asked = (*held)->study.ask({.request = request.request_id(),
                                         .count = request.count() == 0 ? 1 : request.count(),
                                         .worker = request.worker()},
                                        now_ms);
  if (!asked) return make_error(asked.error());
  changed_.insert(request.study());
  v1::AskReply reply;
  for (const tune::StudyTrial& trial : asked->trials) *reply.add_trials() = to_api(trial);
  reply.set_done(asked->done);
  set_reason(reply, asked->reason);
  if (asked->trials.empty() && !asked->done) reply.set_retry_after_ms(kAskAgainMs);
  return reply;
}

Result<v1::StudyTrial> StudyRegistry::tell(const v1::TellRequest& request, int64_t now_ms) {
  const auto held = find(request.study());
  if (!held) return make_error(held.error());
  const auto told = told_of(request);
  if (!told) return make_error(told.error());
  const auto trial = (*held)->study.tell(*told, now_ms);
  if (!trial) return make_error(trial.error());
  changed_.insert(request.study());
  return to_api(*trial);
}

Result<v1::ReportReply> StudyRegistry::report(const v1::ReportRequest& request, int64_t now_ms) {
  const auto held = find(request.study());
  if (!held) return make_error(held.error());
  const auto verdict = (*held)->study.report(
      {.request = request.request_id(), .number = request.number(), .step = request.step(), .value = request.value()},
      now_ms);
  if (!verdict) return make_error(verdict.error());
  changed_.insert(request.study());
  v1::ReportReply reply;
  reply.set_should_stop(verdict->should_stop);
  reply.set_decision(verdict->decision);
  set_reason(reply, verdict->reason);
  reply.set_lease_ends_ms(verdict->lease_ends_ms);
  return reply;
}

// ---- Time.

void StudyRegistry::end_leases(int64_t now_ms) {
  for (auto& [name, held] : studies_) {
    const auto deadline = held.study.deadline_ms();
    if (!deadline || *deadline > now_ms) continue;
    held.study.end_leases(now_ms);
    changed_.insert(name);
  }
}

std::optional<int64_t> StudyRegistry::deadline_ms() const {
  std::optional<int64_t> out;
  for (const auto& [name, held] : studies_) {
    const auto deadline = held.study.deadline_ms();
    if (deadline && (!out || *deadline < *out)) out = deadline;
  }
  return out;
}

}  // namespace volador
