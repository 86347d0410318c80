#include "runtime/task/task_submitter.h"

#include <utility>

#include "runtime/actor/actor_class.h"
#include "runtime/language/reason.h"
#include "runtime/log.h"
#include "runtime/task/task_time.h"

namespace volador {
namespace {

std::mutex& current_mutex() {
  static std::mutex mutex;
  return mutex;
}
std::shared_ptr<TaskSubmitter>& current_slot() {
  static std::shared_ptr<TaskSubmitter> slot;
  return slot;
}

// Rewords errors for tasks: the head's advice is for actors and groups. An infeasible task fails at once and has no
// option to wait.
Error in_words_of_tasks(Error error) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {{"option.and_wait", "option.first"},
                                                                      {"option.or_wait", "option.or_join"}};
  if (error.code == ErrorCode::kInfeasible) error = error_of(error.code, reason_of(error).with_sentences(kWords));
  if (error.message.starts_with("tasks asks")) error.message.replace(0, 5, "it");
  return error;
}

}  // namespace

// An attempt of a task: the call of its runner.
class TaskSubmitter::Attempt final : public OutgoingCall {
 public:
  Attempt(std::weak_ptr<TaskSubmitter> of, TaskPool::Run&& run, const ActorId& on)
      : runner(run.runner), task(run.task), number(run.attempt), of_(std::move(of)) {
    target = on;
    method = run.function;
    arguments = std::move(run.arguments);
  }
  void on_end(Result<std::string>&& result) override {
    if (const auto submitter = of_.lock()) submitter->answered(*this, std::move(result));
  }

  const RunnerId runner;
  const TaskId task;
  const int number;

 private:
  const std::weak_ptr<TaskSubmitter> of_;
};

std::shared_ptr<TaskSubmitter> TaskSubmitter::current() {
  auto session = Session::current();
  std::shared_ptr<TaskSubmitter> stale;
  const std::lock_guard<std::mutex> hold(current_mutex());
  auto& slot = current_slot();
  if (!slot || slot->session_ != session) {
    stale = std::exchange(slot, std::make_shared<TaskSubmitter>(std::move(session)));
    slot->start_thread();
  }
  return slot;
}

void TaskSubmitter::shutdown() {
  std::shared_ptr<TaskSubmitter> last;
  {
    const std::lock_guard<std::mutex> hold(current_mutex());
    last = std::exchange(current_slot(), nullptr);
  }
  if (last) last->close();
}

TaskSubmitter::TaskSubmitter(std::shared_ptr<Session> session)
    : session_(std::move(session)), pool_(TaskPool::Options{}) {
  pool_.set_total(session_->totals().total);
}

TaskSubmitter::~TaskSubmitter() { close(); }

void TaskSubmitter::start_thread() {
  thread_ = std::thread([this] { work(); });
}

TaskId TaskSubmitter::submit(TaskRequest request, Done done) {
  Lock hold(mutex_);
  if (closed_) {
    hold.unlock();
    done(make_error(ErrorCode::kCancelled, "this process has left the cluster"));
    return {};
  }
  const TaskId id{next_task_++};
  tasks_.emplace(id, Waiting{std::move(done), nullptr});
  apply_actions(hold, pool_.submit(clock_.now(), id, std::move(request)));
  return id;
}

void TaskSubmitter::cancel(TaskId task, bool force) {
  Lock hold(mutex_);
  if (!closed_) apply_actions(hold, pool_.cancel(clock_.now(), task, force));
}

void TaskSubmitter::close() {
  Lock hold(mutex_);
  if (!closed_) {
    closed_ = true;
    starts_.clear();
    apply_actions(hold,
                  pool_.close({ErrorCode::kCancelled, "the connection to the cluster was closed by this process"}));
    changed_.notify_all();
  }
  hold.unlock();
  if (thread_.joinable()) thread_.join();
}

// The lock is held on return.
void TaskSubmitter::apply_actions(Lock& hold, TaskPool::Actions actions) {
  for (TaskPool::Run& run : actions.run) {
    const auto runner = runners_.find(run.runner);
    const auto waiting = tasks_.find(run.task);
    if (runner == runners_.end() || waiting == tasks_.end()) continue;
    auto attempt = std::make_shared<Attempt>(weak_from_this(), std::move(run), runner->second.actor);
    waiting->second.newest = attempt;
    errands_.push_back({.attempt = std::move(attempt)});
  }
  for (const TaskPool::Cancel& cancelled : actions.cancel) {
    const auto waiting = tasks_.find(cancelled.task);
    if (waiting != tasks_.end() && waiting->second.newest)
      errands_.push_back({.attempt = waiting->second.newest, .cancels = true});
  }
  for (const TaskPool::Recall& recalled : actions.recall) {
    if (const auto runner = runners_.find(recalled.runner); runner != runners_.end())
      errands_.push_back({.recalls_from = runner->second.actor});
  }
  for (TaskPool::Finish& finished : actions.finish) {
    auto waiting = tasks_.extract(finished.task);
    if (!waiting.empty())
      errands_.push_back({.done = std::move(waiting.mapped().done), .result = std::move(finished.result)});
  }
  for (TaskPool::Start& wanted : actions.start) starts_.push_back(std::move(wanted));
  for (const RunnerId id : actions.end) {
    if (auto ended = runners_.extract(id); !ended.empty()) ends_.push_back(std::move(ended.mapped()));
  }
  if (!actions.start.empty() || !actions.end.empty()) changed_.notify_all();
  if (sending_) return;
  sending_ = true;
  std::vector<Errand> next;
  while (!errands_.empty()) {
    next.swap(errands_);
    hold.unlock();
    for (Errand& errand : next) run(errand);
    next.clear();
    hold.lock();
  }
  sending_ = false;
}

