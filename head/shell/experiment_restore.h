// Restores experiments that predate the head's start: their rows into the core, in small pieces, and their complete
// data into the consumer that shows them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "head/kernel/options.h"
#include "head/shell/experiment_keeper.h"

namespace volador::v1 {
class Changes;
class Experiment;
}  // namespace volador::v1

namespace volador::head {

class CoreRunner;

// A part of an older experiment; the first part has its row.
struct PastExperiment {
  std::string name;
  std::shared_ptr<const v1::Changes> rows;
  int64_t started_ms = 0, updated_ms = 0;
};

// Restores into a core that does not run yet.
void restore_rows(HeadCore& core, const ExperimentKeeper::Kept& kept);

// Used by one thread at a time, except cancel(), which any thread may call.
class ExperimentRestore {
 public:
  using Show = std::function<void(PastExperiment piece, std::function<void()> done)>;

  ExperimentRestore(CoreRunner& runner, const Limits& limits);
  ~ExperimentRestore();
  void set_show(Show show) { show_ = std::move(show); }

  // Both block until done and return false if cancelled.
  // Restores into the core and then shows it, unless a later run has the name.
  bool restore(const ExperimentKeeper::Kept& kept);
  bool show(const ExperimentKeeper::Kept& kept);
  // Shows all restored experiments of the core at once, with user notes.
  void show_known(const std::vector<ExperimentKeeper::Kept>& all);
  // Wakes blocked calls; later calls do not block.
  void cancel();

 private:
  struct Turn;
  bool show(const ExperimentKeeper::Kept& kept, const v1::Experiment* known);
  bool wait_for(const std::function<void(std::function<void()> done)>& begin);

  CoreRunner& runner_;
  const Limits limits_;
  Show show_;
  const std::shared_ptr<Turn> turn_;
};

}  // namespace volador::head
