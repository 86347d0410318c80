#include "runtime/task/task_origin.h"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/actor/ref.h"
#include "runtime/log.h"
#include "runtime/quantities.h"

namespace volador::internal {
namespace {

using ObjectPtr = std::shared_ptr<const StoredObject>;

// Returns the encoding of a reference inside arguments.
std::string encoded(const ObjectPtr& object) {
  Encoder encoder;
  volador_encode(encoder, AnyRef(object));
  return encoder.take();
}

void replace_all(std::string& bytes, const std::string& from, const std::string& to) {
  for (size_t at = bytes.find(from); at != std::string::npos; at = bytes.find(from, at + to.size()))
    bytes.replace(at, from.size(), to);
}

// A reference among the arguments of a task that may be run again.
struct Argument {
  std::string bytes;  // Encoded form.
  ObjectKey key;
  std::weak_ptr<const StoredObject> object;
  StoredObject::Origin origin;
};

// Obtains the current object of every argument, reconstructing lost ones; `done` runs once.
class Gathering : public std::enable_shared_from_this<Gathering> {
 public:
  using Done = std::function<void(Result<std::vector<ObjectPtr>>)>;
  Gathering(size_t count, Done done) : objects_(count), left_(count + 1), done_(std::move(done)) {}

  void here(size_t at, ObjectPtr object) {
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      objects_[at] = std::move(object);
    }
    one_less();
  }
  void rebuild(size_t at, const StoredObject::Origin& origin, int depth) {
    origin.made_by->rebuild(origin.index, depth, [self = shared_from_this(), at](Result<ObjectPtr> made) {
      if (made) return self->here(at, std::move(*made));
      self->fail(std::move(made).error());
      self->one_less();
    });
  }
  void fail(Error error) {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (!error_) error_ = std::move(error);
  }
  // Called once per object, and once more after all were requested.
  void one_less() {
    if (left_.fetch_sub(1) != 1) return;
    if (error_) return done_(make_error(*error_));
    done_(std::move(objects_));
  }

 private:
  std::mutex mutex_;
  std::vector<ObjectPtr> objects_;
  std::optional<Error> error_;
  std::atomic<size_t> left_;
  const Done done_;
};

class TaskOrigin final : public ObjectOrigin, public std::enable_shared_from_this<TaskOrigin> {
 public:
  TaskOrigin(TaskWays ways, TaskRequest request, std::vector<Argument> arguments)
      : ways_(std::move(ways)), request_(std::move(request)), arguments_(std::move(arguments)) {
    for (Argument& one : arguments_) {
      if (one.origin.made_by && one.origin.made_by->length() >= kRebuildDepthMax) one.origin = {};
      if (one.origin.made_by) length_ = std::max(length_, one.origin.made_by->length() + 1);
    }
  }
  int length() const override { return length_; }
  const std::string& owner() const override { return ways_.owner; }
  size_t bytes() const override { return request_.arguments.size(); }
  ObjectPtr replacement(size_t index) const override {
    const std::lock_guard<std::mutex> hold(mutex_);
    return index < made_.size() ? made_[index].lock() : nullptr;
  }

  void rebuild(size_t index, int depth, Done done) override {
    ObjectPtr made;
    bool first = false;
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      if (index < made_.size()) made = made_[index].lock();
      if (!made) {
        waiting_.push_back({index, std::move(done)});
        first = !std::exchange(running_, true);
      }
    }
    if (made) return done(std::move(made));
    if (first) run(depth);
  }

 private:
  void run(int depth) {
    if (depth > kRebuildDepthMax) {
      return finish(make_error(
          ErrorCode::kObjectLost,
          fmt::format("to make it again {}, one needed for the other, would have to be made again; the limit is {}",
                      counted(depth, "lost object"), kRebuildDepthMax)));
    }
    log::info("objects", "a lost object is made again: its task is run once more",
              {{"task", request_.name}, {"depth", std::to_string(depth)}});
    auto gathering = std::make_shared<Gathering>(
        arguments_.size(), [self = shared_from_this(), depth](Result<std::vector<ObjectPtr>> objects) {
          if (!objects) return self->finish(make_error(std::move(objects).error()));
          self->submit(std::move(*objects), depth);
        });
    for (size_t at = 0; at < arguments_.size(); ++at) {
      const Argument& one = arguments_[at];
      if (const auto object = one.object.lock()) {
        gathering->here(at, newest(object));
      } else if (one.origin.made_by) {
        gathering->rebuild(at, one.origin, depth + 1);
      } else {
        gathering->fail(
            {ErrorCode::kObjectLost, fmt::format("task {} cannot be run again for it: its argument, object {}, is not "
                                                 "referred to any more, and no task of this program made it",
                                                 request_.name, to_string(one.key))});
        gathering->one_less();
      }
    }
    gathering->one_less();
  }
  void submit(std::vector<ObjectPtr> objects, int depth) {
    TaskRequest request = request_;
    for (size_t at = 0; at < objects.size(); ++at)
      replace_all(request.arguments, arguments_[at].bytes, encoded(objects[at]));
    // The objects in its result are inspected here and get their own origin.
    TaskWays ways = ways_;
    run_with_origin(
        std::move(ways), std::move(request), std::move(objects),
        [self = shared_from_this()](const Result<std::string>& result, std::shared_ptr<const void>) {
          if (!result)
            self->finish(make_error(ErrorCode::kObjectLost, fmt::format("task {}, run again to make it, failed: {}",
                                                                        self->request_.name, result.error().message)));
        },
        depth, [self = shared_from_this()](const std::vector<ObjectPtr>& made) { self->finish(made); });
  }
  void finish(Result<std::vector<ObjectPtr>> made) {
    std::vector<Waiting> waiting;
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      running_ = false;
      if (made) made_.assign(made->begin(), made->end());
      waiting.swap(waiting_);
    }
    for (Waiting& one : waiting) {
      if (!made) {
        one.done(make_error(made.error()));
      } else if (one.index >= made->size()) {
        one.done(
            make_error(ErrorCode::kObjectLost,
                       fmt::format("task {}, run again to make it, brought fewer objects than before", request_.name)));
      } else {
        one.done((*made)[one.index]);
      }
    }
  }

  struct Waiting {
    size_t index;
    Done done;
  };
  static void run_with_origin(TaskWays ways, TaskRequest request, std::vector<ObjectPtr> arguments, TaskDone done,
                              int depth, std::function<void(const std::vector<ObjectPtr>&)> made);

  const TaskWays ways_;
  const TaskRequest request_;
  std::vector<Argument> arguments_;
  int length_ = 1;
  mutable std::mutex mutex_;
  bool running_ = false;
  std::vector<Waiting> waiting_;
  std::vector<std::weak_ptr<const StoredObject>> made_;  // Held by the requesters as replacements of the lost ones.
};

