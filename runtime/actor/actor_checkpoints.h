// Saves and loads the state of an actor, by its class's save_checkpoint and load_checkpoint.
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

// Everything but the constructor on the actor's thread.
class ActorCheckpoints {
 public:
  struct Options {
    int64_t calls = 0;                      // Save after so many calls, before the last of them is answered; 0: not.
    std::chrono::milliseconds interval{0};  // Save between calls, this long after the first that was not saved; 0: not.
    uint64_t epoch = 0;
    std::filesystem::path scratch;
  };
  // Hands a checkpoint to the head; the second argument runs once, on any thread.
  using Keep = std::function<void(protocol::Checkpoint, std::function<void(Result<void>)>)>;

  // Runs a function in turn with the actor's calls, not before the delay has passed; not after this is gone.
  using After = std::function<void(std::chrono::nanoseconds, std::function<void()>)>;

  ActorCheckpoints(const ActorClass& actor_class, std::shared_ptr<void> object, Options options, After after, Keep keep);

  // load_checkpoint() of an archive. kApplication: what it threw. kInvalidArgument: the archive is torn.
  [[nodiscard]] Result<void> restore(const std::string& archive);
  // A call has run: where a checkpoint is due returns when the head has it, or why it does not have it.
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
  bool scheduled_ = false;  // A save in the background is.
  std::shared_ptr<std::atomic<bool>> in_flight_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace volador
