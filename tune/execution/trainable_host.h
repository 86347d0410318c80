// How a trial's process drives what the user wrote: the same three requests whether it is a class or a function. User code may throw
// out of each of them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tune/execution/trainable.h"

namespace volador::tune {

// Of the step under way; as of add_histogram. Taken with the step's outcome.
void add_media(std::string value);
std::vector<std::string> take_media();
std::vector<std::string> take_tags();  // Of tag(), likewise.

struct StepOutcome {
  bool finished = false;  // The function returned: there are no metrics.
  Metrics metrics;
  std::vector<std::string> media = {};  // Summary values of tensorboard_events.h.
  std::vector<std::string> tags = {};
};

// One thread calls; never two requests at once.
class TrainableHost {
 public:
  virtual ~TrainableHost() = default;
  // Once a trial, first. `context` outlives the host and has the checkpoint to go on from.
  virtual void setup(const Config& config, const TrialContext& context) = 0;
  virtual StepOutcome step() = 0;
  // False: it has nothing to save, and wrote nothing.
  virtual bool save(const std::filesystem::path& directory) = 0;
  // Ends the trial that it ran and makes it ready for setup of another one: a class by its reset_config, a function by running it anew.
  // False: it cannot; it is of no further use then.
  virtual bool reset(const Config& config, const TrialContext& context) = 0;
  // Once, last. A function is made to leave tune::report; one that computes on is left behind and ends with its process.
  virtual void cleanup() = 0;
};

std::unique_ptr<TrainableHost> host_of_class(std::unique_ptr<Trainable> trainable);
std::unique_ptr<TrainableHost> host_of_function(std::function<void(const Config&)> function);

// Makes `context` what get_context() gives on this thread, as long as it lives.
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
