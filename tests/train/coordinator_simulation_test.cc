#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/random.h"
#include "tests/how_many.h"
#include "train/core/coordinator.h"

namespace volador::train {
namespace {

using namespace elastic;  // NOLINT
using namespace std::chrono_literals;
using Time = Coordinator::Time;

constexpr int64_t kBatch = 12;  // Samples of a step, divided among the ranks.

// What a member has trained: for each step the generation that did it.
struct State {
  std::vector<uint64_t> history = {};
  int64_t step() const { return static_cast<int64_t>(history.size()); }
};

struct Process {
  enum class Does : uint8_t { kNothing, kJoins, kComputes, kWaits, kCommits };
  MemberId id = 0;
  int node = 0;
  bool placed = false;
  bool ready = false;
  bool dead = false;
  bool frozen = false;  // Executes and answers nothing.
  bool hangs = false;   // Does not come out of the next computation.
  bool noticed = false;
  bool known_gone = false;  // Reported as lost, or killed by the coordinator.
  std::optional<State> state = {};
  Does does = Does::kNothing;
  uint64_t turn = 0;  // Changes with `does`: cancels what was scheduled for it.
  uint64_t generation = 0;
  uint64_t segment = 0;
  size_t rank = 0;
  bool joined = false;
  bool pause = false;
  bool aborted = false;
  Time step_began{0};
  Time command_at{0};  // Commands and answers keep their order.
  Time answer_at{0};
  bool running() const { return does != Does::kNothing && does != Does::kJoins; }
};

// The collectives of a generation.
struct Group {
  Form form;
  std::set<MemberId> joining = {};
  bool broken = false;
  std::optional<State> source = {};
  struct Step {
    std::set<MemberId> arrived;
    std::vector<int> samples = std::vector<int>(kBatch, 0);
    bool pause = false;
    bool done = false;
  };
  std::map<int64_t, Step> steps = {};
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed * 7919 + 17), core_(Coordinator::create(draw()).value()) {}

  // Empty: all held.
  std::string run() {
    for (int i = 0; i < faults_; ++i) at(milliseconds(5000), [this] { fault(); });
    if (shortage_) {
      capacity_ = static_cast<int>(random_.below(static_cast<uint64_t>(options_.max_workers)));
      const bool forever = never_enough_;
      if (forever) capacity_ = options_.min_workers - 1;
      for (int i = 0; i < 3 && !forever; ++i)
        at(milliseconds(4000), [this] {
          capacity_ = static_cast<int>(random_.below(static_cast<uint64_t>(options_.max_workers) + 1));
          place();
        });
      if (!forever)
        queue_.push({5s, ++sequence_, [this] {
                       capacity_ = options_.max_workers + 3;
                       place();
                     }});
    }
    at(milliseconds(300), [this] { start_segment(); });
    carry_out(core_.begin(now_));
    while (error_.empty() && !ended_ && !queue_.empty()) {
      if (++events_ > 60000) return "does not end: " + core_.explain();
      Entry entry = queue_.top();
      queue_.pop();
      now_ = entry.time;
      if (now_ > 2000s) return "takes too long: " + core_.explain();
      entry.action();
    }
    if (error_.empty() && !ended_) return "stands still: " + core_.explain();
    return error_;
  }

  bool failed() const { return failed_; }
  uint64_t generations() const { return core_.generation(); }
  int restores() const { return restores_; }
  int repeats() const { return repeats_; }
  int handovers() const { return handovers_; }
  int hung() const { return hung_; }
  int events() const { return events_; }

 private:
  using Does = Process::Does;
  struct Entry {
    Time time;
    uint64_t order;
    std::function<void()> action;
    bool operator<(const Entry& other) const { return time != other.time ? time > other.time : order > other.order; }
  };

  ElasticOptions draw() {
    options_.max_workers = 1 + static_cast<int>(random_.below(5));
    options_.min_workers = 1 + static_cast<int>(random_.below(static_cast<uint64_t>(options_.max_workers)));
    if (random_.below(4) == 0) options_.max_failures = static_cast<int>(random_.below(4));
    if (random_.below(3) == 0) options_.grow_wait = milliseconds(500);
    options_.hang_timeout = 2s;
    faults_ = static_cast<int>(random_.below(12));
    shortage_ = random_.below(3) == 0;
    never_enough_ = shortage_ && random_.below(6) == 0;
    queues_ = random_.below(2) == 0;
    user_error_ = random_.below(25) == 0;
    segments_ = 1 + static_cast<int>(random_.below(3));
    capacity_ = options_.max_workers + 3;
    early_deaths_ = static_cast<int>(random_.below(7));
    join_failures_ = static_cast<int>(random_.below(3));
    slow_ = random_.below(8) == 0 ? 200 : 40;
    copy_every_ = 1 + static_cast<int64_t>(random_.below(4));
    return options_;
  }

