// A study shared by many workers: hands out configurations, receives their results and decides which trials to stop
// early. Pure: requests and the time in, responses and events to store out. Replaying the same events restores exactly
// the same state.
//
//             ask                 tell
//   (new) ─────────▶ kRunning ───────────────▶ kComplete, kPruned, kFail
//                     │    ▲
//      lease expired  │    │ ask (before new trials), or a late report of its worker
//                     ▼    │
//                    kWaiting ── no retries left ──▶ kFail
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/language/reason.h"
#include "runtime/serialize/codec.h"
#include "tune/loop/objectives.h"
#include "tune/schedulers/scheduler.h"
#include "tune/searchers/searcher.h"

namespace volador::tune {

struct StudyDefinition {
  std::string name;                  // Letters, digits, '_', '-', '.'; 1 to 64.
  std::string space;                 // JSON; see space_json.h.
  std::string searcher = "tpe";      // See searcher_spec.h.
  std::string scheduler;             // See scheduler_spec.h; must not pause trials; empty: no early stopping.
  std::vector<std::string> metrics;  // One, or several if the searcher supports goals.
  std::vector<std::string> modes;    // "min" or "max", one per metric.
  uint64_t seed = 0;
  int64_t max_trials = 0;   // 0: the maximum, StudyLimits::kTrials.
  int64_t lease_s = 600;    // Maximum time between reports of a worker; 0: unlimited.
  int64_t max_retries = 2;  // Number of times a trial is reassigned after its lease expired.

  bool operator==(const StudyDefinition&) const = default;
};
VOLADOR_FIELDS(StudyDefinition, name, space, searcher, scheduler, metrics, modes, seed, max_trials, lease_s,
               max_retries);

struct StudyLimits {
  static constexpr size_t kNameBytes = 64;
  static constexpr size_t kSpaceBytes = 32 << 10;
  static constexpr size_t kParameters = 200;  // Drawn values, including those of all options.
  static constexpr size_t kObjectives = 8;
  static constexpr int64_t kTrials = 20'000;
  static constexpr size_t kConfigBytes = 16 << 20;  // Configurations of all trials, as JSON.
  static constexpr int64_t kAsked = 100;            // Per request.
  static constexpr size_t kTextBytes = 1024;        // A worker's name, a reason, a request id.
  static constexpr size_t kRequests = 1000;         // Number of request ids remembered.
  static constexpr int64_t kLeaseMostS = 30 * 86'400;
};

enum class StudyTrialState : uint8_t { kWaiting, kRunning, kComplete, kPruned, kFail };
inline constexpr int kStudyTrialStates = 5;
std::string_view to_string(StudyTrialState state);  // "waiting", "running", "complete", "pruned", "fail"
std::optional<StudyTrialState> study_trial_state_of(std::string_view word);

struct StudyTrial {
  int64_t number = 0;  // From 0.
  StudyTrialState state = StudyTrialState::kRunning;
  Config config;
  std::vector<double> values;  // One per metric; empty before its end, and if it failed.
  int64_t step = 0;            // Step of the last report; 0: none.
  double reported = 0;         // Value of the last report; may be NaN.
  int64_t attempt = 1;         // Number of times it was handed out.
  std::string worker;
  std::string reason;                    // Why it failed, was pruned or waits.
  std::string decision;                  // Response to its last report: "prune", "finish"; empty: continue.
  int64_t started_ms = 0, ended_ms = 0;  // Unix time; 0: not yet.
  int64_t lease_ends_ms = 0;             // 0: never, or it is not running.
  std::string why = {};                  // `reason` as structured data; empty: only the text is known.

  void say(const Reason& of) {
    reason = of.text();
    why = of.to_json();
  }
};
VOLADOR_FIELDS(StudyTrial, number, state, config, values, step, reported, attempt, worker, reason, decision, started_ms,
               ended_ms, lease_ends_ms, why);
Reason reason_of(const StudyTrial& trial);

// State changes, as recorded in the journal.
struct StudyEvent {
  enum class Kind : uint8_t { kAsked, kTold, kReported, kLeasesEnded, kResumed };
  Kind kind = Kind::kAsked;
  int64_t at_ms = 0;
  std::string request;           // Request id; empty: none.
  std::vector<int64_t> numbers;  // Trial numbers, in the order handed out.
  std::vector<Config> configs;   // kAsked: those of the new trials, in order.
  std::string worker;
  StudyTrialState state = StudyTrialState::kComplete;  // kTold.
  std::vector<double> values;
  std::string reason;
  int64_t step = 0;  // kReported: the step; 0: heartbeat. kAsked: the number of trials.
  double value = 0;
};
VOLADOR_FIELDS(StudyEvent, kind, at_ms, request, numbers, configs, worker, state, values, reason, step, value);

// Stored response to a request, for repeated requests.
struct StudyAnswer {
  std::string request;
  uint64_t digest = 0;            // Hash of the request.
  std::vector<StudyTrial> given;  // Without their configurations.
  int64_t number = 0;
  std::string decision;
};
VOLADOR_FIELDS(StudyAnswer, request, digest, given, number, decision);

class SharedStudy {
 public:
  // kInvalidArgument: a member is invalid; the message names it, its value and the rule.
  [[nodiscard]] static Result<SharedStudy> create(StudyDefinition definition, int64_t now_ms);

