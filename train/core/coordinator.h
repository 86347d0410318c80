// Elastic policy of a data-parallel training run: decides which worker processes form the group, when they pause, and
// what happens after a loss. Pure: no clock, thread, I/O or randomness. Events in, actions out; the shell carries the
// actions out by actor calls and reports the outcomes as events with their time.
//
// A run executes segments one after another (a segment is one call of train() or validate()). Each set of workers that
// trains together is a generation. Between segments the generation stays formed.
//
//              SegmentStart                enough ready            all Joined              all kFinished
//     kIdle ───────────────▶ kWaiting ──────── Form ──▶ kForming ──── Run ──▶ kRunning ──── Finish ──▶ kIdle
//                             ▲   ▲                        │                   │    │
//                             │   │                        │ lost, JoinFailed  │    │ Pause: newcomer ready, or notice
//                             │   │ all Stopped            ▼                   │    ▼
//                             │   └──────────────────── kAborting ◀────────────┴─ kPausing
//                             │                           Abort: lost, frozen, hung, kAborted   │
//                             └─────────────────────────────────── all Stopped ◀────────────────┘
//
// A SegmentStart in a formed and unchanged generation goes from kIdle to kRunning directly. Fail ends the run from any
// phase; the shell then ends all members.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/result.h"

namespace volador::train {

using MemberId = uint64_t;  // A worker process. Given by the coordinator from 1 on, increasing, never used again.

struct ElasticOptions {
  using Duration = std::chrono::nanoseconds;
  int min_workers = 1;                                      // A segment trains with at least this many; at least 1.
  int max_workers = 1;                                      // At most this many; equal to min_workers: a fixed world.
  int max_failures = -1;                                    // Lost members after which the run goes on; -1: unlimited.
  Duration start_timeout = std::chrono::seconds(60);        // Waiting without a committed step that fails the run.
  Duration grow_wait = Duration(0);                         // A newcomer waits this long for others that are starting.
  Duration hang_timeout = std::chrono::seconds(5);          // Least time in one step after which a member is hung.
  double hang_factor = 10;                                  // The same in medians of the step time; at least 1.
  Duration status_interval = std::chrono::seconds(1);       // Time between two requests for the members' status.
  Duration slow_report_interval = std::chrono::minutes(1);  // Least time between two ReportSlow of a member.
};

struct Progress {
  int64_t step = 0;  // Optimizer steps committed in the run.
  auto operator<=>(const Progress&) const = default;
};

enum class Stop : uint8_t {
  kFinished,  // The segment is done.
  kPaused,    // Stopped at a step boundary, as Pause asked.
  kAborted,   // The collective failed or Abort ended it; the step in progress is not committed.
};

// Events and actions of the coordinator. A generation in an event is the one the member was in; events of another
// generation than the current one, of members that are gone and repeated events change nothing.
namespace elastic {

// ---- Events.

struct MemberReady {  // The member's constructor and set-up are done.
  MemberId id = 0;
  std::string node = {};
};
struct MemberLost {  // The member died, was killed, or its node is lost.
  MemberId id = 0;
  std::string cause = {};
  bool is_failure = true;  // false: it could not even be asked for, as while the head is away.
};
struct NoRoom {  // The cluster cannot place this member now; it does not exist. A member may also wait for its place.
  MemberId id = 0;
};
struct MemberNotice {  // The member's node leaves soon.
  MemberId id = 0;
};
struct RoomAvailable {  // So many more members can be placed now. Needed only after NoRoom.
  int workers = 0;
};
struct SegmentStart {                 // Ignored while a segment runs.
  std::optional<int64_t> steps = {};  // For messages; no value: unknown.
  bool repeats = false;               // After a loss all members do it again, those that have finished too: validation.
};
struct StateReplaced {  // All living members of the generation have another state. Ignored while a segment runs.
  Progress progress = {};
};
struct Joined {  // The member is in the generation, has the state of its source and waits for Run.
  MemberId id = 0;
  uint64_t generation = 0;
  Progress progress = {};
};
struct JoinFailed {  // The member has left the generation; a receiver's state is worthless.
  MemberId id = 0;
  uint64_t generation = 0;
  std::string error = {};
};
struct Stopped {  // The answer to Run. Also the answer of a member that Abort found while joining (kAborted).
  MemberId id = 0;
  uint64_t generation = 0;
  uint64_t segment = 0;  // As in Run.
  Progress progress = {};
  Stop why = Stop::kFinished;
};
struct UserError {  // User code threw: the run fails. The generation is 0 before the first Form.
  MemberId id = 0;
  uint64_t generation = 0;
  std::string message = {};
};
struct Status {  // Answer to AskStatus.
  MemberId id = 0;
  uint64_t generation = 0;
  uint64_t round = 0;  // As in AskStatus.
  Progress progress = {};
  std::vector<MemberId> waiting_for = {};   // Members it waits for in a collective; empty: it runs code of its own.
  std::chrono::nanoseconds in_step_for{0};  // Time since its last committed step, or since Run.
};
struct NoStatus {  // The member did not answer AskStatus in time.
  MemberId id = 0;
  uint64_t round = 0;
};
struct Tick {};

using Event = std::variant<MemberReady, MemberLost, NoRoom, MemberNotice, RoomAvailable, SegmentStart, StateReplaced,
                           Joined, JoinFailed, Stopped, UserError, Status, NoStatus, Tick>;

// ---- Actions, to be carried out in order.

struct Spawn {  // Start these members; the shell answers each with MemberReady, MemberLost or NoRoom.
  std::vector<MemberId> members;
};
enum class KillCause : uint8_t {
  kLeaving,  // Its node leaves and the others have its state. No failure.
  kFrozen,   // It answers no status request.
  kHung,     // It does not come out of its own code, a join or an abort.
};
struct Kill {  // End the process. The coordinator counts it as gone at once; MemberLost need not follow.
  MemberId id = 0;
  KillCause cause = KillCause::kLeaving;
  std::string reason = {};  // A sentence for the log: what the member did.
};
struct Abort {  // Make these members give up the collective or join they are in; each answers Stopped.
  uint64_t generation = 0;
  std::vector<MemberId> members;
};
struct Pause {  // Make these members stop at their next common step boundary; each answers Stopped.
  uint64_t generation = 0;
  std::vector<MemberId> members;
};
// Form a group; each member answers Joined or JoinFailed. A receiver takes the source's state, or without a source the
// state kept outside the members (the last copy or checkpoint; if nothing is kept, the initial state made anew by rank
// 0). Before the first step of the run the source is rank 0 with its initial state.
struct Form {
  uint64_t generation = 0;
  std::vector<MemberId> members;    // By rank: survivors keep their order, newcomers follow, older first.
  std::optional<MemberId> source;   // The member with the highest step; among equals the lowest rank.
  std::vector<MemberId> receivers;  // Newcomers and members at another step than the source, by rank.
  size_t world() const { return members.size(); }
};
struct Run {  // All have joined: begin or go on with the segment; each member answers Stopped or UserError.
  uint64_t generation = 0;
  uint64_t segment = 0;  // Counts SegmentStart; a Form may lie between two Run of one segment.
  std::vector<MemberId> members;
};
struct AskStatus {  // The shell answers for each member with Status or NoStatus.
  uint64_t round = 0;
  std::vector<MemberId> members;
};
struct ReportSlow {  // The others wait for this member although it goes on.
  MemberId id = 0;
  double factor = 1;  // Estimate of its time in a step over the others'.
};
struct MemberProgress {
  MemberId id = 0;
  Progress progress;
};
struct Finish {                         // The segment is done; all have the same progress.
  std::vector<MemberProgress> members;  // By rank.
};
struct Fail {  // The run is over. kApplication, kActorDied (max_failures) or kUnavailable (too few workers).
  Error error;
};

using Action = std::variant<Spawn, Kill, Abort, Pause, Form, Run, AskStatus, ReportSlow, Finish, Fail>;
using Actions = std::vector<Action>;

}  // namespace elastic

// Decides the membership of a run.
//
// Losses. The survivors are aborted at once and go on as soon as all have stopped, if min_workers are left; otherwise
//   they wait for replacements. Replacements are asked for at once, later ones after members that died before a step
//   with a back-off of up to 5 s. If all members with state are gone, the next Form has no source.
// Joins. A ready newcomer pauses the generation at a step boundary.
// Notices. A replacement is asked for at once. The member leaves at the next step boundary, or, if fewer than
//   min_workers would be left, when its replacement is ready. If only leaving members have the state, a generation that
//   never runs hands it over. A leaving member ends after its successors have joined.
// Hangs. A member that misses two status requests is killed when another member waits for it or it was silent for its
//   limit: max(hang_timeout, hang_factor × median step time), and start_timeout before its first step. The same limit
//   holds for a member in its own code for which others wait, for a member that ignores Abort and for a collective in
//   which all wait. Joins are limited by start_timeout. A step in which no member waits may take any time.
// Bounds. Waiting adds up until a step is committed; after start_timeout of it the run fails.
//
// An event costs O(members), or O(members³) while a member is suspected to hang. Not thread safe.
class Coordinator {
 public:
  using Time = std::chrono::nanoseconds;  // Since any origin.
  enum class Phase : uint8_t { kIdle, kWaiting, kForming, kRunning, kPausing, kAborting, kFailed };

