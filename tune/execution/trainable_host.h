// Drives the user's code in a trial's process with the same three requests for a class and a function. User code may
// throw from each of them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tune/execution/trainable.h"

namespace volador::tune {

// Stores media of the current step, as add_histogram() does; taken with the step's outcome.
void add_media(std::string value);
std::vector<std::string> take_media();
std::vector<std::string> take_tags();  // Tags set by tag(), taken likewise.

struct StepOutcome {
  bool finished = false;  // The function returned: there are no metrics.
  Metrics metrics;
  std::vector<std::string> media = {};  // Summary values; see tensorboard_events.h.
  std::vector<std::string> tags = {};
};

// Calls come from one thread, one request at a time.
class TrainableHost {
 public:
  virtual ~TrainableHost() = default;
  // Called first, once per trial. `context` outlives the host and contains the checkpoint to continue from.
  virtual void setup(const Config& config, const TrialContext& context) = 0;
  virtual StepOutcome step() = 0;
  // Returns false, without writing anything, if the trainable cannot save.
  virtual bool save(const std::filesystem::path& directory) = 0;
  // Ends the current trial and prepares for the setup of another one: a class by its reset_config, a function by
  // starting it again. Returns false if this is not possible; the host must then not be used any more.
  virtual bool reset(const Config& config, const TrialContext& context) = 0;
  // Called last, once. A function is made to leave tune::report; if it computes on, it is abandoned and ends with its
  // process.
  virtual void cleanup() = 0;
};

std::unique_ptr<TrainableHost> host_of_class(std::unique_ptr<Trainable> trainable);
std::unique_ptr<TrainableHost> host_of_function(std::function<void(const Config&)> function);

// Makes `context` the result of get_context() on this thread during its lifetime.
class ContextScope {
 public:
  explicit ContextScope(const TrialContext& context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const TrialContext* before_;
};

}  // namespace volador::tune
