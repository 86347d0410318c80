// Brings experiments of before the head's start back: their rows into the core, in pieces that cost it little, and all there is of them to
// whoever shows them.
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
}

namespace volador::head {

class CoreRunner;

// A piece of an experiment's past: the first one has its row.
struct PastExperiment {
  std::string name;
  std::shared_ptr<const v1::Changes> rows;
  int64_t started_ms = 0, updated_ms = 0;
};

// Into a core that does not run yet.
void restore_rows(HeadCore& core, const ExperimentKeeper::Kept& kept);

// Used by one thread at a time; cancel() by any.
class ExperimentRestore {
 public:
  using Show = std::function<void(PastExperiment piece, std::function<void()> done)>;

  ExperimentRestore(CoreRunner& runner, const Limits& limits);
  ~ExperimentRestore();
  void set_show(Show show) { show_ = std::move(show); }

  // Both of these wait until it is done. False: it was cancelled.
  bool restore(const ExperimentKeeper::Kept& kept);  // Into the core, then shown, unless a later run has the name.
  bool show(const ExperimentKeeper::Kept& kept);
  // Of those in the core, all at once: with what people say of them.
  void show_known(const std::vector<ExperimentKeeper::Kept>& all);
  // Whoever waits goes on; nothing is waited for any more.
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
