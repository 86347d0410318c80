#include "runtime/control/run_file_server.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/protocol/error_info.h"
#include "runtime/random.h"

namespace volador::control {
namespace {

constexpr std::chrono::milliseconds kEndPatience{200};

uint64_t random_number() {
  SystemRandom random;
  return random.next();
}

}  // namespace

struct RunFileServer::State {
  State(const Clock& time, const RunFileLimits& limits) : clock(&time), transfers(random_number(), limits) {}

  struct Asked {
    protocol::ReadRunFiles question;
    Answered answered;  // Called with the lock held, until `closed`.
  };

  void run();

  std::mutex mutex;
  std::condition_variable wake, idle;
  std::deque<Asked> waiting;
  const Clock* const clock;  // Valid until `closed`.
  bool started = false;
  bool closed = false;
  bool ended = false;
  RunFileTransfers transfers;  // Used by the thread only.
};

// The lock is released while a file is read.
void RunFileServer::State::run() {
  pthread_setname_np(pthread_self(), "run files");
  std::unique_lock lock(mutex);
  while (!closed) {
    const BootTime now = clock->now();
    if (waiting.empty()) {
      const auto due = transfers.expire(now);
      if (due) {
        wake.wait_for(lock, *due - now);
      } else {
        wake.wait(lock);
      }
      continue;
    }
    const Asked asked = std::move(waiting.front());
    waiting.pop_front();
    lock.unlock();
    auto answer = transfers.answer(now, asked.question);
    lock.lock();
    if (answer && !closed) asked.answered(std::move(*answer));
  }
  ended = true;
  idle.notify_all();
}

RunFileServer::RunFileServer(const Clock& clock, const RunFileLimits& limits)
    : state_(std::make_shared<State>(clock, limits)) {}

RunFileServer::~RunFileServer() {
  std::unique_lock lock(state_->mutex);
  state_->closed = true;
  state_->wake.notify_all();
  if (state_->started) state_->idle.wait_for(lock, kEndPatience, [this] { return state_->ended; });
}

void RunFileServer::ask(protocol::ReadRunFiles question, Answered answered) {
  const std::lock_guard lock(state_->mutex);
  if (state_->waiting.size() >= kWaitingMax) {
    if (question.end()) return;  // No answer needed: it ends by itself.
    protocol::RunFilesAnswer refused;
    refused.set_request(question.request());
    fill(*refused.mutable_error(),
         {ErrorCode::kUnavailable,
          "too many questions about files wait on this machine, whose disk is slow; ask again later"});
    return answered(std::move(refused));
  }
  state_->waiting.push_back({std::move(question), std::move(answered)});
  state_->wake.notify_all();
  if (!std::exchange(state_->started, true)) std::thread([state = state_] { state->run(); }).detach();
}

}  // namespace volador::control