  // kInvalidArgument: an option is out of range; the message names it.
  [[nodiscard]] static Result<Coordinator> create(const ElasticOptions& options);

  // Called first, once: spawns max_workers members.
  [[nodiscard]] elastic::Actions begin(Time now);
  // `now` never decreases. Ignores events after Fail.
  [[nodiscard]] elastic::Actions handle(Time now, const elastic::Event& event);
  // When a Tick is due; an earlier or later Tick does no harm. No value: none.
  std::optional<Time> next_wakeup() const;

  uint64_t generation() const { return generation_; }       // That of the last Form; 0: none yet.
  uint64_t segment() const { return segment_; }             // That of the last SegmentStart; 0: none yet.
  size_t world() const { return world_; }                   // Workers of the last Form, lost ones too.
  std::vector<MemberId> members() const { return ranks_; }  // The living ones of the last Form, by rank.
  std::vector<MemberId> standby() const;                    // Ready, not in the last Form, not leaving.
  Phase phase() const { return phase_; }
  int failures() const { return failures_; }
  std::optional<Time> median_step_time() const;  // From statuses of recent steps. No value: unknown.
  // What the run does or waits for, in one or two sentences.
  std::string explain() const;

  // Aborts if members, ranks, phase and timers disagree. O(members); tests call it after each event.
  void check_invariants() const;

