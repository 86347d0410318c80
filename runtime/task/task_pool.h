// Which task runs on which runner: the mind behind volador::task. Runners are actors that execute tasks one after another; the
// pool asks for as many as there are tasks to run and room in the cluster, keeps them a moment when they are idle, and gives a task
// that lost its runner to another.
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
#include "runtime/node_wishes.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "runtime/task/task_queue.h"

namespace volador {

enum class RunnerId : uint64_t {};

// Where a task may run, besides having room.
struct TaskPlace {
  NodeWishes wishes;
  GroupId group;    // A placement group; nil: none.
  int bundle = -1;  // Of the group; -1: any.
  auto operator<=>(const TaskPlace&) const = default;
};

struct TaskRequest {
  uint64_t function = 0;
  std::string name;       // "square", for messages.
  std::string arguments;  // Envelope.
  ResourceSet resources;
  TaskPlace place;
  int max_retries = 3;    // When its runner dies under it; -1: without limit.
  std::vector<std::string> retry_on;  // Types of exceptions after which it is tried again as well, as the compiler names them.
};

class TaskPool {
 public:
  struct Options {
    std::chrono::nanoseconds idle = std::chrono::milliseconds(500);     // A runner without a task ends after it.
    std::chrono::nanoseconds ahead = std::chrono::milliseconds(1);      // Work that a busy runner is given in advance.
    std::chrono::nanoseconds behind = std::chrono::milliseconds(3);     // Also beyond `ahead` two tasks that are no longer are given at once.
    size_t ahead_max = 512;                                             // Tasks, of it.
    std::chrono::nanoseconds together = std::chrono::microseconds(100); // Work that is not worth waking another runner for.
    std::chrono::nanoseconds start = std::chrono::milliseconds(5);      // That the start of a runner takes, about.
    std::chrono::nanoseconds late = std::chrono::milliseconds(20);      // Of a short task: what waits behind it is then called back.
    size_t runners_max = 1000;                                          // Of one set of resources.
    size_t tasks_max = 1'000'000;                                       // Not finished.
  };
  struct Start {  // An actor of the runner's class that holds `resources`.
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
  struct Cancel {  // The runner's call of this task.
    RunnerId runner;
    TaskId task;
  };
  struct Recall {  // The runner gives back what it has not begun: each of those calls ends with kCancelled, the newest first.
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

  // What the cluster has in all: bounds the number of runners. Zero where it is not known yet.
  void set_total(const ResourceSet& total);

  // Beyond Options::tasks_max the task ends at once with kUnavailable.
  Actions submit(BootTime now, TaskId task, TaskRequest request);
  Actions runner_ready(BootTime now, RunnerId runner);
  // It is dead, or could not be started (`refused`: nor could another). Its tasks go to others; the one it executed by its retries.
  Actions runner_failed(BootTime now, RunnerId runner, const Error& error, bool refused);
  // What the call of this attempt ended with, and how long the task ran; 0: not known. Answers of attempts that are over change nothing.
  Actions answered(BootTime now, RunnerId runner, TaskId task, int attempt, Result<std::string> result, std::chrono::nanoseconds took = {});
  // One that waits ends with kCancelled; of one that was given to a runner the call is cancelled, or with `force` the runner ended.
  // Finished: no effect.
  Actions cancel(BootTime now, TaskId task, bool force);
  Actions tick(BootTime now);
  // Everything ends with this error.
  Actions close(const Error& error);

  // When tick() has something to do.
  std::optional<BootTime> next_tick() const;
  size_t unfinished() const { return tasks_.size(); }
  size_t runners() const { return runners_.size(); }

  void check_invariants() const;

 private:
  struct Shape {
    std::map<std::string, Amount, std::less<>> resources;
    TaskPlace place;
  };
  // Looks shapes up by what a request has of them.
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
    std::optional<RunnerId> runner;  // To which it is given.
    std::chrono::nanoseconds expected{};  // That it takes, when it was given.
    bool cancelled = false;  // By its submitter, while a runner has it: a call that is given back is not made again.
  };
  struct Runner {
    RunnerId id{};
    Group* group = nullptr;
    bool ready = false;
    std::deque<TaskId> given;             // In the order of execution: the first one runs.
    std::chrono::nanoseconds expected{};  // That all of them take.
    BootTime busy_since{};                // Since the first of `given` runs.
    BootTime idle_since{};
    bool late = false;  // The first of `given` takes longer than was expected: until it ends this one gets no other.
    bool soon = true;   // It is free no later than another could be started.
  };
  // Of one shape. Between two events either no task waits, or no runner is idle.
  struct Group {
    const Shape* shape = nullptr;
    TaskQueue queue;
    std::map<RunnerId, Runner*> runners;
    Runner* filling = nullptr;  // The one that was given to last; null: it is gone.
    size_t runners_max = 0;
    size_t starting = 0;
    size_t soon = 0;        // Of `runners`.
    int starts_failed = 0;  // In a row.
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
  std::unordered_map<uint64_t, std::chrono::nanoseconds> takes_;  // By function: a moving mean.
  std::unordered_map<TaskId, Task> tasks_;
  std::map<RunnerId, Runner> runners_;
  std::map<Shape, Group, ShapeLess> groups_;
};

}  // namespace volador
