// Results as Tune's users know them, a directory a trial, written by a thread of its own:
//
//   <experiment>/<trial id>/params.json     the configuration
//   <experiment>/<trial id>/result.json     one object a line for each result
//   <experiment>/<trial id>/progress.csv    the same as a table; a key that appears later becomes a further column, earlier rows leave it empty
//   <experiment>/<trial id>/events.out.tfevents.…   the same for TensorBoard: a curve for each metric, the configuration for its HParams page
//   <experiment>/<trial id>/error.txt       one paragraph for each failure
//   <experiment>/<trial id>/stdout, stderr  what it printed, where that is asked for
//
// The event files have the histograms and images of a trial too. A folder of a trial may have another name (.trial_folder).
//
// Keys added to what a trial reports: training_iteration, time_this_iter_s, time_total_s, timestamp, date, trial_id, done, hostname,
// node, pid. JSON has neither NaN nor infinities: in result.json NaN is null, an infinity the text "inf" or "-inf"; in progress.csv
// they are nan, inf and -inf.
//
// A full or broken disk never stops the run: what cannot be written is kept in memory (up to unwritten_bytes_max) and tried again at every
// flush; beyond that new results are dropped and counted. status() says both.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "runtime/clock.h"
#include "runtime/result.h"
#include "tune/loop/metrics.h"
#include "tune/loop/trial.h"
#include "tune/space/config.h"

namespace volador::tune {

struct ResultRow {
  TrialId trial;
  Metrics metrics;  // As reported; the added keys below win over equal names in it.
  int64_t step = 0;
  double time_this_iter_s = 0;
  double time_total_s = 0;
  WallTime reported{};
  bool done = false;
  std::string hostname;
  std::string node;
  int pid = 0;
};

struct ResultLoggerOptions {
  std::filesystem::path directory;                   // Of the experiment; exists.
  std::chrono::milliseconds flush_interval{500};     // What was handed in is in the files this much later, and at flush() and the end.
  bool tensorboard = true;
  size_t rows_waiting_max = 65'536;                  // Handed in, not taken by the writer yet; log() waits beyond it.
  size_t unwritten_bytes_max = size_t{64} << 20;     // Kept while the disk refuses.
};

struct ResultLoggerStatus {
  int64_t rows_written = 0;
  int64_t rows_unwritten = 0;  // Kept in memory, tried again.
  int64_t rows_lost = 0;
  std::optional<Error> error;  // Why the last attempt failed, naming the path; empty once writing works again.
};

// Thread safe.
class ResultLogger {
 public:
  explicit ResultLogger(ResultLoggerOptions options);
  // Writes what is left, once; what the disk refuses then is lost.
  ~ResultLogger();
  ResultLogger(const ResultLogger&) = delete;
  ResultLogger& operator=(const ResultLogger&) = delete;

  // Makes the trial's directory (`folder` below that of the experiment; empty: its id) and params.json. A repeated call writes it anew; TensorBoard keeps the first configuration.
  void start_trial(TrialId trial, WallTime now, const Config& config, std::string folder = {});
  // For TensorBoard: how it ended.
  void end_trial(TrialId trial, WallTime now, bool success);
  void log(ResultRow row);
  // Summary values of tensorboard_events.h, each a histogram or an image of this step.
  void log_media(TrialId trial, int64_t step, WallTime now, std::vector<std::string> values);
  // Whole records for the event file, as an earlier program wrote them.
  void keep_events(TrialId trial, WallTime now, std::string records);
  // A line that the trial printed.
  void log_output(TrialId trial, bool is_stderr, std::string line);
  void log_error(TrialId trial, WallTime now, std::string text);

  // Waits until all that was handed in before was written or refused.
  ResultLoggerStatus flush();
  ResultLoggerStatus status() const;

 private:
  struct Params {
    TrialId trial;
    WallTime now{};
    Config config;
    std::string folder;
  };
  struct Media {
    TrialId trial;
    int64_t step = 0;
    WallTime now{};
    std::vector<std::string> values;
  };
  struct Events {
    TrialId trial;
    WallTime now{};
    std::string records;
  };
  struct Output {
    TrialId trial;
    bool is_stderr = false;
    std::string line;
  };
  struct End {
    TrialId trial;
    WallTime now{};
    bool success = false;
  };
  struct Failure {
    TrialId trial;
    std::string text;
  };
  using Entry = std::variant<Params, ResultRow, Failure, End, Media, Events, Output>;
  class Writer;

  void push(Entry entry);
  void run();

  const ResultLoggerOptions options_;
  std::unique_ptr<Writer> writer_;  // Of the thread.
  mutable std::mutex mutex_;
  std::condition_variable wake_;    // The thread: work or the end.
  std::condition_variable room_;    // Callers: the queue was taken, a flush has ended.
  std::vector<Entry> queue_;
  ResultLoggerStatus status_;
  uint64_t flushes_asked_ = 0;
  uint64_t flushes_done_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace volador::tune
