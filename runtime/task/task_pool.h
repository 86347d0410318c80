// State machine that assigns tasks to runners for volador::task. Runners are actors that execute tasks one after
// another. The pool requests as many as there are tasks and room in the cluster, keeps idle ones for a moment, and
// reassigns the tasks of lost runners.
// Pure: no clock, thread, I/O or randomness. Events in, actions out.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/node_affinity.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "runtime/task/task_queue.h"

namespace volador {

enum class RunnerId : uint64_t {};

// Placement constraints of a task.
struct TaskPlace {
  NodeAffinity wishes;
  GroupId group;    // Placement group; nil: none.
  int bundle = -1;  // Bundle of the group; -1: any.
  auto operator<=>(const TaskPlace&) const = default;
};

// Function, arguments and options of a task.
struct TaskRequest {
  uint64_t function = 0;
  std::string name;       // "square", for messages.
  std::string arguments;  // Envelope.
  ResourceSet resources;
  TaskPlace place;
  int max_retries = 3;                // Retries after the death of its runner; -1: unlimited.
  std::vector<std::string> retry_on;  // Compiler names of exception types after which it is retried as well.
};

// State machine of a process's tasks and runners. Not thread safe.
class TaskPool {
 public:
  struct Options {
    std::chrono::nanoseconds idle = std::chrono::milliseconds(500);  // A runner without a task ends after this time.
    std::chrono::nanoseconds ahead = std::chrono::milliseconds(1);   // Work assigned ahead to a busy runner.
    std::chrono::nanoseconds behind = std::chrono::milliseconds(3);  // Two tasks this short may exceed `ahead`.
    size_t ahead_max = 512;                                          // Maximum number of tasks assigned ahead.
    std::chrono::nanoseconds together = std::chrono::microseconds(100);  // Work up to which one runner suffices.
    std::chrono::nanoseconds start = std::chrono::milliseconds(5);       // Approximate start time of a runner.
    std::chrono::nanoseconds late = std::chrono::milliseconds(20);       // Delay that recalls the tasks behind.
    size_t runners_max = 1000;                                           // Per resource shape.
    size_t tasks_max = 1'000'000;                                        // Maximum of unfinished tasks.
  };
  struct Start {  // Start an actor of the runner class with these resources.
    RunnerId runner;
    ResourceSet resources;
    TaskPlace place;
  };
  struct Run {
    RunnerId runner;
    TaskId task;
    int attempt;
    uint64_t function;
    std::string arguments;
  };
  struct Cancel {  // Cancel the runner's call of this task.
    RunnerId runner;
    TaskId task;
  };
  struct Recall {  // Recall tasks that the runner has not begun: their calls end with kCancelled, newest first.
    RunnerId runner;
  };
  struct Finish {
    TaskId task;
    Result<std::string> result;
  };
  struct Actions {
    std::vector<Start> start;
    std::vector<Run> run;
    std::vector<Cancel> cancel;
    std::vector<Recall> recall;
    std::vector<RunnerId> end;
    std::vector<Finish> finish;
  };

  explicit TaskPool(Options options) : options_(options) {}

  // Sets the cluster's total resources, which limit the number of runners. Empty: unknown.
  void set_total(const ResourceSet& total);

  // Beyond Options::tasks_max the task ends at once with kUnavailable.
  Actions submit(BootTime now, TaskId task, TaskRequest request);
  Actions runner_ready(BootTime now, RunnerId runner);
  // The runner is dead or could not be started (`refused`: no runner could). Its tasks are reassigned; the running one
  // counts a retry.
  Actions runner_failed(BootTime now, RunnerId runner, const Error& error, bool refused);
  // Result of the call of this attempt and the task's run time; 0: unknown. Results of outdated attempts are ignored.
  Actions answered(BootTime now, RunnerId runner, TaskId task, int attempt, Result<std::string> result,
                   std::chrono::nanoseconds took = {});
  // Ends a queued task with kCancelled; for an assigned task cancels the call, or with `force` ends the runner.
  // Finished tasks: no effect.
  Actions cancel(BootTime now, TaskId task, bool force);
  Actions tick(BootTime now);
  // Ends everything with this error.
  Actions close(const Error& error);

