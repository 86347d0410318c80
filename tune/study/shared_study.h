// A study that many workers share: it gives out configurations, is told what came of them, and says which trials may
// stop early. Pure: requests and the time in, answers and what to remember out. Told the same events again, it comes to
// the same state, byte for byte.
//
//             ask                 tell
//   (new) ─────────▶ kRunning ───────────────▶ kComplete, kPruned, kFail
//                     │    ▲
//     its lease ended │    │ ask (before any new one), or its worker reports after all
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
  std::string space;                 // JSON: space_json.h.
  std::string searcher = "tpe";      // searcher_spec.h.
  std::string scheduler;             // scheduler_spec.h, one that never pauses; empty: reports decide nothing.
  std::vector<std::string> metrics;  // One; several where the searcher takes goals.
  std::vector<std::string> modes;    // "min" or "max" of each.
  uint64_t seed = 0;
  int64_t max_trials = 0;   // 0: the limit.
  int64_t lease_s = 600;    // How long a worker may say nothing of its trial; 0: for ever.
  int64_t max_retries = 2;  // How often a trial whose lease ended is given out again.

  bool operator==(const StudyDefinition&) const = default;
};
VOLADOR_FIELDS(StudyDefinition, name, space, searcher, scheduler, metrics, modes, seed, max_trials, lease_s,
               max_retries);

struct StudyLimits {
  static constexpr size_t kNameBytes = 64;
  static constexpr size_t kSpaceBytes = 32 << 10;
  static constexpr size_t kParameters = 200;  // Drawn values, those of all options counted.
  static constexpr size_t kObjectives = 8;
  static constexpr int64_t kTrials = 20'000;
  static constexpr size_t kConfigBytes = 16 << 20;  // Of all its trials, as JSON.
  static constexpr int64_t kAsked = 100;            // At once.
  static constexpr size_t kTextBytes = 1024;        // A worker's name, a reason, a request id.
  static constexpr size_t kRequests = 1000;         // Whose ids are known.
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
  std::vector<double> values;  // Of the metrics; empty before its end, and where it failed.
  int64_t step = 0;            // Of the last report; 0: none.
  double reported = 0;         // What that said; may be NaN.
  int64_t attempt = 1;         // How often it was given out.
  std::string worker;
  std::string reason;                    // Why it failed, was pruned or waits.
  std::string decision;                  // What its last report was told: "prune", "finish"; empty: go on.
  int64_t started_ms = 0, ended_ms = 0;  // Unix time; 0: not yet.
  int64_t lease_ends_ms = 0;             // 0: never, or it does not run.
  std::string why = {};                  // `reason` as data; empty: the text is all there is.

  void say(const Reason& of) {
    reason = of.text();
    why = of.to_json();
  }
};
VOLADOR_FIELDS(StudyTrial, number, state, config, values, step, reported, attempt, worker, reason, decision, started_ms,
               ended_ms, lease_ends_ms, why);
Reason reason_of(const StudyTrial& trial);

// What happened: the journal's records.
struct StudyEvent {
  enum class Kind : uint8_t { kAsked, kTold, kReported, kLeasesEnded, kResumed };
  Kind kind = Kind::kAsked;
  int64_t at_ms = 0;
  std::string request;           // Id; empty: none.
  std::vector<int64_t> numbers;  // Of trials, in the order given out.
  std::vector<Config> configs;   // Asked: of those that are new, in order.
  std::string worker;
  StudyTrialState state = StudyTrialState::kComplete;  // Told.
  std::vector<double> values;
  std::string reason;
  int64_t step = 0;  // Reported; 0: it lives, no more. Asked: how many.
  double value = 0;
};
VOLADOR_FIELDS(StudyEvent, kind, at_ms, request, numbers, configs, worker, state, values, reason, step, value);

// A request that was answered.
struct StudyAnswer {
  std::string request;
  uint64_t digest = 0;            // Of what was asked.
  std::vector<StudyTrial> given;  // Without their configurations.
  int64_t number = 0;
  std::string decision;
};
VOLADOR_FIELDS(StudyAnswer, request, digest, given, number, decision);