  static Time milliseconds(uint64_t count) { return std::chrono::milliseconds(count); }
  bool chance(uint64_t percent) { return random_.below(100) < percent; }
  Time soon(uint64_t most_ms) { return std::chrono::microseconds(1 + random_.below(most_ms * 1000)); }
  Time delay() { return soon(chance(3) ? 300 : chance(20) ? 40 : 5); }
  void at(Time most, std::function<void()> action) {
    queue_.push({now_ + soon(static_cast<uint64_t>(most / 1ms)), ++sequence_, std::move(action)});
  }
  void expect(bool condition, const std::string& what) {
    if (!condition && error_.empty()) error_ = what + "; " + core_.explain();
  }

  // ---- The shell.

  void event(const Event& event) {
    if (ended_ || !error_.empty()) return;
    if (const auto* lost = std::get_if<MemberLost>(&event)) process(lost->id).known_gone = true;
    if (const auto* ready = std::get_if<MemberReady>(&event);
        ready && !established_ && process(ready->id).generation == 0)
      process(ready->id).state = State{};
    carry_out(core_.handle(now_, event));
    core_.check_invariants();
    expect(!core_.explain().empty(), "no explanation");
  }

  void carry_out(const Actions& actions) {
    for (const Action& action : actions)
      if (error_.empty()) std::visit([this](const auto& one) { carry_out(one); }, action);
    const auto next = core_.next_wakeup();
    if (!next || (tick_at_ && *tick_at_ <= *next)) return;
    expect(*next > now_, "a wakeup in the past");
    tick_at_ = *next;
    queue_.push({*next, ++sequence_, [this, time = *next] {
                   if (tick_at_ != time) return;
                   tick_at_.reset();
                   event(Tick{});
                 }});
  }

  void carry_out(const Spawn& spawn) {
    for (const MemberId id : spawn.members) {
      expect(id == processes_.size() + 1, "an id out of order");
      processes_.push_back({.id = id});
    }
    at(20ms, [this] { place(); });
  }

  void carry_out(const Kill& kill) {
    Process& p = process(kill.id);
    expect(!p.known_gone, "kills a member that is gone");
    if (kill.cause == KillCause::kLeaving) {
      expect(p.noticed, "lets a member leave without notice");
    } else {
      ++hung_;
      expect(p.dead || p.frozen || p.hangs, "kills a healthy member: " + kill.reason);
    }
    p.known_gone = true;
    at(30ms, [this, id = kill.id] { die(id, 30ms); });
  }

  void carry_out(const Abort& abort) {
    for (const MemberId id : abort.members) {
      expect(abort.generation == core_.generation() && !process(id).known_gone, "aborts a stranger");
      command(id, [this, generation = abort.generation](Process& p) { on_abort(p, generation); });
    }
  }

  void carry_out(const Pause& pause) {
    for (const MemberId id : pause.members) {
      expect(pause.generation == core_.generation() && !process(id).known_gone, "pauses a stranger");
      command(id, [generation = pause.generation](Process& p) { p.pause = p.pause || p.generation == generation; });
    }
  }