 private:
  enum class Part : uint8_t { kStarting, kStandby, kJoining, kJoined, kRunning, kStopped };
  struct Seen {  // The last status.
    uint64_t round = 0;
    Progress progress;
    std::vector<MemberId> waiting_for;
    Time in_step_for{0};
  };
  struct Member {
    Part part = Part::kStarting;
    std::string node;
    std::optional<Progress> progress;  // The state it holds; no value: none, or an incomplete copy.
    bool leaving = false;
    bool newcomer = true;       // Has not joined a generation yet.
    bool receiver = false;      // In the current generation.
    bool contributed = false;   // Took part in a committed step.
    int rank = -1;              // In the current generation; -1: not in it.
    Stop why = Stop::kAborted;  // With Part::kStopped.
    std::optional<Seen> seen;
    uint64_t missed_round = 0;
    int missed = 0;  // NoStatus in a row.
    Time heard_at{0};
    int slow_rounds = 0;
    int slow_waits = 0;
    int64_t slow_step = 0;  // At the first of slow_rounds.
    std::optional<Time> slow_reported_at;
  };

  explicit Coordinator(const ElasticOptions& options) : options_(options) {}

  void on(const elastic::MemberReady& event);
  void on(const elastic::MemberLost& event);
  void on(const elastic::NoRoom& event);
  void on(const elastic::MemberNotice& event);
  void on(const elastic::RoomAvailable& event);
  void on(const elastic::SegmentStart& event);
  void on(const elastic::StateReplaced& event);
  void on(const elastic::Joined& event);
  void on(const elastic::JoinFailed& event);
  void on(const elastic::Stopped& event);
  void on(const elastic::UserError& event);
  void on(const elastic::Status& event);
  void on(const elastic::NoStatus& event);
  void on(const elastic::Tick&) {}

