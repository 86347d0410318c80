// Simulates an experiment in one thread and virtual time: executes the actions of a TrialLoop on simulated actors,
// whose delays, crashes, lost nodes, repeated and late messages come from a seed, and checks the invariants after each
// event.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "runtime/random.h"
#include "tune/loop/trial_loop.h"

namespace volador::tune::testing {

struct Faults {
  double crash = 0;      // Per start, step or save.
  double node_lost = 0;  // Instead of a response, with every actor of that node.
  double repeated = 0;   // An event is delivered again, up to 10 s later.
  double checkpoint_failed = 0;
  double checkpoint_unreadable = 0;  // At a restore.
  double nan = 0;
  double clone_failed = 0;
  double slow_stop = 0;  // The actor takes up to a minute to exit.
};

struct SimulationOptions {
  uint64_t seed = 0;
  Faults faults = {};
  int nodes = 2;
  int slots_per_node = 2;
  int64_t own_end = 0;  // The trainable reports done after this many steps; 0: never.
  std::optional<double> interrupt_at_s = std::nullopt;
  bool interrupt_twice = false;
  int pauses = 0;                  // Pauses of one trial or of all, each reverted within a minute.
  std::vector<Config> added = {};  // Each requested twice within the first ten seconds, with the same request id.
};

class TrialSimulator {
 public:
  TrialSimulator(const SimulationOptions& options, TrialLoop& loop)
      : options_(options), loop_(loop), random_(options.seed) {
    for (int node = 0; node < options_.nodes; ++node) free_[node] = options_.slots_per_node;
  }

  // Called for each event before the loop handles it.
  std::function<void(BootTime, const Event&)> on_event = [](BootTime, const Event&) {};

  // Called for each decision, after the event that caused it.
  std::function<void(const DecisionRecord&)> on_decision = [](const DecisionRecord&) {};

  // Runs until EndExperiment. Returns the first error; empty: none.
  std::string run() {
    perform(loop_.begin(now_));
    return go_on();
  }

  // As run(), for a driver that resumes from the events of its predecessor, whose actors are gone.
  std::string resume(const std::vector<Event>& told, BootTime last) {
    replaying_ = true;
    perform(loop_.begin(now_));
    for (const Event& event : told) {
      if (const auto* saved = std::get_if<CheckpointSaved>(&event);
          saved != nullptr && !deleted_.contains(saved->location))
        stored_.insert(saved->location);
      if (const auto* copied = std::get_if<CheckpointCloned>(&event);
          copied != nullptr && !deleted_.contains(copied->location))
        stored_.insert(copied->location);
      perform(loop_.handle(last, event));
    }
    replaying_ = false;
    now_ = last;
    if (ended_) return wrong_;
    perform(loop_.handle(now_, Resumed{}));
    loop_.check_invariants();
    return ended_ ? wrong_ : go_on();
  }

 private:
  std::string go_on() {
    deliver_in(0, CapacityChanged{options_.nodes * options_.slots_per_node});
    if (options_.interrupt_at_s) {
      deliver_in(*options_.interrupt_at_s, Interrupt{});
      if (options_.interrupt_twice) deliver_in(*options_.interrupt_at_s + 0.5, Interrupt{});
    }
    ask_for_pauses();
    ask_to_add();
    int64_t handled = 0;
    while (!ended_ && wrong_.empty()) {
      const auto wakeup = loop_.next_wakeup();
      if (events_.empty() || (wakeup && *wakeup < events_.top().at)) {
        expect(wakeup.has_value(), "nothing is under way and the experiment has not ended");
        if (!wakeup) break;
        now_ = std::max(now_, *wakeup);
        on_event(now_, Tick{});
        perform(loop_.handle(now_, Tick{}));
      } else {
        const Pending next = events_.top();
        events_.pop();
        now_ = next.at;
        if (next.actor && !before_delivery(next)) continue;
        // It is durable once reported, even if the actor was stopped meanwhile.
        const auto* saved = std::get_if<CheckpointSaved>(&next.event);
        if (saved != nullptr && !deleted_.contains(saved->location)) stored_.insert(saved->location);
        const auto* copied = std::get_if<CheckpointCloned>(&next.event);
        if (copied != nullptr && !deleted_.contains(copied->location)) stored_.insert(copied->location);
        on_event(now_, next.event);
        perform(loop_.handle(now_, next.event));
      }
      loop_.check_invariants();
      if (++handled > 1'000'000) expect(false, "no end after a million events");
    }
    if (wrong_.empty()) check_end();
    return wrong_;
  }

