#include "experiments/core/trial_state.h"

#include <gtest/gtest.h>

#include <random>

namespace volador::experiments {
namespace {

const TrialActions kNothing{};
const TrialActions kAllocates{.allocate = true};
TrialActions ends(std::optional<TrialExit> exit = std::nullopt) { return {.exit = exit, .ended = true}; }

TrialMachine running_trial(int64_t max_restarts = 5) {
  TrialMachine trial(max_restarts);
  EXPECT_EQ(trial.asked(), kAllocates);
  return trial;
}

TEST(TrialStates, OnlyFailuresOfTheProgramCount) {
  for (const int64_t max_restarts : {0, 1, 5}) {
    TrialMachine trial = running_trial(max_restarts);
    for (int64_t i = 0; i < max_restarts; ++i) {
      for (int j = 0; j < 3; ++j) EXPECT_EQ(trial.processes_ended(ProcessEnd::kInfrastructure), kAllocates);
      EXPECT_EQ(trial.processes_ended(ProcessEnd::kUserFailure), kAllocates);
      EXPECT_EQ(trial.standing().restarts, i + 1);
    }
    EXPECT_EQ(trial.processes_ended(ProcessEnd::kUserFailure), ends(TrialExit::kErrored));
    EXPECT_EQ(trial.state(), RunState::kError);
    EXPECT_EQ(trial.processes_ended(ProcessEnd::kUserFailure), kNothing);
    EXPECT_EQ(trial.asked(), kNothing);
    EXPECT_EQ(trial.become(RunState::kStoppingKilled), kNothing);
  }
}

TEST(TrialStates, WaitForTheSearchWithoutResources) {
  TrialMachine trial = running_trial();
  EXPECT_EQ(trial.completed(), kNothing);
  EXPECT_EQ(trial.processes_ended(ProcessEnd::kDone), kNothing) << "it waits at a rung";
  EXPECT_EQ(trial.state(), RunState::kActive);
  EXPECT_EQ(trial.asked(), kAllocates);
  EXPECT_EQ(trial.asked(), kNothing) << "it has them";
  EXPECT_EQ(trial.completed(), kNothing);
  EXPECT_EQ(trial.closed(), kNothing) << "its processes end by themselves";
  EXPECT_EQ(trial.state(), RunState::kStoppingCompleted);
  EXPECT_EQ(trial.processes_ended(ProcessEnd::kDone), ends());
  EXPECT_EQ(trial.state(), RunState::kCompleted);

  TrialMachine waiting = running_trial();
  waiting.completed();
  waiting.processes_ended(ProcessEnd::kDone);
  EXPECT_EQ(waiting.closed(), ends()) << "nothing is to be stopped";
}

TEST(TrialStates, ACloseInAdvanceHoldsAfterTheValidation) {
  TrialMachine trial(5);
  EXPECT_EQ(trial.asked(), kAllocates);
  EXPECT_EQ(trial.closed(), kNothing);
  EXPECT_EQ(trial.state(), RunState::kActive);
  EXPECT_EQ(trial.processes_ended(ProcessEnd::kUserFailure), kAllocates);
  EXPECT_EQ(trial.completed(), kNothing);
  EXPECT_EQ(trial.state(), RunState::kStoppingCompleted);
  EXPECT_EQ(trial.processes_ended(ProcessEnd::kDone), ends());
}

TEST(TrialStates, PauseReleasesAndActivateGoesOn) {
  TrialMachine trial = running_trial();
  EXPECT_EQ(trial.become(RunState::kPaused), (TrialActions{.preempt = true}));
  EXPECT_EQ(trial.processes_ended(ProcessEnd::kDone), kNothing);
  EXPECT_EQ(trial.become(RunState::kActive), kAllocates);
  // Activated before its processes have ended.
  EXPECT_EQ(trial.become(RunState::kPaused), (TrialActions{.preempt = true}));
  EXPECT_EQ(trial.become(RunState::kActive), kNothing);
  EXPECT_EQ(trial.processes_ended(ProcessEnd::kDone), kAllocates);
  TrialMachine paused(5, {.state = RunState::kPaused});
  EXPECT_EQ(paused.asked(), kNothing);
  EXPECT_EQ(paused.become(RunState::kActive), kAllocates);
}

TEST(TrialStates, CancelSavesAndKillDoesNot) {
  TrialMachine trial = running_trial();
  EXPECT_EQ(trial.become(RunState::kStoppingCanceled), (TrialActions{.preempt = true}));
  EXPECT_EQ(trial.become(RunState::kStoppingKilled), (TrialActions{.kill = true}));
  EXPECT_EQ(trial.become(RunState::kStoppingCanceled), kNothing) << "less severe";
  EXPECT_EQ(trial.become(RunState::kPaused), kNothing);
  EXPECT_EQ(trial.processes_ended(ProcessEnd::kUserFailure), ends(TrialExit::kUserCanceled));
  EXPECT_EQ(trial.state(), RunState::kCanceled);
  TrialMachine idle(5);
  EXPECT_EQ(idle.become(RunState::kStoppingCanceled), ends(TrialExit::kUserCanceled));
  TrialMachine crashes = running_trial();
  crashes.become(RunState::kStoppingCanceled);
  EXPECT_EQ(crashes.processes_ended(ProcessEnd::kUserFailure), ends(TrialExit::kErrored));
  TrialMachine lost = running_trial();
  lost.become(RunState::kStoppingCanceled);
  EXPECT_EQ(lost.processes_ended(ProcessEnd::kInfrastructure), ends(TrialExit::kUserCanceled));
}

TEST(TrialStates, EndForReasonsOfTheirOwn) {
  TrialMachine stops = running_trial();
  EXPECT_EQ(stops.processes_ended(ProcessEnd::kUserRequestedStop), ends(TrialExit::kUserRequestedStop));
  EXPECT_EQ(stops.state(), RunState::kCompleted);
  TrialMachine never = running_trial();
  EXPECT_EQ(never.processes_ended(ProcessEnd::kUnrecoverable), ends(TrialExit::kErrored));
  EXPECT_EQ(never.standing().restarts, 0);
  for (const bool at_init : {false, true}) {
    const TrialExit exit = at_init ? TrialExit::kInitInvalidHp : TrialExit::kInvalidHp;
    for (const ProcessEnd end : {ProcessEnd::kDone, ProcessEnd::kUserFailure}) {
      TrialMachine invalid = running_trial();
      invalid.report_invalid_hp(at_init);
      EXPECT_EQ(invalid.processes_ended(end), ends(exit));
      EXPECT_EQ(invalid.state(), RunState::kCompleted);
    }
    // The shell kills what does not end.
    TrialMachine slow = running_trial();
    slow.report_invalid_hp(at_init);
    slow.become(RunState::kStoppingKilled);
    EXPECT_EQ(slow.processes_ended(ProcessEnd::kDone), ends(exit));
  }
}

// Every event in every state: a trial gets resources only while it is active and asked, ends once, and then stays.
TEST(TrialStates, NoOrderOfEventsBreaksThem) {
  std::mt19937 dice(11);
  for (int round = 0; round < 3000; ++round) {
    TrialMachine trial(static_cast<int64_t>(dice() % 3));
    bool ended = false;
    for (int event = 0; event < 40; ++event) {
      const TrialStanding before = trial.standing();
      TrialActions actions;
      const auto pick = dice() % 16;
      if (pick < 3) actions = trial.asked();
      if (pick == 3) actions = trial.completed();
      if (pick == 4) actions = trial.closed();
      if (pick == 5) trial.report_invalid_hp(dice() % 2 == 0);
      if (pick > 5 && pick < 10) actions = trial.become(static_cast<RunState>(dice() % kRunStates));
      if (pick >= 10) actions = trial.processes_ended(static_cast<ProcessEnd>(dice() % 5));
      const TrialStanding& after = trial.standing();
      if (actions.allocate) {
        EXPECT_TRUE(!before.has_processes || pick >= 10);
        EXPECT_TRUE(after.has_processes && after.asked && after.state == RunState::kActive);
      }
      if (actions.preempt || actions.kill) {
        EXPECT_TRUE(before.has_processes);
      }
      if (ended) {
        EXPECT_EQ(actions, kNothing);
        EXPECT_EQ(after.state, before.state);
      }
      EXPECT_EQ(actions.ended, !ended && is_terminal(after.state));
      if (actions.ended) {
        EXPECT_FALSE(after.has_processes);
      }
      ended = ended || actions.ended;
      EXPECT_LE(after.restarts, 3);
      TrialMachine copy(1, after);
      EXPECT_EQ(copy.standing(), after);
    }
  }
}

}  // namespace
}  // namespace volador::experiments
