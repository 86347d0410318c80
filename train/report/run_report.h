// Report of a training run to the cluster's lists and dashboard, and to result files in the layout of tune::run.
//
// To the head a training run is an experiment whose scheduler text begins with kTrainKind. Its trials have these names:
//   train        the run with its metrics; its reason is what it does, or else the last event. To the head it has
//                planned_iterations beside its metrics, if known
//   rank 0, …    a rank passed to ranks(); its reason is what it does. Configuration, without what is unknown:
//                {"rank": 1, "pid": 4711, "device": "cuda:0"}
//   event 1, …   a fault, a change of the group ("group") or a sentence ("note") with its time as start and end, and
//                its text as reason. Configuration, without what is unknown:
//                {"event": "fault", "rank": 3, "workers": 3, "step": 95}   workers that are left, optimizer steps done
//
//   <storage>/<name>_<time>/experiment_state.json    state, notices, last metrics; as read by `volador tune show`
//   <storage>/<name>_<time>/journal.vlj              locked while the program runs; has no events
//   <storage>/<name>_<time>/train-<id>/              result.json, progress.csv, events.out.tfevents.…, error.txt
//
// With the address of a storage (s3://bucket/prefix) the files are in the default folder, and are copied to the storage
// while the run goes on (tune/results/run_mirror.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ids.h"
#include "tune/loop/metrics.h"
#include "tune/space/config.h"

namespace volador {
class Session;
}

namespace volador::train {

inline constexpr std::string_view kTrainKind = "train";  // Begins the scheduler text; also the run's first tag.
// Whether an experiment with this scheduler text is a training run.
constexpr bool is_training_run(std::string_view scheduler) {
  return scheduler == kTrainKind || scheduler.starts_with("train: ");
}

struct RunReportOptions {
  std::string name;                    // Name of the run and its directory: a plain file name of at most 100 bytes.
  tune::Config config = {};            // A map; null counts as an empty one.
  std::string metric = "train_loss";   // Metric whose last and best values are shown.
  tune::Mode mode = tune::Mode::kMin;  // Direction in which the metric improves.
  int64_t planned = 0;                 // The last iteration, for the estimate of the time left; 0: unknown.
  std::string resources = {};          // In words, such as "4 ranks with 2 CPUs each"; empty: unknown.
  std::vector<std::string> tags = {};  // Behind kTrainKind; at most 31 reach the head.
  std::string directory = {};          // Parent of the run's directory, or the address of a storage; "":
                                       // ~/volador_results; "none": no files.
  bool tensorboard = true;             // Writes event files beside result.json and progress.csv.
  std::chrono::milliseconds interval{200};  // Maximum delay of a report and of a stop request; at least 10 ms.
};

// Place and latest metrics of one rank.
struct RankReport {
  int rank = 0;
  ActorId actor = {};          // Nil: it runs in the program itself.
  std::string node = {};       // Name of its node; empty: unknown.
  tune::Metrics metrics = {};  // Such as samples_per_s, data_wait_s; drawn as curves of the rank.
  int pid = 0;                 // Process id on the node; 0: unknown.
  std::string device = {};     // "cpu", "cuda:0"; empty: unknown.
};

// What a rank does at the moment.
struct RankActivity {
  int rank = 0;
  int64_t step = 0;                   // Optimizer steps done.
  double in_step_s = 0;               // Seconds since the last of them.
  std::string activity = {};          // "forward pass", "all_reduce of …"; empty: idle.
  std::vector<int> waiting_for = {};  // Ranks that have not entered the collective operation that this one is in.
};

enum class RunOutcome : uint8_t {
  kFinished,
  kStopped,  // By a user, or before its planned end. In lists "interrupted".
  kFailed,
};

// Thread safe. Functions that a training loop calls only put their arguments into a queue; a thread of the report sends
// and writes them. The queue is bounded: what does not fit is left out and counted in a notice. An absent head or a
// full disk never reaches the caller.
class RunReport {
 public:
  static constexpr size_t kWaitingMax = 20'000;  // Reports in the queue.
  static constexpr size_t kNoticesMax = 200;     // Events kept for lists, newest last; error.txt has all faults.
  static constexpr size_t kEventsMax = 200;      // Events that have a row: a newer one replaces the oldest.
  static constexpr int kRanksMax = 4096;         // Ranks that have a row.

  // Creates the directory and reports the run as running. `session` null: files only. Throws
  // Exception(kInvalidArgument: name, config, address; kPermissionDenied, kUnavailable: the directory or the storage
  // cannot be written).
  RunReport(std::shared_ptr<Session> session, RunReportOptions options);
  // Without an earlier end() the run ends as failed if an exception is passing, otherwise as stopped.
  ~RunReport();
  RunReport(const RunReport&) = delete;
  RunReport& operator=(const RunReport&) = delete;

  // Iterations grow: a repeated or older one is ignored, so that a step that is done again after a fault counts once.
  void metrics(int64_t iteration, const tune::Metrics& metrics);
  // A sentence for the user: "Rank 1 is slow." Without activity() it is the run's reason until the next one.
  void event(std::string sentence);
  // As event(), for a fault of the run or of a rank; -1: not of a rank. The rank's row becomes failed until ranks() has
  // it again, and the head lists the failure among its events. Points get the metric `faults`, the number so far.
  void fault(int rank, std::string error);
  // The ranks that train now, from optimizer step `step` on (-1: unknown). The rows of others that had not failed
  // become stopped. If ranks or actors differ from the last call's, that is an event, and after the first call a notice:
  // "The run goes on with 3 workers from step 95." Otherwise only their metrics are new.
  void ranks(std::vector<RankReport> ranks, int64_t step = -1);
  // What the run, or a rank, does or waits for. Only the newest counts. That of ranks is passed on once a second, and
  // less often for more than 100 ranks.
  void activity(std::string sentence);
  void rank_activity(RankActivity activity);

  // Whether a user asked the run to stop: in the dashboard, or with `volador tune stop`. The loop should look between
  // iterations, save its state and call end(kStopped).
  bool stop_requested() const;

  // Files of a checkpoint are complete in the directory: a storage soon has them too. Any thread.
  void note_checkpoint();

  // Sends, writes and stores everything, which may take as long as disk and storage do. Only the first call counts;
  // later calls of all functions have no effect. `message`: why it ended; the error of a failed run. `is_interrupted`
  // is asked on this thread while the storage gets the rest, and ends that early; what it lacks then is logged.
  void end(RunOutcome outcome, std::string message = {}, const std::function<bool()>& is_interrupted = {});
  // Waits until everything passed in before was given to the session and to the files.
  void flush();

  const std::string& experiment() const;           // Name at the head: "digits_2026-11-21_10-02-11".
  const std::filesystem::path& directory() const;  // Empty: no files are written.

 private:
  class Writer;
  struct Inbox;

  const std::shared_ptr<Inbox> inbox_;  // Shared with the session's receiver of requests.
  const std::unique_ptr<Writer> writer_;
  const int exceptions_;  // Number of exceptions in flight at construction.
};

}  // namespace volador::train