  struct Asked {
    std::vector<StudyTrial> trials;  // In the state in which they were handed out.
    bool done = false;               // No more trials will follow; otherwise, if fewer than requested are returned, ask
                                     // again later.
    Reason reason;                   // Why fewer than requested are returned.
  };
  struct AskRequest {
    std::string request;
    int64_t count = 1;
    std::string worker;
  };
  // Hands out trials with expired leases first, then new ones. A repeated request gets its first response, unless that
  // had no trials. kInvalidArgument: the count is out of range, or the request id was used for another request.
  [[nodiscard]] Result<Asked> ask(const AskRequest& request, int64_t now_ms);

  struct TellRequest {
    std::string request;
    int64_t number = 0;
    StudyTrialState state = StudyTrialState::kComplete;  // Or kPruned, kFail.
    std::vector<double> values;  // Empty for kFail; for kPruned empty (the last report counts) or as for kComplete.
    std::string reason;
  };
  // A non-finite value makes the trial fail. The first result counts; repeating the same result returns the same
  // response. kNotFound: no such trial. kInvalidArgument: it ended with another result, the values do not match, or the
  // request id was used for another request.
  [[nodiscard]] Result<StudyTrial> tell(const TellRequest& request, int64_t now_ms);

  struct Verdict {
    bool should_stop = false;
    std::string decision;  // "continue"; "prune": others perform better; "finish": maximum length reached, or ended.
    Reason reason;
    int64_t lease_ends_ms = 0;
  };
  struct ReportRequest {
    std::string request;
    int64_t number = 0;
    int64_t step = 0;  // From 1; 0: a heartbeat.
    double value = 0;  // Finite or NaN.
  };
  // Renews the lease. A step that is not above the last one has no other effect and gets the standing decision.
  // kNotFound, kInvalidArgument: as above.
  [[nodiscard]] Result<Verdict> report(const ReportRequest& request, int64_t now_ms);

  // Requeues trials whose lease has expired for another worker, or fails them. Called at deadline_ms().
  void end_leases(int64_t now_ms);
  std::optional<int64_t> deadline_ms() const;
  // Restarts the leases after an outage of the head.
  void resume(int64_t now_ms);

  // Returns the state changes since the last call, to be stored before the response is sent.
  std::vector<StudyEvent> take_events();
  // Applies an event of the journal. kInternal: inconsistent with the state.
  [[nodiscard]] Result<void> replay(const StudyEvent& event);
  // Serialises the whole state, and restores it into a study of the same definition. kInvalidArgument: corrupt.
  std::string snapshot() const;
  [[nodiscard]] static Result<SharedStudy> restore(StudyDefinition definition, std::string_view snapshot);

  const StudyDefinition& definition() const { return definition_; }
  int64_t created_ms() const { return created_ms_; }
  const std::vector<StudyTrial>& trials() const { return trials_; }  // By number.
  const std::vector<int64_t>& counts() const { return counts_; }     // By state.
  // The best trial; with several metrics the Pareto front, in the order told.
  const std::vector<int64_t>& best() const { return best_; }
  size_t config_bytes() const { return config_bytes_; }  // Configurations of all trials, as JSON.
  std::string searcher_text() const { return searcher_->describe(); }
  std::string scheduler_text() const { return scheduler_ ? scheduler_->describe() : ""; }
  // Suggestions that differed in a replay, because of another version of the searcher. Trials keep their original
  // configurations.
  int64_t differences() const { return differences_; }

 private:
  SharedStudy() = default;
  Result<void> make_parts();
  // Returns null if the request is new.
  Result<const StudyAnswer*> answered(const StudyEvent& event) const;
  void remember(const StudyEvent& event, StudyAnswer answer);
  Asked answer_of(const StudyAnswer& answer) const;
  Result<Suggestion::Kind> suggest_into(StudyEvent& event, Reason& why);
  bool may_still_give() const;
  Error no_trial(int64_t number) const;
  Result<StudyEvent> checked(const TellRequest& request) const;
  struct Ending {
    StudyTrialState state = StudyTrialState::kComplete;
    std::vector<double> values;
    Reason reason;
  };
  Ending ending_of(const StudyEvent& told) const;

  // Effects of an event, both live and in a replay.
  void apply_asked(const StudyEvent& event);
  void apply_told(const StudyEvent& event);
  void apply_reported(const StudyEvent& event);
  void apply_leases_ended(const StudyEvent& event);
  void apply_resumed(const StudyEvent& event);
  void add_trial(Config config);
  void give_out(StudyTrial& trial, const StudyEvent& event);
  void end(StudyTrial& trial, const Ending& ending, int64_t now_ms);
  void judge(const StudyTrial& trial);
  void set_state(StudyTrial& trial, StudyTrialState state);
  void set_lease(StudyTrial& trial, int64_t from_ms);
  Verdict verdict_on(const StudyTrial& trial) const;
  TrialId id_of(int64_t number) const { return TrialId::of(definition_.seed, number); }

  StudyDefinition definition_;
  int64_t created_ms_ = 0;
  std::vector<Objective> objectives_;
  std::unique_ptr<Searcher> searcher_;
  std::unique_ptr<Scheduler> scheduler_;  // Null: no scheduler.
  std::vector<StudyTrial> trials_;
  std::vector<int64_t> counts_ = std::vector<int64_t>(kStudyTrialStates);
  std::vector<int64_t> best_;
  std::set<int64_t> waiting_;
  std::set<std::pair<int64_t, int64_t>> leases_;  // Expiry, number.
  size_t config_bytes_ = 0;
  std::deque<StudyAnswer> answers_;
  std::vector<StudyEvent> events_;
  int64_t differences_ = 0;
};

}  // namespace volador::tune
