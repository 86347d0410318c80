#include "runtime/task/task_pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/actor/exception_kinds.h"
#include "runtime/net/call_errors.h"
#include "runtime/quantities.h"

namespace volador {
namespace {

constexpr int kStartsFailedMax = 3;
constexpr size_t kUnknownTotal = 16;  // Runners if the cluster's size is unknown; the head queues the excess.
constexpr int kNewest = 2;            // Weight of the newest sample in the moving mean: one part in this number.
constexpr std::chrono::nanoseconds kNotKnown = std::chrono::hours(1);  // For unknown tasks; longer than any limit.

// Rewords an error of a runner's call: the program called a function and does not see the actor.
Error in_words_of_task(const std::string& name, Error error) {
  if (error.code == ErrorCode::kApplication) return error;  // Error text of the function itself.
  std::string_view text = error.message;
  if (text.starts_with("call to actor ")) text.remove_prefix(text.find(": ") + 2);
  const bool of_call = text.starts_with("the call ");
  if (of_call) text.remove_prefix(std::string_view("the call ").size());
  error.message = fmt::format("task {}: {}{}", name, of_call ? "it " : "", text);
  return error;
}

// Whether a call failed because its actor or connection is gone; any other result is the task's own.
bool is_loss(const Error& error) {
  return error.code == ErrorCode::kActorDied || error.code == ErrorCode::kUnknownOutcome;
}

}  // namespace

// Returns the maximum number of runners. Without other resources only the CPUs limit it.
size_t TaskPool::runners_max(const Shape& shape) const {
  if (total_.empty()) return std::min<size_t>(kUnknownTotal, options_.runners_max);
  Amount most = -1;
  for (const auto& [name, amount] : shape.resources) {
    const Amount fit = total_.get(name) / amount;
    most = most < 0 ? fit : std::min(most, fit);
  }
  if (most < 0) most = total_.get("cpus") / kUnit;
  return std::clamp<size_t>(static_cast<size_t>(most), 1, options_.runners_max);
}

// Expected duration of the first queued task. A task of an unknown function may take any time.
std::chrono::nanoseconds TaskPool::expected(const Group& group) const {
  const Task& first = tasks_.at(group.queue.front());
  const auto known = takes_.find(first.request.function);
  return known == takes_.end() ? kNotKnown : known->second;
}

// Whether the first queued task may be assigned behind another one. When a runner dies, it is unknown which assigned
// tasks it executed: a task that must not run again has to be first.
bool TaskPool::may_queue(const Group& group) const {
  const Task& first = tasks_.at(group.queue.front());
  return first.request.max_retries < 0 || first.retries < first.request.max_retries;
}

// Further tasks wait for the running one, so only short ones are assigned ahead.
bool TaskPool::has_room(const Runner& runner, std::chrono::nanoseconds more) const {
  if (!runner.ready || runner.late) return false;
  if (runner.given.empty()) return true;
  if (!may_queue(*runner.group)) return false;
  if (runner.given.size() == 1 && std::max(runner.expected, more) <= options_.behind) return true;
  return runner.given.size() < options_.ahead_max && runner.expected + more <= options_.ahead;
}

// Selects the runner for a task of this duration: the last used one while its total work is less than the cost of
// waking another; then an idle one; then the least loaded. Null: none has room.
TaskPool::Runner* TaskPool::choose(Group& group, std::chrono::nanoseconds more) const {
  Runner* const last = group.filling;
  if (last != nullptr && has_room(*last, more) && last->expected + more <= options_.together) return last;
  Runner* best = nullptr;
  for (const auto& [id, runner] : group.runners) {
    if (!has_room(*runner, more)) continue;
    if (runner->given.empty()) return runner;
    if (best == nullptr || runner->expected < best->expected) best = runner;
  }
  return best;
}

void TaskPool::set_total(const ResourceSet& total) {
  total_ = total;
  for (auto& [shape, group] : groups_) group.runners_max = runners_max(shape);
}

TaskPool::Group& TaskPool::group_of(const TaskRequest& request) {
  auto found = groups_.find(request);
  if (found == groups_.end()) {
    found = groups_.emplace(Shape{request.resources.entries(), request.place}, Group{}).first;
    found->second.shape = &found->first;
    found->second.runners_max = runners_max(found->first);
  }
  return found->second;
}

TaskPool::Actions TaskPool::submit(BootTime now, TaskId id, TaskRequest request) {
  Actions actions;
  if (tasks_.size() >= options_.tasks_max) {
    actions.finish.push_back(
        {id,
         make_error(ErrorCode::kUnavailable,
                    fmt::format("task {}: {} not finished, its limit; wait for some of them", request.name,
                                counted(tasks_.size(), "task of this process has", "tasks of this process have")))});
    return actions;
  }
  Group& group = group_of(request);
  const bool others_wait = !group.queue.empty();
  group.queue.push_back(id);
  tasks_.emplace(id, Task{.request = std::move(request), .group = &group});
  if (others_wait) {
    start_runners(group, actions);
  } else {
    dispatch(now, group, actions);
  }
  return actions;
}

void TaskPool::dispatch(BootTime now, Group& group, Actions& actions) {
  while (!group.queue.empty()) {
    Runner* const runner = choose(group, expected(group));
    if (runner == nullptr) break;
    group.filling = runner;
    give(now, *runner, actions);
  }
  start_runners(group, actions);
}

// Starts one runner per queued task; for short tasks only while the runners that are free soon have more work than a
// start takes.
void TaskPool::start_runners(Group& group, Actions& actions) {
  if (group.queue.empty()) return;
  const auto each = expected(group);
  const auto helps = [&] { return each * group.queue.size() > options_.start * group.soon; };
  while (group.queue.size() > group.starting && group.runners.size() < group.runners_max && helps()) {
    const RunnerId id{next_runner_++};
    Runner& runner = runners_[id];
    runner.id = id;
    runner.group = &group;
    group.runners.emplace(id, &runner);
    ++group.starting;
    ++group.soon;
    ResourceSet resources;
    for (const auto& [name, amount] : group.shape->resources) resources.set(name, amount);
    actions.start.push_back({id, std::move(resources), group.shape->place});
  }
}

// Assigns the first queued task.
void TaskPool::give(BootTime now, Runner& runner, Actions& actions) {
  Group& group = *runner.group;
  const auto takes = expected(group);
  const TaskId task_id = group.queue.pop_front();
  Task& task = tasks_.at(task_id);
  ++task.attempt;
  task.runner = runner.id;
  task.expected = takes;
  runner.expected += takes;
  if (runner.given.empty()) runner.busy_since = now;
  runner.given.push_back(task_id);
  note_load(runner);
  actions.run.push_back({runner.id, task_id, task.attempt, task.request.function, task.request.arguments});
}

void TaskPool::learn(uint64_t function, std::chrono::nanoseconds took) {
  took = std::max(took, std::chrono::nanoseconds(1));
  const auto [known, is_new] = takes_.try_emplace(function, took);
  if (!is_new) known->second += std::chrono::nanoseconds((took - known->second).count() / kNewest);
}

// Removes the task from its runner.
void TaskPool::take_back(TaskId id, Task& task, Runner& runner) {
  runner.given.erase(std::find(runner.given.begin(), runner.given.end(), id));
  runner.expected -= task.expected;
  note_load(runner);
  task.runner.reset();
  task.cancelled = false;
}

void TaskPool::note_load(Runner& runner) const {
  const bool soon = !runner.late && runner.expected <= options_.start;
  if (soon == runner.soon) return;
  runner.soon = soon;
  if (soon) {
    ++runner.group->soon;
  } else {
    --runner.group->soon;
  }
}

TaskPool::Actions TaskPool::runner_ready(BootTime now, RunnerId id) {
  Actions actions;
  const auto found = runners_.find(id);
  if (found == runners_.end() || found->second.ready) return actions;
  Runner& runner = found->second;
  runner.ready = true;
  runner.idle_since = now;
  Group& group = *runner.group;
  --group.starting;
  group.starts_failed = 0;
  dispatch(now, group, actions);
  return actions;
}

TaskPool::Actions TaskPool::runner_failed(BootTime now, RunnerId id, const Error& error, bool refused) {
  Actions actions;
  const auto found = runners_.find(id);
  if (found == runners_.end()) return actions;
  Group& group = *found->second.group;
  const bool started = found->second.ready;
  lose(id, error, actions);
  if (!started && (refused || ++group.starts_failed >= kStartsFailedMax) && group.runners.size() == group.starting) {
    // There is no runner, and pending starts will fail as well.
    for (const TaskId task : group.queue.take_all())
      finish(task, make_error(in_words_of_task(tasks_.at(task).request.name, error)), actions);
    group.starts_failed = 0;
  }
  dispatch(now, group, actions);
  return actions;
}

// Removes the runner from its group.
void TaskPool::leave(Group& group, RunnerId id) {
  if (group.filling != nullptr && group.filling->id == id) group.filling = nullptr;
  const auto runner = group.runners.find(id);
  if (runner->second->soon) --group.soon;
  group.runners.erase(runner);
}

// Returns its tasks to the front of the queue in order; the first one was running.
void TaskPool::lose(RunnerId id, const Error& error, Actions& actions) {
  Group& group = *runners_.at(id).group;
  leave(group, id);
  const Runner runner = std::move(runners_.extract(id).mapped());
  if (!runner.ready) --group.starting;
  for (size_t at = runner.given.size(); at-- > 0;) {
    Task& task = tasks_.at(runner.given[at]);
    task.runner.reset();
    task.cancelled = false;
    if (at == 0) {
      if (!may_retry(task, error, true)) {
        std::string message = fmt::format("task {} was executed {} and lost its process each time: {}",
                                          task.request.name, counted(task.retries + 1, "time"), error.message);
        finish(runner.given[at], make_error(error.code, std::move(message)), actions);
        continue;
      }
      ++task.retries;
    }
    group.queue.push_front(runner.given[at]);
  }
}

bool TaskPool::may_retry(const Task& task, const Error& error, bool lost) {
  if (task.request.max_retries >= 0 && task.retries >= task.request.max_retries) return false;
  if (lost) return true;
  if (error.code != ErrorCode::kApplication) return false;
  return std::any_of(task.request.retry_on.begin(), task.request.retry_on.end(),
                     [&](const std::string& type) { return internal::is_of_kind(error.message, type); });
}

void TaskPool::finish(TaskId id, Result<std::string> result, Actions& actions) {
  tasks_.erase(id);
  actions.finish.push_back({id, std::move(result)});
}

TaskPool::Actions TaskPool::answered(BootTime now, RunnerId id, TaskId task_id, int attempt, Result<std::string> result,
                                     std::chrono::nanoseconds took) {
  Actions actions;
  const auto found = runners_.find(id);
  const auto at = tasks_.find(task_id);
  if (found == runners_.end() || at == tasks_.end() || at->second.attempt != attempt || at->second.runner != id)
    return actions;
  Runner& runner = found->second;
  Task& task = at->second;
  if (!result && is_loss(result.error())) {
    actions = runner_failed(now, id, result.error(), false);
    actions.end.push_back(id);  // If only the connection is lost, the runner must not continue.
    return actions;
  }
  Group& group = *runner.group;
  // A runner that had not begun anything when it was asked (frozen or not connected yet) returns its first task as
  // well.
  const bool given_back = !task.cancelled && !result && net::is_given_back(result.error());
  const bool ran = runner.given.front() == task_id;  // False: a queued task was cancelled or returned.
  if (ran) runner.late = false;
  take_back(task_id, task, runner);
  runner.idle_since = now;  // If it has no other task.
  if (given_back) {
    group.queue.push_front(task_id);
    dispatch(now, group, actions);
    return actions;
  }
  if (ran) {
    learn(task.request.function, took.count() > 0 ? took : now - runner.busy_since);
    runner.busy_since = now;
  }
  if (!result && may_retry(task, result.error(), false)) {
    ++task.retries;
    group.queue.push_back(task_id);
    dispatch(now, group, actions);
    return actions;
  }
  if (!result) result = make_error(in_words_of_task(task.request.name, std::move(result).error()));
  finish(task_id, std::move(result), actions);
  // Only this runner has become idle.
  while (!group.queue.empty() && has_room(runner, expected(group))) give(now, runner, actions);
  start_runners(group, actions);  // The cluster may have grown.
  return actions;
}

TaskPool::Actions TaskPool::cancel(BootTime now, TaskId id, bool force) {
  Actions actions;
  const auto task = tasks_.find(id);
  if (task == tasks_.end()) return actions;
  Group& group = *task->second.group;
  const Error cancelled{ErrorCode::kCancelled, fmt::format("task {} was cancelled", task->second.request.name)};
  if (!task->second.runner) {
    group.queue.erase(id);
    finish(id, make_error(cancelled), actions);
    return actions;
  }
  const RunnerId runner = *task->second.runner;
  if (!force || runners_.at(runner).given.front() != id) {  // It is queued behind another task and not running.
    task->second.cancelled = true;
    actions.cancel.push_back({runner, id});
    return actions;
  }
  std::deque<TaskId> given = std::move(runners_.at(runner).given);
  std::erase(given, id);
  finish(id, make_error(cancelled), actions);
  for (const TaskId other : given) {
    tasks_.at(other).runner.reset();
    tasks_.at(other).cancelled = false;
  }
  for (auto other = given.rbegin(); other != given.rend(); ++other) group.queue.push_front(*other);
  leave(group, runner);
  runners_.erase(runner);
  actions.end.push_back(runner);
  dispatch(now, group, actions);
  return actions;
}

TaskPool::Actions TaskPool::tick(BootTime now) {
  Actions actions;
  for (auto at = runners_.begin(); at != runners_.end();) {
    auto& [id, runner] = *at;
    const auto due = due_of(runner);
    if (!due || *due > now) {
      ++at;
    } else if (runner.given.empty()) {
      actions.end.push_back(id);
      leave(*runner.group, id);
      at = runners_.erase(at);
    } else {
      note_late(now, runner, actions);
      start_runners(*runner.group, actions);
      ++at;
    }
  }
  std::erase_if(groups_, [](const auto& entry) { return entry.second.queue.empty() && entry.second.runners.empty(); });
  return actions;
}

// Tasks behind the first one may be what that one waits for.
void TaskPool::note_late(BootTime now, Runner& runner, Actions& actions) {
  learn(tasks_.at(runner.given.front()).request.function, now - runner.busy_since);
  runner.late = true;
  note_load(runner);
  if (runner.given.size() == 1) return;
  actions.recall.push_back({runner.id});
}

TaskPool::Actions TaskPool::close(const Error& error) {
  Actions actions;
  std::vector<TaskId> ids;
  for (const auto& [id, task] : tasks_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (const TaskId id : ids) finish(id, make_error(error), actions);
  for (const auto& [id, runner] : runners_) actions.end.push_back(id);
  runners_.clear();
  groups_.clear();
  return actions;
}

std::optional<BootTime> TaskPool::due_of(const Runner& runner) const {
  if (!runner.ready) return std::nullopt;
  if (runner.given.empty()) return runner.idle_since + options_.idle;
  if (runner.late || !runner.soon) return std::nullopt;
  return runner.busy_since + options_.late;
}

std::optional<BootTime> TaskPool::next_tick() const {
  std::optional<BootTime> next;
  for (const auto& [id, runner] : runners_) {
    if (const auto at = due_of(runner)) next = next ? std::min(*next, *at) : at;
  }
  return next;
}

void TaskPool::check_invariants() const {
  size_t placed = 0;
  for (const auto& [id, runner] : runners_) {
    VOLADOR_CHECK(runner.group->runners.at(id) == &runner);
    VOLADOR_CHECK(runner.ready || runner.given.empty());
    std::chrono::nanoseconds expected{};
    for (const TaskId task : runner.given) {
      VOLADOR_CHECK(tasks_.at(task).runner == id);
      expected += tasks_.at(task).expected;
    }
    VOLADOR_CHECK(runner.expected == expected);
    placed += runner.given.size();
  }
  for (const auto& [shape, group] : groups_) {
    size_t starting = 0;
    size_t soon = 0;
    bool idle = false;
    for (const auto& [id, runner] : group.runners) {
      starting += runner->ready ? 0 : 1;
      soon += runner->soon ? 1 : 0;
      idle = idle || (runner->ready && runner->given.empty());
    }
    VOLADOR_CHECK(starting == group.starting);
    VOLADOR_CHECK(soon == group.soon);
    VOLADOR_CHECK(group.queue.empty() || !idle, "tasks wait though a runner is idle");
    VOLADOR_CHECK(group.queue.empty() || !group.runners.empty(), "tasks wait for nobody");
    placed += group.queue.size();
  }
  VOLADOR_CHECK(placed == tasks_.size(), "a task is in no queue or in two");
}

}  // namespace volador
