// The tasks of this process: feeds the pure pool (task_pool.h) and carries out what it says over the session.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "runtime/actor/session.h"
#include "runtime/clock.h"
#include "runtime/task/task_pool.h"

namespace volador {

// The class of the actors that execute tasks: every function that volador::task names is a method of it.
class TaskRunner {};

// Thread safe. Its one thread starts and ends runners, which asks the head; tasks and answers go without it.
class TaskSubmitter : public std::enable_shared_from_this<TaskSubmitter> {
 public:
  // That of Session::current(), made at its first use.
  static std::shared_ptr<TaskSubmitter> current();
  // Ends the tasks of this process, before its session is closed.
  static void shutdown();

  explicit TaskSubmitter(std::shared_ptr<Session> session);
  ~TaskSubmitter();

  // `done` runs once, on a thread of the runtime, which it must not block.
  TaskId submit(TaskRequest request, std::function<void(Result<std::string>)> done);
  void cancel(TaskId task, bool force);
  // What has not finished ends with kCancelled, the runners end.
  void close();

 private:
  struct Runner {
    ActorId actor;
    std::shared_ptr<void> following;  // Its status.
  };

  void start_thread();
  void work();
  void start(std::unique_lock<std::mutex>& hold, const TaskPool::Start& wanted);
  void follow(RunnerId runner, const ActorStatus& status);
  void carry_out(std::unique_lock<std::mutex>& hold, TaskPool::Actions actions);
  void send(const TaskPool::Run& run, const ActorId& actor);
  void cancel_call(TaskId task, const ActorId& actor);

  const std::shared_ptr<Session> session_;
  const SystemClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  TaskPool pool_;
  uint64_t next_task_ = 1;
  std::unordered_map<TaskId, std::function<void(Result<std::string>)>> done_;
  std::unordered_map<RunnerId, Runner> runners_;
  std::unordered_map<TaskId, uint64_t> calls_;  // By which the newest attempt of a task is cancelled.
  std::deque<TaskPool::Start> starts_;
  std::deque<Runner> ends_;
  std::deque<std::function<void()>> outbox_;  // Calls and callbacks, in order; whoever set sending_ empties it without the lock.
  bool sending_ = false;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace volador
