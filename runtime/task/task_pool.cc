#include "runtime/task/task_pool.h"

#include <fmt/format.h>

#include <algorithm>

namespace volador {
namespace {

constexpr int kStartsFailedMax = 3;
constexpr size_t kUnknownTotal = 16;  // Runners, where the cluster's size is not known; what is too many waits at the head.
constexpr double kNewest = 0.5;  // Its weight in the mean time of a task.

// What a call ends with when its actor or the way to it is gone; everything else is the task's own answer.
bool is_loss(const Error& error) { return error.code == ErrorCode::kActorDied || error.code == ErrorCode::kUnknownOutcome; }

}  // namespace

// Without resources nothing but the CPUs bounds how many are of use.
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

// A task beyond the one that runs waits for it, so only short ones are given in advance.
size_t TaskPool::tasks_ahead(double seconds_a_task) const {
  if (seconds_a_task <= 0) return 1;
  const double fit = std::chrono::duration<double>(options_.ahead).count() / seconds_a_task;
  return std::clamp<size_t>(static_cast<size_t>(std::min(fit, 1e6)), 1, options_.ahead_max);
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
    actions.finish.push_back({id, make_error(ErrorCode::kUnavailable, fmt::format("task {}: {} tasks of this process have not finished, its limit; wait for some of them",
                                                                                  request.name, tasks_.size()))});
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

// One each before two to any.
void TaskPool::dispatch(BootTime now, Group& group, Actions& actions) {
  for (size_t depth = 1; !group.queue.empty();) {
    size_t next = options_.ahead_max + 1;  // The fewest that one with room has, and one more.
    for (const auto& [id, runner] : group.runners) {
      if (group.queue.empty()) break;
      if (!runner->has_room()) continue;
      if (runner->given.size() < depth) give(now, id, *runner, actions);
      if (runner->has_room()) next = std::min(next, runner->given.size() + 1);
    }
    if (next > options_.ahead_max) break;
    depth = next;
  }
  start_runners(group, actions);
}

void TaskPool::start_runners(Group& group, Actions& actions) {
  while (group.queue.size() > group.starting && group.runners.size() < group.runners_max) {
    const RunnerId id{next_runner_++};
    Runner& runner = runners_[id];
    runner.group = &group;
    group.runners.emplace(id, &runner);
    ++group.starting;
    ResourceSet resources;
    for (const auto& [name, amount] : group.shape->resources) resources.set(name, amount);
    actions.start.push_back({id, std::move(resources), group.shape->place});
  }
}

void TaskPool::give(BootTime now, RunnerId id, Runner& runner, Actions& actions) {
  const TaskId task_id = runner.group->queue.front();
  runner.group->queue.pop_front();
  Task& task = tasks_.at(task_id);
  ++task.attempt;
  task.runner = id;
  if (runner.given.empty()) runner.busy_since = now;
  runner.given.push_back(task_id);
  actions.run.push_back({id, task_id, task.attempt, task.request.function, task.request.arguments});
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
    // No runner is there, and none will be: the others that start end the same way.
    for (const TaskId task : std::exchange(group.queue, {})) finish(task, make_error(error), actions);
    group.starts_failed = 0;
  }
  dispatch(now, group, actions);
  return actions;
}

// Its tasks are given back to the front of the queue in their order; the first one was running.
void TaskPool::lose(RunnerId id, const Error& error, Actions& actions) {
  Runner runner = std::move(runners_.at(id));
  runners_.erase(id);
  Group& group = *runner.group;
  group.runners.erase(id);
  if (!runner.ready) --group.starting;
  for (size_t at = runner.given.size(); at-- > 0;) {
    Task& task = tasks_.at(runner.given[at]);
    task.runner.reset();
    if (at == 0) {
      if (!may_retry(task, error, true)) {
        std::string message = fmt::format("task {} was executed {} time{} and lost its process each time: {}", task.request.name, task.retries + 1,
                                          task.retries == 0 ? "" : "s", error.message);
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
                     [&](const std::string& type) { return error.message.starts_with(type + ":"); });
}

void TaskPool::finish(TaskId id, Result<std::string> result, Actions& actions) {
  tasks_.erase(id);
  actions.finish.push_back({id, std::move(result)});
}

TaskPool::Actions TaskPool::answered(BootTime now, RunnerId id, TaskId task_id, int attempt, Result<std::string> result) {
  Actions actions;
  const auto found = runners_.find(id);
  const auto task = tasks_.find(task_id);
  if (found == runners_.end() || task == tasks_.end() || task->second.attempt != attempt) return actions;
  Runner& runner = found->second;
  const auto place = std::find(runner.given.begin(), runner.given.end(), task_id);
  if (place == runner.given.end()) return actions;
  if (!result && is_loss(result.error())) {
    actions = runner_failed(now, id, result.error(), false);
    actions.end.push_back(id);  // Where only the way to it is gone it must not go on.
    return actions;
  }
  const double seconds = std::chrono::duration<double>(now - runner.busy_since).count();
  runner.seconds_a_task = runner.seconds_a_task <= 0 ? std::max(seconds, 1e-9) : runner.seconds_a_task + kNewest * (seconds - runner.seconds_a_task);
  runner.busy_since = runner.idle_since = now;
  runner.ahead = tasks_ahead(runner.seconds_a_task);
  runner.given.erase(place);
  Group& group = *runner.group;
  if (!result && may_retry(task->second, result.error(), false)) {
    ++task->second.retries;
    task->second.runner.reset();
    group.queue.push_back(task_id);
    dispatch(now, group, actions);
    return actions;
  }
  finish(task_id, std::move(result), actions);
  while (!group.queue.empty() && runner.has_room()) give(now, id, runner, actions);  // It alone has more room than before.
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
    std::erase(group.queue, id);
    finish(id, make_error(cancelled), actions);
    return actions;
  }
  const RunnerId runner = *task->second.runner;
  if (!force || runners_.at(runner).given.front() != id) {  // Behind another one it does not run yet.
    actions.cancel.push_back({runner, id});
    return actions;
  }
  std::deque<TaskId> given = std::move(runners_.at(runner).given);
  std::erase(given, id);
  finish(id, make_error(cancelled), actions);
  for (const TaskId other : given) tasks_.at(other).runner.reset();
  group.queue.insert(group.queue.begin(), given.begin(), given.end());
  group.runners.erase(runner);
  runners_.erase(runner);
  actions.end.push_back(runner);
  dispatch(now, group, actions);
  return actions;
}

TaskPool::Actions TaskPool::tick(BootTime now) {
  Actions actions;
  for (auto at = runners_.begin(); at != runners_.end();) {
    const auto& [id, runner] = *at;
    if (!runner.ready || !runner.given.empty() || runner.idle_since + options_.idle > now) {
      ++at;
      continue;
    }
    actions.end.push_back(id);
    runner.group->runners.erase(id);
    at = runners_.erase(at);
  }
  std::erase_if(groups_, [](const auto& entry) { return entry.second.queue.empty() && entry.second.runners.empty(); });
  return actions;
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

std::optional<BootTime> TaskPool::next_tick() const {
  std::optional<BootTime> next;
  for (const auto& [id, runner] : runners_) {
    if (!runner.ready || !runner.given.empty()) continue;
    const BootTime at = runner.idle_since + options_.idle;
    next = next ? std::min(*next, at) : at;
  }
  return next;
}

void TaskPool::check_invariants() const {
  size_t placed = 0;
  for (const auto& [id, runner] : runners_) {
    VOLADOR_CHECK(runner.group->runners.at(id) == &runner);
    VOLADOR_CHECK(runner.ready || runner.given.empty());
    for (const TaskId task : runner.given) VOLADOR_CHECK(tasks_.at(task).runner == id);
    placed += runner.given.size();
  }
  for (const auto& [shape, group] : groups_) {
    size_t starting = 0;
    bool room = false;
    for (const auto& [id, runner] : group.runners) {
      starting += runner->ready ? 0 : 1;
      room = room || runner->has_room();
    }
    VOLADOR_CHECK(starting == group.starting);
    VOLADOR_CHECK(group.queue.empty() || !room, "tasks wait though there is room");
    VOLADOR_CHECK(group.queue.empty() || !group.runners.empty(), "tasks wait for nobody");
    placed += group.queue.size();
  }
  VOLADOR_CHECK(placed == tasks_.size(), "a task is in no queue or in two");
}

}  // namespace volador