  // Returns when tick() is due.
  std::optional<BootTime> next_tick() const;
  size_t unfinished() const { return tasks_.size(); }
  size_t runners() const { return runners_.size(); }

  void check_invariants() const;

 private:
  struct Shape {
    std::map<std::string, Amount, std::less<>> resources;
    TaskPlace place;
  };
  // Comparison that allows lookups by TaskRequest.
  struct ShapeLess {
    using is_transparent = void;
    struct View {
      View(const Shape& shape) : resources(shape.resources), place(shape.place) {}
      View(const TaskRequest& request) : resources(request.resources.entries()), place(request.place) {}
      const std::map<std::string, Amount, std::less<>>& resources;
      const TaskPlace& place;
    };
    bool operator()(const View& a, const View& b) const {
      const auto order = a.resources <=> b.resources;
      return order != 0 ? order < 0 : a.place < b.place;
    }
  };

  struct Group;
  struct Task {
    TaskRequest request;
    Group* group = nullptr;
    int attempt = 0;
    int retries = 0;
    std::optional<RunnerId> runner;       // Runner to which it is assigned.
    std::chrono::nanoseconds expected{};  // Expected duration at assignment.
    bool cancelled = false;               // Cancelled by its submitter while assigned: a returned call is not repeated.
  };
  struct Runner {
    RunnerId id{};
    Group* group = nullptr;
    bool ready = false;
    std::deque<TaskId> given;             // In order of execution: the first one runs.
    std::chrono::nanoseconds expected{};  // Sum of the expected durations.
    BootTime busy_since{};                // Start of the first task in `given`.
    BootTime idle_since{};
    bool late = false;  // The first task takes longer than expected: the runner gets no other task until it ends.
    bool soon = true;   // Expected to be free no later than a new runner could be started.
  };
  // Tasks and runners of one shape. Between events, either no task is queued or no runner is idle.
  struct Group {
    const Shape* shape = nullptr;
    TaskQueue queue;
    std::map<RunnerId, Runner*> runners;
    Runner* filling = nullptr;  // Runner that was assigned the last task; null: gone.
    size_t runners_max = 0;
    size_t starting = 0;
    size_t soon = 0;        // Number of `runners` with `soon`.
    int starts_failed = 0;  // Consecutive failures.
  };

  size_t runners_max(const Shape& shape) const;
  std::chrono::nanoseconds expected(const Group& group) const;
  bool may_queue(const Group& group) const;
  bool has_room(const Runner& runner, std::chrono::nanoseconds more) const;
  Runner* choose(Group& group, std::chrono::nanoseconds more) const;
  Group& group_of(const TaskRequest& request);
  void dispatch(BootTime now, Group& group, Actions& actions);
  void start_runners(Group& group, Actions& actions);
  void give(BootTime now, Runner& runner, Actions& actions);
  void learn(uint64_t function, std::chrono::nanoseconds took);
  void take_back(TaskId id, Task& task, Runner& runner);
  void note_late(BootTime now, Runner& runner, Actions& actions);
  void note_load(Runner& runner) const;
  std::optional<BootTime> due_of(const Runner& runner) const;
  static void leave(Group& group, RunnerId id);
  void lose(RunnerId id, const Error& error, Actions& actions);
  static bool may_retry(const Task& task, const Error& error, bool lost);
  void finish(TaskId task, Result<std::string> result, Actions& actions);

  const Options options_;
  ResourceSet total_;
  uint64_t next_runner_ = 1;
  std::unordered_map<uint64_t, std::chrono::nanoseconds> takes_;  // Moving mean of the duration by function.
  std::unordered_map<TaskId, Task> tasks_;
  std::map<RunnerId, Runner> runners_;
  std::map<Shape, Group, ShapeLess> groups_;
};

}  // namespace volador
