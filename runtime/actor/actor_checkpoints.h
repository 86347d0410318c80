// Saves and restores an actor's state with its class's save_checkpoint and load_checkpoint.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "runtime/actor/actor_class.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"

namespace volador {

// All functions except the constructor run on the actor's thread.
class ActorCheckpoints {
 public:
  struct Options {
    int64_t calls = 0;                      // Save after this many calls, before the last is answered; 0: never.
    std::chrono::milliseconds interval{0};  // Save between calls, this long after the first unsaved one; 0: never.
    uint64_t epoch = 0;
    std::filesystem::path scratch;
  };
  // Sends a checkpoint to the head; the second argument runs once, on any thread.
  using Keep = std::function<void(protocol::Checkpoint, std::function<void(Result<void>)>)>;

  // Runs a function between the actor's calls, after the delay. Dropped once this object is gone.
  using After = std::function<void(std::chrono::nanoseconds, std::function<void()>)>;

  ActorCheckpoints(const ActorClass& actor_class, std::shared_ptr<void> object, Options options, After after,
                   Keep keep);

  // Runs load_checkpoint() on an archive. kApplication: it threw. kInvalidArgument: the archive is corrupt.
  [[nodiscard]] Result<void> restore(const std::string& archive);
  // Called after each call. If a checkpoint is due, returns once the head has stored it, or the error.
  [[nodiscard]] Result<void> before_reply();
  void after_reply();

 private:
  Result<protocol::Checkpoint> save();
  void save_in_background();

  const ActorClass& class_;
  const std::shared_ptr<void> object_;
  const Options options_;
  const After after_;
  const Keep keep_;
  uint64_t sequence_ = 0;
  int64_t calls_ = 0;       // Since the last checkpoint.
  bool scheduled_ = false;  // A background save is scheduled.
  std::shared_ptr<std::atomic<bool>> in_flight_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace volador