  void carry_out(const Form& form) {
    expect(form.generation == groups_.size() + 1, "a generation out of order");
    std::optional<int64_t> highest;
    for (const Process& p : processes_)
      if (!p.known_gone && p.state) highest = std::max(highest.value_or(0), p.state->step());
    std::set<MemberId> seen;
    bool leaving = false;
    for (const MemberId id : form.members) {
      const Process& p = process(id);
      expect(seen.insert(id).second && p.ready && !p.known_gone, "forms with a stranger");
      expect(!p.running() || p.dead || p.frozen, "forms with a member that runs");
      leaving = leaving || p.noticed;
    }
    expect(form.world() <= static_cast<size_t>(options_.max_workers) + (leaving ? 1 : 0), "forms too many");
    expect(form.source.has_value() == highest.has_value(), "a source without state, or state without a source");
    if (!error_.empty()) return;
    if (form.source) {
      expect(process(*form.source).state->step() == *highest, "the source does not have the highest step");
      for (const MemberId id : form.members) {
        if (id == *form.source) break;
        expect(!process(id).state || process(id).state->step() < *highest, "a lower rank has the highest step too");
      }
      const int64_t lost = committed_ - *highest;
      expect(lost <= (losses_in_generation() ? 1 : 0), "lost " + std::to_string(lost) + " steps");
      repeats_ += lost > 0;
    } else {
      ++restores_;
      expect(form.receivers == form.members, "restores some only");
      highest = outside_.step();
    }
    committed_ = *highest;
    for (const MemberId id : form.members) {
      const bool receives = std::find(form.receivers.begin(), form.receivers.end(), id) != form.receivers.end();
      expect(receives || (process(id).state && process(id).state->step() == *highest), "a member keeps an old state");
    }
    groups_.push_back({.form = form});
    for (const MemberId id : form.members)
      command(id, [this, generation = form.generation](Process& p) { on_form(p, generation); });
  }

  void carry_out(const elastic::Run& run) {
    expect(run.generation == core_.generation() && run.members == group(run.generation).form.members,
           "runs other members than it formed");
    expect(run.members.size() >= static_cast<size_t>(options_.min_workers) &&
               run.members.size() <= static_cast<size_t>(options_.max_workers),
           "runs with a wrong number of members");
    expect(segment_active_, "runs without a segment");
    const int64_t step = process(run.members.front()).state->step();
    for (const MemberId id : run.members) {
      const Process& p = process(id);
      expect(p.generation == run.generation && p.joined && p.state && p.state->step() == step,
             "runs with a member of another generation");
    }
    for (const Process& p : processes_)
      expect(!p.running() || p.dead || p.frozen || p.known_gone, "an older generation still runs");
    handovers_ +=
        run.generation > 1 && group(run.generation - 1).form.world() > 0 && !ran_.contains(run.generation - 1);
    ran_.insert(run.generation);
    if (!std::exchange(established_, true))  // From now on the initial state is worth nothing.
      for (Process& p : processes_)
        if (p.generation != run.generation) p.state.reset();
    for (const MemberId id : run.members)
      command(id, [this, generation = run.generation, segment = run.segment](Process& p) {
        if (p.generation != generation) return;
        p.segment = segment;
        p.pause = p.aborted = false;
        begin_step(p);
      });
  }

  void carry_out(const AskStatus& ask) {
    for (const MemberId id : ask.members) {
      expect(!process(id).known_gone, "asks a member that is gone");
      at(30ms, [this, id, round = ask.round] {
        const Process& p = process(id);
        if (p.dead || p.frozen) {
          at(500ms, [this, id, round] { event(NoStatus{id, round}); });
          return;
        }
        Status status{.id = id, .generation = p.generation, .round = round};
        if (p.state) status.progress.step = p.state->step();
        status.in_step_for = now_ - p.step_began;
        if (p.does == Does::kWaits || p.does == Does::kJoins) {
          Group& g = group(p.generation);
          const auto& there = p.does == Does::kJoins ? g.joining : g.steps[p.state->step() + 1].arrived;
          for (const MemberId other : g.form.members)
            if (!there.contains(other)) status.waiting_for.push_back(other);
        }
        at(40ms, [this, status] { event(status); });
        if (chance(10)) at(3000ms, [this, status] { event(status); });
      });
    }
  }

  void carry_out(const ReportSlow& slow) { expect(slow.factor >= 1, "a slow member is fast"); }

  void carry_out(const Finish& finish) {
    expect(segment_active_ && !finish.members.empty(), "finishes nothing");
    segment_active_ = false;
    const State& first = *process(finish.members.front().id).state;
    for (const MemberProgress& member : finish.members) {
      const State& state = *process(member.id).state;
      expect(state.step() == target_ && member.progress.step == target_, "a segment ends early or late");
      expect(state.history == first.history, "members differ at the end");
      expect(std::is_sorted(state.history.begin(), state.history.end()), "a step of an older generation");
    }
    if (--segments_ == 0) {
      ended_ = true;
    } else {
      at(500ms, [this] { start_segment(); });
    }
  }

