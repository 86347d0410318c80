// Invokes the callbacks of a run on a dedicated thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tune/execution/callback.h"

namespace volador::tune {

// Thread safe. Without callbacks it has no thread and does nothing.
class CallbackRunner {
 public:
  static constexpr size_t kResultsWaitingMax = 65'536;

  // kInvalidArgument: a callback is null.
  [[nodiscard]] static Result<void> check(const std::vector<std::shared_ptr<Callback>>& callbacks);

  explicit CallbackRunner(std::vector<std::shared_ptr<Callback>> callbacks);
  // Makes the remaining calls first.
  ~CallbackRunner();
  CallbackRunner(const CallbackRunner&) = delete;
  CallbackRunner& operator=(const CallbackRunner&) = delete;

  // Whether there are callbacks; otherwise the caller need not copy arguments.
  bool listens() const { return !callbacks_.empty(); }

  // Queues `call`, which the thread makes for each callback. `hook`: the method's name, for messages about exceptions.
  using Call = std::function<void(Callback&)>;
  void tell(const char* hook, Call call);
  // As tell(), but drops the call if kResultsWaitingMax calls are queued.
  void tell_result(Call call);

  // Waits until all queued calls were made.
  void drain();
  struct Tagged {
    TrialId trial;
    std::string tag;
  };
  // Tags set by tag(), in the order of the calls.
  std::vector<Tagged> take_tags();
  // Implements tag(); called on the runner's thread.
  void add_tag(TrialId trial, std::string tag);
  // Pending messages to the user, each once: exceptions of callbacks, dropped results.
  std::vector<std::string> take_notices();

 private:
  struct Told {
    const char* hook;
    Call call;
  };
  void run();
  void make(const Told& told);

  const std::vector<std::shared_ptr<Callback>> callbacks_;
  std::mutex mutex_;
  std::condition_variable wake_;  // Wakes the thread: work, or shutdown.
  std::condition_variable done_;  // Wakes drain(): the thread is idle.
  std::vector<Told> queue_;
  std::set<std::string> said_;
  std::vector<std::string> notices_;
  std::vector<Tagged> tags_;
  int64_t left_out_ = 0;
  bool idle_ = true;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace volador::tune
