#include "tune/execution/trainable.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "runtime/actor/math_threads.h"
#include "runtime/actor/placement_group.h"
#include "runtime/actor/self.h"
#include "runtime/paths.h"
#include "tune/execution/media.h"
#include "tune/execution/trainable_host.h"
#include "tune/execution/trial_tags.h"

namespace volador::tune {
namespace {

// Thrown to leave the user's function when its trial has ended. Not a std::exception, so that handlers of those do not
// catch it.
struct TrialStopped {};

// Thrown by a class that does not override save_checkpoint.
struct NothingToSave {};

class FunctionHost;
thread_local const TrialContext* current_context = nullptr;
thread_local FunctionHost* current_function = nullptr;
thread_local std::vector<std::string> current_media, current_tags;  // Set during the current step.

class ClassHost final : public TrainableHost {
 public:
  explicit ClassHost(std::unique_ptr<Trainable> trainable) : trainable_(std::move(trainable)) {}

  void setup(const Config& config, const TrialContext& context) override {
    context_ = &context;
    const ContextScope scope(*context_);
    if (!std::exchange(reset_, false)) trainable_->setup(config);
    if (context.checkpoint) trainable_->load_checkpoint(context.checkpoint->path());
  }
  StepOutcome step() override {
    const ContextScope scope(*context_);
    Metrics metrics = trainable_->step();
    return {false, std::move(metrics), take_media(), take_tags()};
  }
  bool save(const std::filesystem::path& directory) override {
    const ContextScope scope(*context_);
    try {
      trainable_->save_checkpoint(directory);
    } catch (const NothingToSave&) {
      return false;
    }
    return true;
  }
  bool reset(const Config& config, const TrialContext& context) override {
    context_ = &context;
    const ContextScope scope(*context_);
    return reset_ = trainable_->reset_config(config);
  }
  void cleanup() override {
    if (context_ == nullptr) return;
    const ContextScope scope(*context_);
    trainable_->cleanup();
  }

 private:
  std::unique_ptr<Trainable> trainable_;
  const TrialContext* context_ = nullptr;
  bool reset_ = false;  // Replaces the setup of the next trial.
};

// The function has its own thread; it and the host's thread alternate.
class FunctionHost final : public TrainableHost {
 public:
  explicit FunctionHost(std::function<void(const Config&)> function) : shared_(std::make_shared<Shared>()) {
    shared_->function = std::move(function);
  }
  ~FunctionHost() override { leave(); }

  void setup(const Config& config, const TrialContext& context) override {
    shared_->config = config;
    context_ = &context;
  }

  StepOutcome step() override {
    if (!thread_.joinable()) {
      thread_ = std::thread([this] { run(); });
      return outcome_of(wait());
    }
    return outcome_of(ask(Request::kGoOn));
  }

  bool save(const std::filesystem::path& directory) override {
    if (!thread_.joinable() || shared_->ended || !shared_->save) return false;
    shared_->directory = directory;
    if (ask(Request::kSave) == Answer::kThrew) std::rethrow_exception(std::exchange(shared_->thrown, nullptr));
    return true;
  }

  bool reset(const Config&, const TrialContext&) override {
    leave();
    auto fresh = std::make_shared<Shared>();
    fresh->function = std::move(shared_->function);
    shared_ = std::move(fresh);
    return true;
  }
  void cleanup() override { send_stop(); }

  // Runs on the function's thread.
  void report(Metrics metrics, SaveFunction save) {
    std::unique_lock<std::mutex> hold(shared_->mutex);
    if (shared_->request == Request::kStop) throw TrialStopped{};
    shared_->metrics = std::move(metrics);
    shared_->media = take_media();
    shared_->tags = take_tags();
    shared_->save = std::move(save);
    answer(Answer::kReported);
    while (true) {
      shared_->changed.wait(hold, [this] { return !shared_->host_has_turn; });
      if (shared_->request == Request::kStop) throw TrialStopped{};
      if (shared_->request == Request::kGoOn) {
        shared_->save = nullptr;  // It refers to objects that live during this report only.
        return;
      }
      Answer saved = Answer::kSaved;
      hold.unlock();
      try {
        shared_->save(shared_->directory);
      } catch (...) {
        shared_->thrown = std::current_exception();
        saved = Answer::kThrew;
      }
      hold.lock();
      answer(saved);
    }
  }

 private:
  enum class Request : uint8_t { kGoOn, kSave, kStop };
  enum class Answer : uint8_t { kReported, kSaved, kReturned, kThrew };
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool host_has_turn = false;
    bool ended = false;  // The function's thread has finished.
    Request request = Request::kGoOn;
    Answer answer = Answer::kReported;
    std::function<void(const Config&)> function;
    Config config;
    Metrics metrics;
    std::vector<std::string> media, tags;
    SaveFunction save;
    std::filesystem::path directory;
    std::exception_ptr thrown;
  };

  void answer(Answer value) {
    shared_->answer = value;
    shared_->host_has_turn = true;
    shared_->changed.notify_all();
  }

  Answer wait() {
    std::unique_lock<std::mutex> hold(shared_->mutex);
    shared_->changed.wait(hold, [this] { return shared_->host_has_turn; });
    return shared_->answer;
  }