  elastic::Actions settle();  // Follows the consequences of an event to their end and returns the actions.
  bool advance();             // Does one transition; false: none is due.
  bool advance_idle();
  bool advance_waiting();
  bool advance_forming();
  bool advance_active();  // kRunning and kPausing.
  bool advance_aborting();
  void enter_waiting();
  void form();
  void run();
  void pause();
  void abort(std::string why);
  void finish();
  void fail(ErrorCode code, std::string message);
  void fail_waiting(size_t ready);

  Member* find(MemberId id);
  Member* find_current(MemberId id, uint64_t generation);  // Null: not a member of the current generation.
  std::vector<MemberId> wanted() const;                    // The members that should train, by rank.
  std::optional<Progress> highest() const;                 // The highest state of all living members.
  bool state_is_safe() const;                              // A member that stays has the highest state.
  bool change_is_due();                                    // The membership should change now.
  int staying(bool starting_only) const;
  void lose(MemberId id, const std::string& cause, bool failure);
  void count_early_loss(MemberId id);
  void kill(MemberId id, elastic::KillCause cause, const std::string& reason);
  void retire_leaving();
  void spawn_missing();
  void note_step(const Progress& progress, Time at);  // `at`: when the step was committed.
  void ask_status();
  void count_slow();
  void find_hung();
  bool busy() const;  // Members may be in a collective.
  bool at_rest(const Member& member) const;
  bool is_waited_for(MemberId id) const;  // By a member of the generation that has stopped or says so.
  bool fresh(const Member& member) const;
  Time limit(const Member& member) const;    // In one step, or after an abort.
  void add_trouble(const std::string& why);  // The generation ends without a loss.
  std::string name(MemberId id) const;       // "rank 1 (member 5 on node b)".
  std::string names(const std::vector<MemberId>& ids) const;
  std::vector<MemberId> unfinished() const;  // Members of the generation that still run.

  ElasticOptions options_;
  elastic::Actions actions_;
  Time now_{0};
  Phase phase_ = Phase::kIdle;
  std::map<MemberId, Member> members_;
  MemberId next_id_ = 1;

  uint64_t generation_ = 0;
  std::vector<MemberId> ranks_;  // Living members of the generation.
  size_t world_ = 0;
  bool intact_ = false;    // All members of the generation have joined and none was lost.
  bool lost_ = false;      // The generation lost a member.
  bool handover_ = false;  // The generation only hands state over and does not run.
  bool join_failed_ = false;
  Time formed_at_{0};
  Time aborted_at_{0};
  std::string abort_why_;
  std::string loss_why_;  // The last loss in a generation.

  uint64_t segment_ = 0;
  bool segment_active_ = false;
  bool segment_repeats_ = false;
  std::optional<int64_t> segment_steps_;
  int64_t segment_first_step_ = 0;

  bool established_ = false;     // A Run was given: the state is more than rank 0's initial one.
  int64_t committed_ = 0;        // The highest known step of the present history.
  int64_t generation_step_ = 0;  // The step the generation began with.

  Time waiting_since_{0};
  Time waited_{0};     // Earlier waiting since the last committed step.
  int fruitless_ = 0;  // Generations since the last committed step that ended without a loss.
  Time form_at_{0};    // No Form earlier.
  std::string last_trouble_;
  std::optional<Time> change_since_;

  int failures_ = 0;
  std::deque<std::string> last_failures_;
  int early_losses_ = 0;          // Incidents in a row that cost members which took part in no step.
  MemberId early_loss_mark_ = 0;  // Members from here on were started after the last incident.
  MemberId pending_loss_ = 0;     // Youngest such member lost in this generation, which has committed no step; 0: none.
  Time spawn_at_{0};
  std::optional<int> room_;  // Optional members that may be spawned; no value: no NoRoom so far.
  int refused_ = 0;          // NoRoom in a row.
  Time room_at_{0};          // No retry for min_workers earlier.

  uint64_t round_ = 0;
  uint64_t first_round_ = 1;  // Only of this generation.
  Time status_at_{0};
  std::array<Time, 32> step_times_{};
  size_t step_times_count_ = 0;
  int64_t sample_step_ = 0;
  Time sample_at_{0};
};

// "kRunning" and so on.
std::string_view to_string(Coordinator::Phase phase);

}  // namespace volador::train
