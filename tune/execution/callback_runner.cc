#include "tune/execution/callback_runner.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "runtime/quantities.h"
#include "tune/execution/trial_tags.h"

namespace volador::tune {
namespace {

thread_local CallbackRunner* current_runner = nullptr;  // Set on a runner's thread.

constexpr size_t kNoticesMax = 20;  // Bounds the messages of a callback that throws a different exception each time.

}  // namespace

Callback::~Callback() = default;

Result<void> CallbackRunner::check(const std::vector<std::shared_ptr<Callback>>& callbacks) {
  for (size_t i = 0; i < callbacks.size(); ++i) {
    if (callbacks[i] == nullptr) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("callbacks[{}] is null; give std::make_shared<YourCallback>()", i));
    }
  }
  return {};
}

CallbackRunner::CallbackRunner(std::vector<std::shared_ptr<Callback>> callbacks) : callbacks_(std::move(callbacks)) {
  if (listens()) thread_ = std::thread([this] { run(); });
}

CallbackRunner::~CallbackRunner() {
  if (!listens()) return;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void CallbackRunner::tell(const char* hook, Call call) {
  if (!listens()) return;
  const std::lock_guard<std::mutex> hold(mutex_);
  queue_.push_back({hook, std::move(call)});
  wake_.notify_one();
}

void CallbackRunner::tell_result(Call call) {
  if (!listens()) return;
  const std::lock_guard<std::mutex> hold(mutex_);
  if (queue_.size() >= kResultsWaitingMax) {
    ++left_out_;
    return;
  }
  queue_.push_back({"on_trial_result", std::move(call)});
  wake_.notify_one();
}

void CallbackRunner::drain() {
  if (!listens()) return;
  std::unique_lock<std::mutex> hold(mutex_);
  done_.wait(hold, [this] { return queue_.empty() && idle_; });
  if (left_out_ == 0) return;
  notices_.push_back(
      fmt::format("callbacks: {} not told to on_trial_result, which took longer than they came; the files have them",
                  counted(std::exchange(left_out_, 0), "result was", "results were")));
}

std::vector<std::string> CallbackRunner::take_notices() {
  if (!listens()) return {};
  const std::lock_guard<std::mutex> hold(mutex_);
  return std::exchange(notices_, {});
}

std::vector<CallbackRunner::Tagged> CallbackRunner::take_tags() {
  if (!listens()) return {};
  const std::lock_guard<std::mutex> hold(mutex_);
  return std::exchange(tags_, {});
}

void CallbackRunner::add_tag(TrialId trial, std::string tag) {
  const std::lock_guard<std::mutex> hold(mutex_);
  tags_.push_back({trial, std::move(tag)});
}

void tag(const Trial& trial, std::string_view text) {
  if (current_runner == nullptr) {
    throw Exception({ErrorCode::kUnavailable,
                     "tune::tag of a trial has a meaning in the methods of a tune::Callback only; in the trial itself "
                     "it is tune::tag(\"…\")"});
  }
  if (const auto fine = check_tag(text); !fine)
    throw Exception({fine.error().code, "tune::tag: " + fine.error().message});
  current_runner->add_tag(trial.id, std::string(text));
}

void CallbackRunner::make(const Told& told) {
  for (const auto& callback : callbacks_) {
    std::string what;
    try {
      told.call(*callback);
      continue;
    } catch (const std::exception& thrown) {
      what = thrown.what();
    } catch (...) {
      what = "something that is no std::exception";
    }
    std::string text = fmt::format("a callback's {} threw: {}; the run goes on (said once)", told.hook, what);
    const std::lock_guard<std::mutex> hold(mutex_);
    if (said_.size() < kNoticesMax && said_.insert(text).second) notices_.push_back(std::move(text));
  }
}

void CallbackRunner::run() {
  current_runner = this;
  std::vector<Told> taken;
  std::unique_lock<std::mutex> hold(mutex_);
  while (true) {
    wake_.wait(hold, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    taken.swap(queue_);
    idle_ = false;
    hold.unlock();
    for (const Told& told : taken) make(told);
    taken.clear();
    hold.lock();
    idle_ = true;
    if (queue_.empty()) done_.notify_all();
  }
}

}  // namespace volador::tune
