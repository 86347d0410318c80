// Tells callbacks on a thread of its own what a run hands in.
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

  // kInvalidArgument: one of them is null.
  [[nodiscard]] static Result<void> check(const std::vector<std::shared_ptr<Callback>>& callbacks);

  explicit CallbackRunner(std::vector<std::shared_ptr<Callback>> callbacks);
  // Tells what is left.
  ~CallbackRunner();
  CallbackRunner(const CallbackRunner&) = delete;
  CallbackRunner& operator=(const CallbackRunner&) = delete;

  // Whether anybody listens: else there is nothing to be copied for it.
  bool listens() const { return !callbacks_.empty(); }

  // `call` is made for each callback, on the thread. `hook`: its name, for what is said of exceptions.
  using Call = std::function<void(Callback&)>;
  void tell(const char* hook, Call call);
  // The same; left out where kResultsWaitingMax calls wait.
  void tell_result(Call call);

  // Waits until all that was handed in was told.
  void drain();
  struct Tagged {
    TrialId trial;
    std::string tag;
  };
  // By tag(), in the order of the calls.
  std::vector<Tagged> take_tags();
  // Of the runner's own thread: what tag() does.
  void add_tag(TrialId trial, std::string tag);
  // What is to be said, each once: exceptions of callbacks, results left out.
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
  std::condition_variable wake_;  // The thread: work or the end.
  std::condition_variable done_;  // drain(): the thread waits.
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