// One task including its retries.
class Running : public std::enable_shared_from_this<Running> {
 public:
  using Made = std::function<void(const std::vector<ObjectPtr>&)>;
  Running(TaskWays ways, TaskRequest request, std::vector<ObjectPtr> arguments, TaskDone done, int depth, Made made)
      : ways_(std::move(ways)),
        request_(std::move(request)),
        arguments_(std::move(arguments)),
        done_(std::move(done)),
        depth_(depth),
        made_(std::move(made)) {
    for (const ObjectPtr& one : arguments_) bytes_.push_back(encoded(one));
  }

  void submit() {
    ways_.submit(request_, [self = shared_from_this()](Result<std::string> result) { self->ended(std::move(result)); });
  }

 private:
  void ended(Result<std::string> result) {
    if (!result && result.error().code == ErrorCode::kObjectLost && request_.max_retries != 0 &&
        tries_ < kRebuildDepthMax && again(result.error()))
      return;
    std::vector<ObjectPtr> objects;
    auto references = ways_.claim(result, &objects);
    if (!objects.empty() && request_.arguments.size() <= kRebuildArgumentsMax) {
      std::vector<Argument> arguments;
      for (size_t at = 0; at < arguments_.size(); ++at)
        arguments.push_back({bytes_[at], arguments_[at]->key(), arguments_[at], arguments_[at]->origin()});
      const auto origin = std::make_shared<TaskOrigin>(ways_, request_, std::move(arguments));
      for (size_t at = 0; at < objects.size(); ++at) objects[at]->set_origin({origin, at});
    }
    if (result && made_) made_(objects);
    done_(std::move(result), std::move(references));
  }
  // Retries if the lost object is one of the arguments and can be reconstructed.
  bool again(const Error& error) {
    for (size_t at = 0; at < arguments_.size(); ++at) {
      if (error.message.find(to_string(arguments_[at]->key())) == std::string::npos) continue;
      const auto origin = arguments_[at]->origin();
      if (!origin.made_by) return false;
      ++tries_;
      origin.made_by->rebuild(origin.index, depth_ + 1, [self = shared_from_this(), at, error](Result<ObjectPtr> made) {
        if (!made)
          return self->done_(make_error(ErrorCode::kObjectLost, error.message + "; " + made.error().message), nullptr);
        self->arguments_[at]->set_replacement(*made);
        std::string bytes = encoded(*made);
        replace_all(self->request_.arguments, self->bytes_[at], bytes);
        self->bytes_[at] = std::move(bytes);
        self->arguments_[at] = std::move(*made);
        self->submit();
      });
      return true;
    }
    return false;
  }

  const TaskWays ways_;
  TaskRequest request_;
  std::vector<ObjectPtr> arguments_;
  std::vector<std::string> bytes_;  // Encoded forms in the request.
  const TaskDone done_;
  const int depth_;
  const Made made_;
  int tries_ = 0;
};

void TaskOrigin::run_with_origin(TaskWays ways, TaskRequest request, std::vector<ObjectPtr> arguments, TaskDone done,
                                 int depth, std::function<void(const std::vector<ObjectPtr>&)> made) {
  std::make_shared<Running>(std::move(ways), std::move(request), std::move(arguments), std::move(done), depth,
                            std::move(made))
      ->submit();
}

}  // namespace

void run_with_origin(TaskWays ways, TaskRequest request, std::vector<ObjectPtr> arguments, TaskDone done, int depth) {
  std::make_shared<Running>(std::move(ways), std::move(request), std::move(arguments), std::move(done), depth, nullptr)
      ->submit();
}

}  // namespace volador::internal