  Answer ask(Request request) {
    {
      const std::lock_guard<std::mutex> hold(shared_->mutex);
      if (shared_->ended) return Answer::kReturned;
      shared_->request = request;
      shared_->host_has_turn = false;
      shared_->changed.notify_all();
    }
    return wait();
  }

  void leave() {
    if (!thread_.joinable()) return;
    send_stop();
    thread_.join();
  }

  void send_stop() {
    const std::lock_guard<std::mutex> hold(shared_->mutex);
    shared_->request = Request::kStop;
    shared_->host_has_turn = false;
    shared_->changed.notify_all();
  }

  StepOutcome outcome_of(Answer answer) {
    if (answer == Answer::kThrew) std::rethrow_exception(std::exchange(shared_->thrown, nullptr));
    if (answer == Answer::kReturned) return {true, {}, {}, std::move(shared_->tags)};
    return {false, std::move(shared_->metrics), std::move(shared_->media), std::move(shared_->tags)};
  }

  void run() {
    if (is_inside_actor()) set_math_threads(static_cast<int>(self().resources.get("cpus") / kUnit));
    const ContextScope scope(*context_);
    current_function = this;
    Answer end = Answer::kReturned;
    std::exception_ptr thrown;
    try {
      shared_->function(shared_->config);
    } catch (const TrialStopped&) {
    } catch (...) {
      thrown = std::current_exception();
      end = Answer::kThrew;
    }
    current_function = nullptr;
    const std::lock_guard<std::mutex> hold(shared_->mutex);
    shared_->tags = take_tags();
    shared_->thrown = std::move(thrown);
    shared_->ended = true;
    answer(end);
  }

  std::shared_ptr<Shared> shared_;
  const TrialContext* context_ = nullptr;
  std::thread thread_;
};

}  // namespace

Trainable::~Trainable() = default;
void Trainable::setup(const Config&) {}
void Trainable::save_checkpoint(const std::filesystem::path&) { throw NothingToSave{}; }
void Trainable::load_checkpoint(const std::filesystem::path&) {}
void Trainable::cleanup() {}
bool Trainable::reset_config(const Config&) { return false; }

const TrialContext& get_context() {
  if (current_context == nullptr) {
    throw Exception({ErrorCode::kUnavailable,
                     "tune::get_context and tune::get_checkpoint have a meaning on the thread of a trial's function or "
                     "class only"});
  }
  return *current_context;
}

const std::optional<TrialCheckpoint>& get_checkpoint() { return get_context().checkpoint; }

const std::filesystem::path& artifacts_directory() {
  const std::filesystem::path& folder = get_context().artifacts;
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) throw Exception(file_error("make", folder, code.value()));
  return folder;
}

volador::PlacementGroup placement_group() {
  const GroupId& group = get_context().group;
  if (group.is_nil()) {
    throw Exception(
        {ErrorCode::kNotFound,
         "the trial has no placement group: give tune::run .bundles_per_trial = {{.cpus = 1}, {.cpus = 2}}"});
  }
  return volador::PlacementGroup(group);
}

void add_media(std::string value) {
  (void)get_context();
  size_t bytes = value.size();
  for (const std::string& one : current_media) bytes += one.size();
  if (bytes > kMediaBytesMax) {
    throw Exception(
        {ErrorCode::kInvalidArgument, fmt::format("histograms and images of one step may have {} MiB, with this one "
                                                  "they have {:.1f}: report fewer or smaller ones",
                                                  kMediaBytesMax >> 20, static_cast<double>(bytes) / (1 << 20))});
  }
  current_media.push_back(std::move(value));
}

void tag(std::string_view text) {
  (void)get_context();
  if (const auto fine = check_tag(text); !fine)
    throw Exception({fine.error().code, "tune::tag: " + fine.error().message});
  const bool known = std::find(current_tags.begin(), current_tags.end(), text) != current_tags.end();
  if (known || add_tag(current_tags, text)) return;
  throw Exception(
      {ErrorCode::kInvalidArgument,
       fmt::format("tune::tag: a trial has at most {} tags, with \"{}\" it would have more", kTagsMax, text)});
}

std::vector<std::string> take_tags() { return std::exchange(current_tags, {}); }
std::vector<std::string> take_media() { return std::exchange(current_media, {}); }

void report(Metrics metrics, SaveFunction save) {
  if (current_function == nullptr) {
    throw Exception({ErrorCode::kUnavailable,
                     "tune::report has a meaning on the thread of a trial's function only; a class returns its metrics "
                     "from step()"});
  }
  current_function->report(std::move(metrics), std::move(save));
}

ContextScope::ContextScope(const TrialContext& context) : before_(std::exchange(current_context, &context)) {}
ContextScope::~ContextScope() { current_context = before_; }

std::unique_ptr<TrainableHost> host_of_class(std::unique_ptr<Trainable> trainable) {
  return std::make_unique<ClassHost>(std::move(trainable));
}
std::unique_ptr<TrainableHost> host_of_function(std::function<void(const Config&)> function) {
  return std::make_unique<FunctionHost>(std::move(function));
}

}  // namespace volador::tune