 public:
  double elapsed_s() const { return std::chrono::duration<double>(now_ - BootTime{}).count(); }
  const std::vector<RecordResult>& results() const { return results_; }
  const std::vector<std::string>& notices() const { return notices_; }
  const EndExperiment& end() const { return end_; }
  int64_t steps_executed() const { return steps_executed_; }
  int64_t clones() const { return clones_; }

 private:
  enum class State { kWaiting, kBusy, kIdle, kStopping, kGone };
  struct Actor {
    TrialId trial;
    int64_t attempt = 0;
    int node = -1;
    int64_t step = 0;
    State state = State::kWaiting;
    bool finished = false;
  };
  struct Pending {
    BootTime at;
    uint64_t sequence;
    Event event;
    std::shared_ptr<Actor> actor;  // Set for the response to a request; lost if the actor exits before.
    bool operator>(const Pending& other) const { return std::tie(at, sequence) > std::tie(other.at, other.sequence); }
  };

  // Neither lost nor repeated: a pause after the last resume would never end.
  void ask_for_pauses() {
    const auto in = [&](double seconds, Event event) {
      events_.push({now_ + std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)), sequence_++, std::move(event),
                    nullptr});
    };
    double last = 0;
    for (int i = 0; i < options_.pauses; ++i) {
      const double begin = random_.real() * 60;
      const double end = begin + random_.real() * 60;
      const bool whole = random_.below(3) == 0;
      const TrialId trial = TrialId::of(loop_.options().trial_key, static_cast<int64_t>(random_.below(8)));
      in(begin, PauseRequested{trial, whole});
      in(end, ResumeRequested{trial, whole});
      last = std::max(last, end);
    }
    if (options_.pauses > 0) in(last, ResumeRequested{.whole = true});
  }

  void ask_to_add() {
    for (size_t i = 0; i < options_.added.size(); ++i) {
      for (int times = 0; times < 2; ++times) {
        const auto in = std::chrono::nanoseconds(static_cast<int64_t>(random_.real() * 10e9));
        events_.push({now_ + in, sequence_++, ConfigAdded{std::to_string(i), options_.added[i]}, nullptr});
      }
    }
  }

  void expect(bool condition, const std::string& what) {
    if (!condition && wrong_.empty()) wrong_ = what + " (at " + std::to_string(elapsed_s()) + " s)";
  }
  bool happens(double probability) { return probability > 0 && random_.real() < probability; }

  void push(double delay_s, Event event, std::shared_ptr<Actor> actor) {
    const auto delay = std::chrono::nanoseconds(static_cast<int64_t>(delay_s * 1e9));
    if (happens(options_.faults.repeated)) {
      const auto later = delay + std::chrono::nanoseconds(static_cast<int64_t>(random_.real() * 10e9));
      events_.push({now_ + later, sequence_++, event, nullptr});
    }
    events_.push({now_ + delay, sequence_++, std::move(event), std::move(actor)});
  }
  void deliver_in(double delay_s, Event event) { push(delay_s, std::move(event), nullptr); }

  // A response arrives: the actor may have exited meanwhile; a stop releases its slot only now.
  bool before_delivery(const Pending& next) {
    Actor& actor = *next.actor;
    if (actor.state == State::kGone) return happens(0.3);  // A message may overtake the death notice.
    if (std::holds_alternative<TrialGone>(next.event) || std::holds_alternative<TrialFailed>(next.event)) {
      release(actor);
    } else if (actor.state == State::kBusy) {
      actor.state = State::kIdle;
      if (std::holds_alternative<ResultReported>(next.event)) ++actor.step;
    }
    return true;
  }

  void release(Actor& actor) {
    if (actor.state == State::kGone) return;
    if (actor.node >= 0) ++free_[actor.node];
    actor.state = State::kGone;
    live_.erase(actor.trial);
    place();
  }

  // Assigns free slots to waiting actors in order.
  void place() {
    while (!waiting_.empty()) {
      const auto actor = waiting_.front();
      if (actor->state != State::kWaiting) {
        waiting_.pop_front();
        continue;
      }
      int best = -1;
      for (const auto& [node, free] : free_) {
        if (free > 0 && best < 0) best = node;
      }
      if (best < 0) {
        deliver_in(0.01, ActorWaiting{actor->trial, actor->attempt, "for a CPU"});
        return;
      }
      waiting_.pop_front();
      actor->node = best;
      --free_[best];
      actor->state = State::kBusy;
      answer(actor, 0.2, TrialStarted{actor->trial, actor->attempt, "node" + std::to_string(best)});
    }
  }

  // The response to a request, or the fault that replaces it.
  void answer(const std::shared_ptr<Actor>& actor, double seconds_max, Event event) {
    const double delay = random_.real() * seconds_max;
    if (happens(options_.faults.crash))
      return push(delay, TrialFailed{actor->trial, actor->attempt, "it crashed", true}, actor);
    if (happens(options_.faults.node_lost)) {
      const int node = actor->node;
      for (const auto& [trial, other] : std::map(live_)) {
        if (other->node == node && other->state != State::kWaiting) {
          push(delay + 5, TrialFailed{trial, other->attempt, "its node was lost", false}, other);
        }
      }
      // The response may have been in transit.
      if (happens(0.5)) push(delay, std::move(event), actor);
      return;
    }
    push(delay, std::move(event), actor);
  }

  void perform(const Actions& actions) {
    for (const Action& action : actions) {
      expect(!ended_, "an action after EndExperiment");
      std::visit([this](const auto& one) { on(one); }, action);
    }
  }

  std::shared_ptr<Actor> actor_of(TrialId trial, int64_t attempt, const std::string& what) {
    if (replaying_) return nullptr;
    const auto found = live_.find(trial);
    if (found == live_.end() || found->second->attempt != attempt) {
      // It may have died with the notice still in transit: the request is then lost.
      expect(attempts_[trial] == attempt, what + " for an attempt that was never started");
      return nullptr;
    }
    return found->second;
  }

  void on(const TrialAdded& action) { expect(added_.insert(action.trial).second, "a trial added twice"); }

  void on(const StartTrial& action) {
    expect(added_.contains(action.trial), "a trial started before it was added");
    expect(!ended_trials_.contains(action.trial), "a trial started after its end");
    expect(!live_.contains(action.trial), "a trial started while its actor lives");
    expect(!loop_.paused(), "a trial started while all are paused");
    expect(action.attempt == ++attempts_[action.trial], "attempts are not numbered in order");
    auto actor = std::make_shared<Actor>();
    actor->trial = action.trial;
    actor->attempt = action.attempt;
    if (action.restore) {
      actor->step = action.restore->step;
      expect(stored_.contains(action.restore->location), "a deleted or unknown checkpoint to restore");
    }
    next_step_[action.trial] = actor->step + 1;
    if (replaying_) return;
    live_[action.trial] = actor;
    if (action.restore && happens(options_.faults.checkpoint_unreadable)) {
      deliver_in(0.1, CheckpointLost{action.trial, action.restore->location});
      actor->state = State::kBusy;
      push(0.2, TrialFailed{action.trial, action.attempt, "cannot load its checkpoint", false}, actor);
      return;
    }
    waiting_.push_back(actor);
    place();
  }

  void on(const Step& action) {
    const auto actor = actor_of(action.trial, action.attempt, "Step");
    if (!actor) return;
    expect(actor->state == State::kIdle, "Step while a request is under way");
    actor->state = State::kBusy;
    ++steps_executed_;
    ResultReported report{.trial = action.trial, .attempt = action.attempt, .step = actor->step + 1};
    report.duration = std::chrono::seconds(1);
    const double quality = static_cast<double>(action.trial.value()) / 4294967296.0;
    const double value =
        happens(options_.faults.nan) ? std::nan("") : quality * (1 - std::exp(-0.2 * static_cast<double>(report.step)));
    report.metrics = {{"accuracy", value}, {"loss", 1 - value}};
    report.done = options_.own_end > 0 && report.step >= options_.own_end;
    answer(actor, 2, report);
  }

  void on(const SaveCheckpoint& action) {
    const auto actor = actor_of(action.trial, action.attempt, "SaveCheckpoint");
    if (!actor) return;
    expect(actor->state == State::kIdle, "SaveCheckpoint while a request is under way");
    expect(actor->step == action.step, "SaveCheckpoint for a step that the actor is not at");
    actor->state = State::kBusy;
    if (happens(options_.faults.checkpoint_failed)) {
      return answer(actor, 1,
                    CheckpointFailed{action.trial, action.attempt, action.step, "no space left on the device"});
    }
    const std::string location =
        to_string(action.trial) + "/" + std::to_string(action.attempt) + "/" + std::to_string(action.step);
    answer(actor, 1, CheckpointSaved{action.trial, action.attempt, action.step, location});
  }

  void on(const StopTrial& action) {
    const auto actor = actor_of(action.trial, action.attempt, "StopTrial");
    if (!actor) return;
    expect(action.at_once || actor->state == State::kIdle, "StopTrial while a request is under way");
    actor->state = State::kStopping;
    const double longest = !action.at_once && happens(options_.faults.slow_stop) ? 60 : 0.1;
    push(random_.real() * longest, TrialGone{action.trial, action.attempt}, actor);
  }

  void on(const CloneCheckpoint& action) {
    if (replaying_) return;
    const auto found = live_.find(action.trial);
    if (found != live_.end() && found->second->attempt == action.attempt)
      expect(found->second->state == State::kIdle || found->second->state == State::kGone,
             "CloneCheckpoint while a request is under way");
    expect(stored_.contains(action.checkpoint.location), "a deleted or unknown checkpoint to copy");
    const double delay = random_.real() * 0.5;
    if (happens(options_.faults.clone_failed))
      return push(delay,
                  CloneFailed{action.trial, action.attempt, action.checkpoint.step, "no space left on the device"},
                  nullptr);
    const std::string location = to_string(action.trial) + "/" + std::to_string(action.attempt) + "/" +
                                 std::to_string(action.checkpoint.step) + "/of/" + to_string(action.from) + "/" +
                                 std::to_string(sequence_);
    push(delay, CheckpointCloned{action.trial, action.attempt, action.checkpoint.step, location}, nullptr);
  }

  void on(const TrialCloned& action) {
    expect(!ended_trials_.contains(action.trial), "a trial was copied to after its end");
    expect(loop_.find(action.trial)->step == action.step, "the copy goes on from another step");
    step_max_[action.trial] = action.step;
    cloned_.insert(action.trial);
    ++clones_;
  }

  void on(const DecisionMade& action) {
    expect(added_.contains(action.record.trial), "a decision about an unknown trial");
    expect(!to_text(action.record).empty(), "a decision without a reason");
    on_decision(action.record);
  }

  void on(const DeleteCheckpoint& action) {
    expect(stored_.erase(action.checkpoint.location) == 1, "an unknown checkpoint deleted");
    deleted_.insert(action.checkpoint.location);
  }

  void on(const RecordResult& action) {
    expect(attempts_[action.trial] == action.attempt, "a result of an old attempt counted");
    expect(action.step == next_step_[action.trial], "steps are not contiguous from the checkpoint");
    expect(action.replayed == (action.step <= step_max_[action.trial]), "replayed is wrong");
    next_step_[action.trial] = action.step + 1;
    step_max_[action.trial] = std::max(step_max_[action.trial], action.step);
    results_.push_back(action);
  }

  void on(const TrialEnded& action) {
    expect(ended_trials_.insert(action.trial).second, "a trial ended twice");
    expect(!live_.contains(action.trial), "a trial ended while its actor lives");
  }
  void on(const Notice& action) { notices_.push_back(action.text); }
  void on(const EndExperiment& action) {
    ended_ = true;
    end_ = action;
  }

  void check_end() {
    expect(loop_.ended(), "the loop does not know that it ended");
    expect(live_.empty(), "actors are left");
    expect(added_ == ended_trials_, "a trial was lost");
    const TrialLoop::Counts counts = loop_.counts();
    expect(counts.known == static_cast<int64_t>(added_.size()), "trials are counted wrong");
    if (!loop_.ending() && counts.total) expect(counts.known == *counts.total, "samples are missing");
    std::set<std::string> kept;
    for (const Trial& trial : loop_.trials()) {
      const int64_t keep = loop_.options().checkpoint.num_to_keep;
      expect(keep == 0 || static_cast<int64_t>(trial.checkpoints.size()) <= keep + 1, "too many checkpoints kept");
      for (const Checkpoint& checkpoint : trial.checkpoints)
        expect(stored_.contains(checkpoint.location), "a kept checkpoint is gone");
      expect(trial.step_max == step_max_[trial.id], "a counted step is missing");
      for (const auto& [name, summary] : trial.metrics)
        expect(cloned_.contains(trial.id) || summary.count + summary.nan_count == trial.step_max,
               "a step was counted twice");
    }
  }

  SimulationOptions options_;
  TrialLoop& loop_;
  SeededRandom random_;
  BootTime now_{};
  uint64_t sequence_ = 0;
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> events_;
  std::map<int, int> free_;
  std::deque<std::shared_ptr<Actor>> waiting_;
  std::map<TrialId, std::shared_ptr<Actor>> live_;
  std::map<TrialId, int64_t> attempts_, next_step_, step_max_;
  std::set<TrialId> added_, ended_trials_;
  std::set<std::string> stored_, deleted_;
  std::vector<RecordResult> results_;
  std::vector<std::string> notices_;
  EndExperiment end_;
  int64_t steps_executed_ = 0;
  int64_t clones_ = 0;
  std::set<TrialId> cloned_;
  bool ended_ = false;
  bool replaying_ = false;
  std::string wrong_;
};

}  // namespace volador::tune::testing