// In event order, so that a call is sent before it is cancelled.
void TaskSubmitter::run(Errand& errand) {
  if (!errand.recalls_from.is_nil()) return session_->give_back(errand.recalls_from);
  if (!errand.attempt) return errand.done(std::move(errand.result));
  if (errand.cancels) return session_->cancel(errand.attempt->target, errand.attempt->request_id);
  session_->start(std::move(errand.attempt));
}

void TaskSubmitter::answered(const Attempt& attempt, Result<std::string> result) {
  const auto took = result ? take_time_taken(*result) : std::chrono::nanoseconds(0);
  Lock hold(mutex_);
  if (!closed_)
    apply_actions(hold,
                  pool_.answered(clock_.now(), attempt.runner, attempt.task, attempt.number, std::move(result), took));
}

// ---- runners ----

void TaskSubmitter::work() {
  Lock hold(mutex_);
  while (true) {
    if (!ends_.empty()) {
      const Runner ended = std::move(ends_.front());
      ends_.pop_front();
      hold.unlock();
      const auto killed = session_->kill(ended.actor, true, std::chrono::milliseconds(0));
      if (!killed && killed.error().code != ErrorCode::kNotFound)
        log::debug("tasks", "a runner could not be ended", {{"error", killed.error().message}});
      hold.lock();
    } else if (closed_) {
      return;
    } else if (!starts_.empty()) {
      const TaskPool::Start wanted = std::move(starts_.front());
      starts_.pop_front();
      start(hold, wanted);
    } else if (const auto next = pool_.next_tick(); next && *next <= clock_.now()) {
      apply_actions(hold, pool_.tick(clock_.now()));
    } else {
      const auto wake = [this] { return closed_ || !starts_.empty() || !ends_.empty(); };
      // The pool is ticked some milliseconds late instead of waking up once per task.
      if (pool_.runners() > 0) {
        changed_.wait_for(hold, std::chrono::milliseconds(100), wake);
      } else {
        changed_.wait(hold, wake);
      }
    }
  }
}

void TaskSubmitter::start(Lock& hold, const TaskPool::Start& wanted) {
  hold.unlock();
  using Constructor = registration::Constructor<TaskRunner>;
  SpawnRequest request;
  request.class_name = type_name<TaskRunner>();
  request.arguments = to_bytes<uint64_t>(Constructor::id());
  request.resources = wanted.resources;
  request.wishes = wanted.place.wishes;
  request.group = wanted.place.group;
  request.bundle = wanted.place.bundle;
  request.display = "tasks";
  request.retriable = true;
  auto actor = session_->spawn(request);
  if (!actor) actor = make_error(in_words_of_tasks(std::move(actor).error()));
  std::shared_ptr<void> following;
  if (actor) {
    following =
        session_->on_status(*actor, [weak = weak_from_this(), runner = wanted.runner](const ActorStatus& status) {
          if (const auto self = weak.lock()) self->follow(runner, status);
        });
  }
  hold.lock();
  if (!actor) {
    apply_actions(hold, pool_.runner_failed(clock_.now(), wanted.runner, actor.error(), true));
    return;
  }
  runners_[wanted.runner] = {*actor, std::move(following)};
  pool_.set_total(session_->totals().total);
  hold.unlock();
  // The actor may have become alive before it was watched.
  if (const auto status = session_->status(*actor)) follow(wanted.runner, *status);
  hold.lock();
}

void TaskSubmitter::follow(RunnerId runner, const ActorStatus& status) {
  Lock hold(mutex_);
  if (closed_ || !runners_.contains(runner)) return;
  if (status.state == ActorState::kAlive) {
    apply_actions(hold, pool_.runner_ready(clock_.now(), runner));
  } else if (status.state == ActorState::kDead) {
    auto gone = runners_.extract(runner);
    apply_actions(hold, pool_.runner_failed(clock_.now(), runner, status.death, false));
    hold.unlock();  // `gone` takes the session's lock.
  }
}

}  // namespace volador