  void carry_out(const Fail& fail) {
    ended_ = failed_ = true;
    const Error& error = fail.error;
    const bool expected = (error.code == ErrorCode::kApplication && threw_) ||
                          (error.code == ErrorCode::kActorDied && options_.max_failures >= 0 &&
                           core_.failures() == options_.max_failures + 1) ||
                          (error.code == ErrorCode::kUnavailable && never_enough_ && capacity_ < options_.min_workers);
    expect(expected, "fails: " + to_string(error));
  }

  void start_segment() {
    target_ += 3 + static_cast<int64_t>(random_.below(25));
    segment_active_ = true;
    event(SegmentStart{target_});
  }

  // ---- The cluster.

  void place() {
    int used = 0;
    for (const Process& p : processes_) used += p.placed && !p.dead;
    for (size_t i = 0; i < processes_.size(); ++i) {
      if (processes_[i].placed || processes_[i].dead || processes_[i].known_gone) continue;
      const MemberId id = processes_[i].id;
      if (used >= capacity_) {
        if (queues_) continue;
        processes_[i].dead = processes_[i].known_gone = true;
        event(NoRoom{id});
        continue;
      }
      ++used;
      processes_[i].placed = true;
      do {
        processes_[i].node = static_cast<int>(random_.below(4));
      } while (processes_[i].node == leaving_node_);
      if (early_deaths_ > 0 && chance(20)) {
        --early_deaths_;
        at(100ms, [this, id] { die(id, 50ms); });
        continue;
      }
      at(chance(20) ? 2000ms : 150ms, [this, id] {
        Process& p = process(id);
        if (p.dead || p.frozen) return;
        p.ready = true;
        answer(p, MemberReady{id, "n" + std::to_string(p.node)});
      });
    }
    if (!queues_ && capacity_ > used) event(RoomAvailable{capacity_ - used});
  }

  void die(MemberId id, Time notice_within) {
    Process& p = process(id);
    if (p.dead) return;
    p.dead = true;
    break_collectives(p);
    const auto lost = [this, id] { event(MemberLost{id, "died"}); };
    at(notice_within, lost);
    if (chance(20)) at(5000ms, lost);
    at(100ms, [this] { place(); });
  }

  void fault() {
    std::vector<MemberId> living;
    for (const Process& p : processes_)
      if (p.placed && !p.dead && !p.frozen) living.push_back(p.id);
    if (living.empty()) return;
    const MemberId id = living[random_.below(living.size())];
    Process& p = process(id);
    if (user_error_ && p.does == Does::kComputes) {
      threw_ = true;
      answer(p, UserError{id, p.generation, "bad label"});
      p.does = Does::kNothing;
      ++p.turn;
      return;
    }
    switch (random_.below(8)) {
      case 0:
        p.frozen = true;
        if (!p.ready) die(id, 50ms);  // A constructor has its own limit.
        break;
      case 1:  // Two that hang do not wait for each other.
        p.hangs = p.hangs || std::none_of(processes_.begin(), processes_.end(),
                                          [](const Process& one) { return one.hangs && !one.dead; });
        break;
      case 2: {
        leaving_node_ = p.node;
        const bool in_time = chance(70);
        for (const Process& one : processes_)
          if (one.node == p.node && one.placed && !one.dead) {
            process(one.id).noticed = true;
            at(50ms, [this, other = one.id] { event(MemberNotice{other}); });
            at(in_time ? 8000ms : 300ms, [this, other = one.id] { die(other, 50ms); });
          }
        break;
      }
      case 3:  // All at once.
        for (const MemberId one : living) die(one, chance(30) ? 3000ms : 50ms);
        break;
      default:
        die(id, chance(20) ? 3000ms : 50ms);
    }
  }

  // ---- The members.

  Process& process(MemberId id) { return processes_.at(id - 1); }
  Group& group(uint64_t generation) { return groups_.at(generation - 1); }

  template <class F>
  void command(MemberId id, F action) {
    Process& p = process(id);
    p.command_at = std::max(p.command_at + 1ns, now_ + delay());
    queue_.push({p.command_at, ++sequence_, [this, id, action] {
                   Process& there = process(id);
                   if (!there.dead && !there.frozen) action(there);
                 }});
  }

