// Writes results in the layout of Ray Tune, one directory per trial, on a dedicated thread:
//
//   <experiment>/<trial id>/params.json     the configuration
//   <experiment>/<trial id>/result.json     one JSON object per result and line
//   <experiment>/<trial id>/progress.csv    the same as a table; a key that appears later becomes a further column, earlier rows leave it empty
//   <experiment>/<trial id>/events.out.tfevents.…   the same for TensorBoard: a curve for each metric, the configuration for its HParams page
//   <experiment>/<trial id>/error.txt       one paragraph per failure
//   <experiment>/<trial id>/stdout, stderr  output of the trial, if requested
//
// The event files also contain the histograms and images of a trial. The folder of a trial may have another name
// (.trial_folder).
//
// Keys added to the reported ones: training_iteration, time_this_iter_s, time_total_s, timestamp, date, trial_id, done,
// hostname, node, pid. JSON has neither NaN nor infinities: in result.json NaN is null and an infinity the text "inf"
// or "-inf"; in progress.csv they are nan, inf and -inf.
//
// A full or broken disk never stops the run: unwritten data is kept in memory (up to unwritten_bytes_max) and retried
// at every flush; beyond that new results are dropped and counted. status() reports both.
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
  Metrics metrics;  // As reported; the added keys below override equal names.
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
  std::filesystem::path directory;                // Directory of the experiment; must exist.
  std::chrono::milliseconds flush_interval{500};  // Maximum delay before data is in the files, apart from flush()
                                                  // and the end.
  bool tensorboard = true;
  size_t rows_waiting_max = 65'536;               // Rows queued for the writer; log() blocks above this limit.
  size_t unwritten_bytes_max = size_t{64} << 20;  // Limit of the memory for unwritten data.
};

struct ResultLoggerStatus {
  int64_t rows_written = 0;
  int64_t rows_unwritten = 0;  // Kept in memory for a retry.
  int64_t rows_lost = 0;
  std::optional<Error> error;  // Error of the last attempt, naming the path; no value once writing works again.
};

// Thread safe.
class ResultLogger {
 public:
  explicit ResultLogger(ResultLoggerOptions options);
  // Writes the remaining data, with one attempt; data that cannot be written is lost.
  ~ResultLogger();
  ResultLogger(const ResultLogger&) = delete;
  ResultLogger& operator=(const ResultLogger&) = delete;

  // Creates the trial's directory (`folder` in that of the experiment; empty: its id) and params.json. A repeated call
  // rewrites it; TensorBoard keeps the first configuration.
  void start_trial(TrialId trial, WallTime now, const Config& config, std::string folder = {});
  // For TensorBoard: final status.
  void end_trial(TrialId trial, WallTime now, bool success);
  void log(ResultRow row);
  // Summary values, see tensorboard_events.h; each is a histogram or an image of this step.
  void log_media(TrialId trial, int64_t step, WallTime now, std::vector<std::string> values);
  // Appends complete records, as an earlier program wrote them, to the event file.
  void keep_events(TrialId trial, WallTime now, std::string records);
  // Appends a line of the trial's output.
  void log_output(TrialId trial, bool is_stderr, std::string line);
  void log_error(TrialId trial, WallTime now, std::string text);

  // Waits until all data passed in before was written or failed.
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
  std::unique_ptr<Writer> writer_;  // Used on the thread only.
  mutable std::mutex mutex_;
  std::condition_variable wake_;  // Wakes the thread: work, or shutdown.
  std::condition_variable room_;  // Wakes callers: the queue was taken, or a flush has ended.
  std::vector<Entry> queue_;
  ResultLoggerStatus status_;
  uint64_t flushes_asked_ = 0;
  uint64_t flushes_done_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace volador::tune
