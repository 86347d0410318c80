#include "experiments/core/experiment_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace volador::experiments {
namespace {

using ::testing::HasSubstr;

std::vector<RunState> all_states() {
  std::vector<RunState> out;
  for (size_t i = 0; i < kRunStates; ++i) out.push_back(static_cast<RunState>(i));
  return out;
}

// By state, what each command leads to: a state, "-": no effect, "x": refused. In the order of ExperimentCommand:
// activate, pause, cancel, kill, archive, unarchive, delete.
TEST(ExperimentStates, EveryCommandInEveryState) {
  const std::map<std::string, std::vector<std::string>> table = {
      {"ACTIVE", {"-", "PAUSED", "STOPPING_CANCELED", "STOPPING_KILLED", "x", "x", "x"}},
      {"PAUSED", {"ACTIVE", "-", "STOPPING_CANCELED", "STOPPING_KILLED", "x", "x", "x"}},
      {"STOPPING_CANCELED", {"x", "x", "-", "STOPPING_KILLED", "x", "x", "x"}},
      {"STOPPING_KILLED", {"x", "x", "-", "-", "x", "x", "x"}},
      {"STOPPING_COMPLETED", {"x", "x", "-", "kill", "x", "x", "x"}},
      {"STOPPING_ERROR", {"x", "x", "-", "kill", "x", "x", "x"}},
      {"CANCELED", {"x", "x", "-", "-", "archived", "-", "DELETING"}},
      {"COMPLETED", {"x", "x", "-", "-", "archived", "-", "DELETING"}},
      {"ERROR", {"x", "x", "-", "-", "archived", "-", "DELETING"}},
      {"DELETING", {"x", "x", "x", "x", "x", "x", "-"}},
      {"DELETE_FAILED", {"x", "x", "x", "x", "x", "x", "DELETING"}},
      {"DELETED", {"x", "x", "x", "x", "x", "x", "-"}}};
  ASSERT_EQ(table.size(), kRunStates);
  for (const auto& [name, effects] : table) {
    const RunState state = run_state_from(name).value();
    for (size_t i = 0; i < kExperimentCommands; ++i) {
      const auto command = static_cast<ExperimentCommand>(i);
      ExperimentMachine machine(state);
      const auto order = machine.command(command);
      const std::string& expected = effects[i];
      SCOPED_TRACE(name + " " + std::string(to_string(command)));
      EXPECT_EQ(order.has_value(), expected != "x");
      EXPECT_EQ(machine.is_archived(), expected == "archived");
      const auto next = run_state_from(expected);
      EXPECT_EQ(machine.state(), next.value_or(state));
      if (next) {
        EXPECT_TRUE(may_become(state, *next));
      }
      if (!order) {
        EXPECT_EQ(order.error().code, ErrorCode::kInvalidArgument);
        EXPECT_THAT(order.error().message, HasSubstr(name));
        continue;
      }
      const std::map<std::string, TrialOrder> orders = {{"PAUSED", TrialOrder::kPause},
                                                        {"ACTIVE", TrialOrder::kActivate},
                                                        {"STOPPING_CANCELED", TrialOrder::kCancel},
                                                        {"STOPPING_KILLED", TrialOrder::kKill},
                                                        {"kill", TrialOrder::kKill}};
      const auto found = orders.find(expected);
      EXPECT_EQ(*order, found == orders.end() ? TrialOrder::kNone : found->second);
    }
  }
}

TEST(ExperimentStates, FollowTheTableOfTransitions) {
  const std::map<std::string, std::set<std::string>> table = {
      {"ACTIVE", {"PAUSED", "STOPPING_KILLED", "STOPPING_CANCELED", "STOPPING_COMPLETED", "STOPPING_ERROR"}},
      {"PAUSED", {"ACTIVE", "STOPPING_KILLED", "STOPPING_CANCELED", "STOPPING_COMPLETED", "STOPPING_ERROR"}},
      {"STOPPING_CANCELED", {"CANCELED", "STOPPING_KILLED", "STOPPING_ERROR"}},
      {"STOPPING_KILLED", {"CANCELED", "STOPPING_ERROR"}},
      {"STOPPING_COMPLETED", {"COMPLETED", "STOPPING_ERROR"}},
      {"STOPPING_ERROR", {"ACTIVE", "ERROR"}},
      {"CANCELED", {"DELETING"}},
      {"COMPLETED", {"DELETING"}},
      {"ERROR", {"DELETING"}},
      {"DELETING", {"DELETED", "DELETE_FAILED"}},
      {"DELETE_FAILED", {"DELETING"}},
      {"DELETED", {}}};
  for (const RunState from : all_states()) {
    for (const RunState to : all_states())
      EXPECT_EQ(may_become(from, to), table.at(std::string(to_string(from))).contains(std::string(to_string(to))))
          << to_string(from) << " " << to_string(to);
    EXPECT_EQ(run_state_from(to_string(from)), from);
    EXPECT_EQ(is_stopping(from), to_string(from).starts_with("STOPPING_"));
    EXPECT_EQ(terminal_of(from) != from, is_stopping(from));
    EXPECT_EQ(is_terminal(terminal_of(from)), is_stopping(from) || is_terminal(from));
  }
  EXPECT_EQ(run_state_from("RUNNING"), std::nullopt);
  EXPECT_EQ(to_string(ActivePhase::kRunning), "RUNNING");
}

TEST(ExperimentStates, EndAsTheirSearchDoes) {
  for (const auto& [failure, cancel, stopping, terminal] :
       {std::tuple(false, false, RunState::kStoppingCompleted, RunState::kCompleted),
        {true, false, RunState::kStoppingError, RunState::kError},
        {false, true, RunState::kStoppingCanceled, RunState::kCanceled},
        {true, true, RunState::kStoppingError, RunState::kError}}) {
    ExperimentMachine machine;
    EXPECT_NE(machine.search_ended(failure, cancel), TrialOrder::kNone);
    EXPECT_EQ(machine.state(), stopping);
    machine.trials_ended();
    EXPECT_EQ(machine.state(), terminal);
  }
  ExperimentMachine cancelled;
  ASSERT_TRUE(cancelled.command(ExperimentCommand::kCancel).has_value());
  EXPECT_EQ(cancelled.search_ended(false, false), TrialOrder::kNone);
  EXPECT_EQ(cancelled.state(), RunState::kStoppingCanceled);
  EXPECT_EQ(cancelled.fail(), TrialOrder::kKill);
  EXPECT_EQ(cancelled.fail(), TrialOrder::kNone);
  cancelled.trials_ended();
  EXPECT_EQ(cancelled.state(), RunState::kError);
  EXPECT_EQ(cancelled.fail(), TrialOrder::kNone);
  ExperimentMachine active;
  active.trials_ended();
  EXPECT_EQ(active.state(), RunState::kActive) << "an active one goes on without trials";
}

TEST(ExperimentStates, AreDeletedOnceTheirFilesAreGone) {
  ExperimentMachine machine(RunState::kError);
  ASSERT_TRUE(machine.command(ExperimentCommand::kArchive).has_value());
  EXPECT_TRUE(machine.is_archived());
  ASSERT_TRUE(machine.command(ExperimentCommand::kUnarchive).has_value());
  EXPECT_FALSE(machine.is_archived());
  ASSERT_TRUE(machine.command(ExperimentCommand::kDelete).has_value());
  machine.deletion_ended(false);
  EXPECT_EQ(machine.state(), RunState::kDeleteFailed);
  ASSERT_TRUE(machine.command(ExperimentCommand::kDelete).has_value());
  machine.deletion_ended(true);
  EXPECT_EQ(machine.state(), RunState::kDeleted);
  machine.deletion_ended(false);
  EXPECT_EQ(machine.state(), RunState::kDeleted);
}

}  // namespace
}  // namespace volador::experiments