  // Answers keep their order; a few come once more, late.
  void answer(Process& p, const Event& message) {
    p.answer_at = std::max(p.answer_at + 1ns, now_ + delay());
    queue_.push({p.answer_at, ++sequence_, [this, message] { event(message); }});
    if (chance(8)) queue_.push({p.answer_at + soon(2000), ++sequence_, [this, message] { event(message); }});
  }

  template <class F>
  void later(Process& p, Time most, F action) {
    at(most, [this, id = p.id, turn = p.turn, action] {
      Process& there = process(id);
      if (!there.dead && !there.frozen && there.turn == turn) action(there);
    });
  }

  void turn_to(Process& p, Does does) {
    p.does = does;
    ++p.turn;
  }

  void stop(Process& p, Stop why) {
    turn_to(p, Does::kNothing);
    answer(p, Stopped{p.id, p.generation, p.segment, {p.state ? p.state->step() : 0}, why});
    if (why == Stop::kAborted) break_collectives(p);
  }

  // The others of its generation notice that it is gone, or wait for Abort.
  void break_collectives(const Process& gone) {
    if (gone.generation == 0) return;
    group(gone.generation).broken = true;
    for (const MemberId id : group(gone.generation).form.members) {
      Process& p = process(id);
      if (p.generation == gone.generation && id != gone.id && chance(60)) notice(p);
    }
  }
  void notice(Process& p) {
    if (p.does == Does::kWaits) later(p, 20ms, [this](Process& there) { stop(there, Stop::kAborted); });
    if (p.does == Does::kCommits) later(p, 5ms, [this](Process& there) { stop(there, Stop::kAborted); });
    if (p.does == Does::kJoins) later(p, 20ms, [this](Process& there) { fail_join(there); });
  }
  void fail_join(Process& p) {
    turn_to(p, Does::kNothing);
    answer(p, JoinFailed{p.id, p.generation, "connection reset"});
    break_collectives(p);
  }

  void on_form(Process& p, uint64_t generation) {
    if (generation <= p.generation) return;
    Group& g = group(generation);
    const auto& members = g.form.members;
    p.generation = generation;
    p.rank = static_cast<size_t>(std::find(members.begin(), members.end(), p.id) - members.begin());
    p.joined = p.pause = p.aborted = false;
    p.step_began = now_;
    p.segment = 0;
    turn_to(p, Does::kJoins);
    if (g.form.source == p.id) g.source = p.state;
    const auto& receivers = g.form.receivers;
    if (std::find(receivers.begin(), receivers.end(), p.id) != receivers.end()) p.state.reset();
    if (early_deaths_ > 0 && chance(10)) {
      --early_deaths_;
      die(p.id, 50ms);
      return;
    }
    if (join_failures_ > 0 && chance(10)) {
      --join_failures_;
      fail_join(p);
      return;
    }
    g.joining.insert(p.id);
    if (g.broken && chance(60)) notice(p);
    if (g.broken || g.joining.size() != g.form.world()) return;
    for (const MemberId id : members)
      later(process(id), chance(10) ? 500ms : 20ms, [this, generation](Process& there) {
        Group& own = group(generation);
        if (own.form.source && process(*own.form.source).dead) return;
        if (!there.state) there.state = own.form.source ? own.source : outside_;
        turn_to(there, Does::kNothing);
        there.joined = true;
        answer(there, Joined{there.id, generation, {there.state->step()}});
      });
  }

  void on_abort(Process& p, uint64_t generation) {
    if (p.generation != generation) return;
    p.aborted = true;
    if (p.does == Does::kJoins || p.does == Does::kWaits) stop(p, Stop::kAborted);
    if (p.does == Does::kCommits && chance(50)) stop(p, Stop::kAborted);
  }

  void begin_step(Process& p) {
    p.step_began = now_;
    if (p.aborted) return stop(p, Stop::kAborted);
    if (p.state->step() >= target_) return stop(p, Stop::kFinished);
    turn_to(p, Does::kComputes);
    p.hangs = p.hangs && group(p.generation).form.world() > 1;  // Alone it may take its time.
    if (p.hangs) return;
    later(p, milliseconds(1 + slow_), [this](Process& there) { arrive(there); });
  }

