// The tasks of this process: feeds the pure pool (task_pool.h) and applies its actions through the session.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/actor/session.h"
#include "runtime/adaptive_mutex.h"
#include "runtime/clock.h"
#include "runtime/task/task_pool.h"
#include "runtime/unique_function.h"

namespace volador {

// Class of the actors that execute tasks: every function used with volador::task is a method of it.
class TaskRunner {};

// Thread safe. Its thread starts and ends runners, which involves the head; tasks and replies do not need it.
class TaskSubmitter : public std::enable_shared_from_this<TaskSubmitter> {
 public:
  // Returns the submitter of Session::current(), created on first use.
  static std::shared_ptr<TaskSubmitter> current();
  // Ends the tasks of this process; call before closing its session.
  static void shutdown();

  explicit TaskSubmitter(std::shared_ptr<Session> session);
  ~TaskSubmitter();

  // `done` runs once, on a runtime thread, which it must not block.
  using Done = UniqueFunction<void(Result<std::string>)>;
  TaskId submit(TaskRequest request, Done done);
  void cancel(TaskId task, bool force);
  // Unfinished tasks end with kCancelled; the runners end.
  void close();

 private:
  struct Runner {
    ActorId actor;
    std::shared_ptr<void> following;  // Subscription to its status.
  };
  class Attempt;
  struct Waiting {
    Done done;
    std::shared_ptr<Attempt> newest;  // Attempt to cancel; null: the task is queued.
  };
  // Work done without the lock: send or cancel an attempt, recall a runner's queued tasks, or report a result.
  struct Errand {
    std::shared_ptr<Attempt> attempt;
    bool cancels = false;
    ActorId recalls_from;  // Nil: none.
    Done done;
    Result<std::string> result;
  };
  using Lock = std::unique_lock<AdaptiveMutex>;

  void start_thread();
  void work();
  void start(Lock& hold, const TaskPool::Start& wanted);
  void follow(RunnerId runner, const ActorStatus& status);
  void apply_actions(Lock& hold, TaskPool::Actions actions);
  void run(Errand& errand);
  void answered(const Attempt& attempt, Result<std::string> result);

  const std::shared_ptr<Session> session_;
  const SystemClock clock_;
  AdaptiveMutex mutex_;
  std::condition_variable_any changed_;
  TaskPool pool_;
  uint64_t next_task_ = 1;
  std::unordered_map<TaskId, Waiting> tasks_;  // Unfinished tasks.
  std::unordered_map<RunnerId, Runner> runners_;
  std::deque<TaskPool::Start> starts_;
  std::deque<Runner> ends_;
  std::vector<Errand> errands_;  // In order; the thread that set sending_ runs them without the lock.
  bool sending_ = false;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace volador