class SharedStudy {
 public:
  // kInvalidArgument: a member is wrong; the message names it, what it is and the rule.
  [[nodiscard]] static Result<SharedStudy> create(StudyDefinition definition, int64_t now_ms);

  struct Asked {
    std::vector<StudyTrial> trials;  // As they were given out.
    bool done = false;               // There will be no more; else fewer than asked for means: ask again later.
    Reason reason;                   // Why there are fewer.
  };
  struct AskRequest {
    std::string request;
    int64_t count = 1;
    std::string worker;
  };
  // Trials whose lease ended come first. A repeated request gets the answer of the first time, save that one without
  // trials is asked anew. kInvalidArgument: the count, or a request id of something else.
  [[nodiscard]] Result<Asked> ask(const AskRequest& request, int64_t now_ms);

  struct TellRequest {
    std::string request;
    int64_t number = 0;
    StudyTrialState state = StudyTrialState::kComplete;  // Or kPruned, kFail.
    std::vector<double> values;  // None for kFail; for kPruned none (the last report counts) or as for kComplete.
    std::string reason;
  };
  // A value that is not finite makes it a failed trial. Whoever tells first counts; the same told again gets the same
  // answer. kNotFound: no such trial. kInvalidArgument: it ended otherwise, the values do not fit, a request id of
  // something else.
  [[nodiscard]] Result<StudyTrial> tell(const TellRequest& request, int64_t now_ms);

  struct Verdict {
    bool should_stop = false;
    std::string
        decision;  // "continue"; "prune": others do better; "finish": it has run as long as a trial may, or has ended.
    Reason reason;
    int64_t lease_ends_ms = 0;
  };
  struct ReportRequest {
    std::string request;
    int64_t number = 0;
    int64_t step = 0;  // From 1; 0: nothing but that it lives.
    double value = 0;  // Finite or NaN.
  };
  // Renews the lease. A step that is not above the last one changes nothing else and gets the standing decision.
  // kNotFound, kInvalidArgument: as above.
  [[nodiscard]] Result<Verdict> report(const ReportRequest& request, int64_t now_ms);

  // Trials whose lease has ended by now wait for another worker, or fail. At the deadline.
  void end_leases(int64_t now_ms);
  std::optional<int64_t> deadline_ms() const;
  // The head was away, which is no fault of the workers: leases begin anew.
  void resume(int64_t now_ms);

  // What changed since: to be stored before it is answered.
  std::vector<StudyEvent> take_events();
  // An event of a journal. kInternal: it does not fit the state.
  [[nodiscard]] Result<void> replay(const StudyEvent& event);
  // The whole state, and back into a study of the same definition. kInvalidArgument: torn.
  std::string snapshot() const;
  [[nodiscard]] static Result<SharedStudy> restore(StudyDefinition definition, std::string_view snapshot);

  const StudyDefinition& definition() const { return definition_; }
  int64_t created_ms() const { return created_ms_; }
  const std::vector<StudyTrial>& trials() const { return trials_; }  // By number.
  const std::vector<int64_t>& counts() const { return counts_; }     // By state.
  // The best one; of several metrics those that no other one is better than, in the order told.
  const std::vector<int64_t>& best() const { return best_; }
  size_t config_bytes() const { return config_bytes_; }  // Of all trials, as JSON.
  std::string searcher_text() const { return searcher_->describe(); }
  std::string scheduler_text() const { return scheduler_ ? scheduler_->describe() : ""; }
  // Suggestions that came out otherwise in a replay: another version of the searcher. Those that were given out stay.
  int64_t differences() const { return differences_; }

 private:
  SharedStudy() = default;
  Result<void> make_parts();
  // Null: it is new.
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

  // What an event does, now and in a replay.
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
  std::unique_ptr<Scheduler> scheduler_;  // Null: none.
  std::vector<StudyTrial> trials_;
  std::vector<int64_t> counts_ = std::vector<int64_t>(kStudyTrialStates);
  std::vector<int64_t> best_;
  std::set<int64_t> waiting_;
  std::set<std::pair<int64_t, int64_t>> leases_;  // End, number.
  size_t config_bytes_ = 0;
  std::deque<StudyAnswer> answers_;
  std::vector<StudyEvent> events_;
  int64_t differences_ = 0;
};

}  // namespace volador::tune