  void arrive(Process& p) {
    if (p.aborted) return stop(p, Stop::kAborted);
    turn_to(p, Does::kWaits);
    Group& g = group(p.generation);
    Group::Step& step = g.steps[p.state->step() + 1];
    if (!step.arrived.insert(p.id).second) return expect(false, "a member trains a step twice in a generation");
    const auto world = static_cast<int64_t>(g.form.world());
    for (auto i = static_cast<int64_t>(p.rank); i < kBatch; i += world) ++step.samples[static_cast<size_t>(i)];
    step.pause = step.pause || p.pause;
    if (g.broken) {
      if (chance(60)) notice(p);
      return;
    }
    if (step.arrived.size() != g.form.world()) return;
    for (const int times : step.samples) expect(times == 1, "samples of a step are missing or repeated");
    for (const MemberId id : g.form.members) {
      Process& there = process(id);
      turn_to(there, Does::kCommits);
      later(there, chance(30) ? 30ms : 3ms, [this](Process& one) { commit(one); });
    }
  }

  void commit(Process& p) {
    const bool pause = group(p.generation).steps[p.state->step() + 1].pause;
    p.state->history.push_back(p.generation);
    if (p.generation == core_.generation()) committed_ = std::max(committed_, p.state->step());
    if (p.rank == 0 && p.state->step() % copy_every_ == 0) outside_ = *p.state;
    if (early_deaths_ > 0 && chance(10)) {
      --early_deaths_;
      return die(p.id, 50ms);
    }
    if (pause && p.state->step() < target_ && !p.aborted) return stop(p, Stop::kPaused);
    begin_step(p);
  }

  // A member of the last generation is gone.
  bool losses_in_generation() {
    return !groups_.empty() && std::any_of(groups_.back().form.members.begin(), groups_.back().form.members.end(),
                                           [this](MemberId id) { return process(id).known_gone; });
  }

  SeededRandom random_;
  ElasticOptions options_;
  int faults_ = 0;
  bool shortage_ = false;
  bool never_enough_ = false;
  bool queues_ = false;  // Members wait for room instead of NoRoom.
  bool user_error_ = false;
  bool threw_ = false;
  int segments_ = 1;
  int capacity_ = 0;
  int early_deaths_ = 0;
  int join_failures_ = 0;
  uint64_t slow_ = 0;
  int64_t copy_every_ = 1;
  int leaving_node_ = -1;

  Coordinator core_;
  Time now_{0};
  uint64_t sequence_ = 0;
  std::priority_queue<Entry> queue_;
  std::optional<Time> tick_at_;
  std::deque<Process> processes_;
  std::deque<Group> groups_;
  std::set<uint64_t> ran_;
  State outside_;  // The last copy kept outside the members.
  int64_t committed_ = 0;
  int64_t target_ = 0;
  bool segment_active_ = false;
  bool established_ = false;
  bool ended_ = false;
  bool failed_ = false;
  std::string error_;
  int events_ = 0;
  int restores_ = 0;
  int repeats_ = 0;
  int handovers_ = 0;
  int hung_ = 0;
};

TEST(CoordinatorSimulation, TrainsEachStepOnceWhateverIsLost) {
  int failed = 0;
  int restores = 0;
  int repeats = 0;
  int handovers = 0;
  int hung = 0;
  uint64_t generations = 0;
  const uint64_t seeds = how_many(2500U, 200U);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Simulation simulation(seed);
    ASSERT_EQ(simulation.run(), "") << "seed " << seed;
    failed += simulation.failed();
    restores += simulation.restores();
    repeats += simulation.repeats();
    handovers += simulation.handovers();
    hung += simulation.hung();
    generations += simulation.generations();
  }
  // The seeds reach what they are meant to try.
  const auto least = static_cast<int>(seeds / 50);
  EXPECT_GT(failed, least);
  EXPECT_LT(failed, static_cast<int>(seeds / 3));
  EXPECT_GT(restores, least);
  EXPECT_GT(repeats, least);
  EXPECT_GT(handovers, least);
  EXPECT_GT(hung, least);
  EXPECT_GT(generations, 3 * seeds);
}

TEST(CoordinatorSimulation, IsTheSameForTheSameSeed) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Simulation first(seed);
    Simulation second(seed);
    EXPECT_EQ(first.run(), second.run());
    EXPECT_EQ(first.events(), second.events());
    EXPECT_EQ(first.generations(), second.generations());
  }
}

}  // namespace
}  // namespace volador::train
