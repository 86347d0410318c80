// Journal of the events of an experiment's loop, on the driver's disk. Replaying them restores the loop's state; a
// resume is such a replay.
//
//   journal.vlj: "VLJRNL01", then records: length (4 bytes, little endian), CRC-32C of length and contents (4), contents (msgpack)
//
// A record is written before the loop processes the event, so that a restarted driver knows everything that was
// acknowledged. A killed process loses nothing that was written; a power failure loses at most the records since the
// last sync, which runs every second.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "runtime/clock.h"
#include "runtime/files/durable_file.h"
#include "runtime/result.h"
#include "runtime/serialize/codec.h"
#include "tune/loop/loop_messages.h"
#include "tune/space/config.h"

namespace volador::tune {

// Version 2: the ids of trials derive from a key of the run. Version 1, which is read as well, derives them from the
// seed. Version 3: structured reasons follow the record whose text they explain.
inline constexpr int64_t kJournalVersion = 3;

// JournalHeader::searcher of a training run, which has one trial and searches nothing.
inline constexpr std::string_view kTrainingSearcher = "train";

// The first record; a resumed run must match it.
struct JournalHeader {
  int64_t version = kJournalVersion;
  std::string name;
  std::string metric;
  std::string mode;
  uint64_t seed = 0;
  std::string space;     // As text, one line per parameter.
  std::string searcher;  // Descriptions of searcher and scheduler.
  std::string scheduler;
  std::string limits;                          // Stop conditions, retries, concurrency, checkpoints.
  int64_t total = -1;                          // Total number of trials; -1: unlimited.
  std::chrono::nanoseconds started{0};         // Wall clock.
  std::optional<uint64_t> key = std::nullopt;  // Key of the trials' ids; absent in version 1.

  uint64_t trial_key() const { return key.value_or(seed); }
};
VOLADOR_FIELDS(JournalHeader, version, name, metric, mode, seed, space, searcher, scheduler, limits, total, started,
               key);

struct JournalEvent {
  std::chrono::nanoseconds at{0};  // Loop time, which starts at 0 and does not advance between two drivers.
  std::chrono::nanoseconds wall{0};
  Event event;
  int64_t number = -1;  // Among the events of the journal, set by effective_events(); not in the file.
};
struct JournalSuggestion {
  int64_t index = 0;
  Config config;
  int64_t event = -1;  // The event after which it was suggested; -1: before the first, or not recorded.
};
VOLADOR_FIELDS(JournalSuggestion, index, config, event);
// Location of an attempt, for the rows of its results.
struct JournalPlace {
  uint32_t trial = 0;
  int64_t attempt = 0;
  std::string node;
  std::string hostname;
  int32_t pid = 0;
};
VOLADOR_FIELDS(JournalPlace, trial, attempt, node, hostname, pid);
// From this event on (the first is 0) no trials were started: an interrupt, an exhausted time budget, or an error. A
// resumed run reverts this.
struct JournalEnding {
  int64_t event = 0;
  std::string reason;
};
VOLADOR_FIELDS(JournalEnding, event, reason);

// Decision that resulted from an event.
struct JournalDecision {
  int64_t event = 0;  // The first is 0.
  DecisionRecord record;
};
// The program that writes the following records, for restarting it: at the beginning and after each Resumed.
struct JournalProgram {
  std::string executable;              // Path.
  std::string sha256;                  // SHA-256 of the executable, 64 hex digits; empty: unknown.
  std::vector<std::string> arguments;  // Including the program's name.
  std::string working_directory;
  std::string hostname;
};
VOLADOR_FIELDS(JournalProgram, executable, sha256, arguments, working_directory, hostname);

// A trial of an earlier run that the searcher learned from before its first suggestion.
struct JournalEarlierTrial {
  Config config;
  std::vector<int64_t> steps = {};      // Steps of its intermediate reports,
  std::vector<double> values = {};      // and their values of the metric.
  int64_t last_step = 0;                // 0: it failed.
  std::vector<double> last_value = {};  // One value, or none if the metric was not reported.
  std::vector<double> objectives = {};
  std::vector<double> constraints = {};
};
VOLADOR_FIELDS(JournalEarlierTrial, config, steps, values, last_step, last_value, objectives, constraints);
// The trainable and the tags of the run: at the beginning and after each Resumed.
struct JournalLabels {
  std::string trainable;  // In the registry of the program.
  std::vector<std::string> tags;
};
VOLADOR_FIELDS(JournalLabels, trainable, tags);

// The file stores the index: append new types at the end.
using JournalRecord = std::variant<JournalHeader, JournalEvent, JournalSuggestion, JournalPlace, JournalEnding,
                                   JournalDecision, JournalProgram, JournalEarlierTrial, JournalLabels>;

// Appends the record in file format.
void append_journal_record(std::string& out, const JournalRecord& record);

struct JournalContents {
  JournalHeader header;
  std::vector<JournalRecord> records;  // Without the header.
  size_t whole_bytes = 0;              // Length up to the end of the last complete record.
  std::string torn;                    // Description of a truncated record; empty: none.
};
// Drops an incomplete last record. kInvalidArgument: not a journal, another version, or corrupt in the middle; names
// the byte.
[[nodiscard]] Result<JournalContents> parse_journal(std::string_view bytes);

// Path and contents of the journal of an experiment's directory. kNotFound: there is none.
std::filesystem::path journal_path(const std::filesystem::path& experiment);
[[nodiscard]] Result<JournalContents> read_journal(const std::filesystem::path& experiment);
// Whether a program is running the experiment.
bool is_driven(const std::filesystem::path& experiment);

// Writes the journal. Write errors do not stop the run: unwritten records are kept in memory (up to 64 MiB) and retried
// at the next commit; status() has the error.
class ExperimentJournal {
 public:
  // kUnavailable, kPermissionDenied: file error; names the path.
  [[nodiscard]] static Result<std::unique_ptr<ExperimentJournal>> create(const std::filesystem::path& experiment,
                                                                         const JournalHeader& header);
  // Continues after `whole_bytes`. kUnavailable also if another process is running the experiment.
  [[nodiscard]] static Result<std::unique_ptr<ExperimentJournal>> open(const std::filesystem::path& experiment,
                                                                       size_t whole_bytes);
  ~ExperimentJournal();

  void add(const JournalRecord& record);
  // When this returns, all added records are in the file, or status() has the error.
  void commit();
  // Error of the last commit; empty once everything is written. lost(): more was unwritten than can be kept; nothing is
  // written from then on.
  const std::optional<Error>& status() const { return error_; }
  bool lost() const { return lost_; }

 private:
  ExperimentJournal(std::filesystem::path path, FileHandle file, int64_t bytes);
  void keep_synced();

  const std::filesystem::path path_;
  const FileHandle file_;
  int64_t bytes_;  // Bytes of complete records in the file.
  std::string pending_;
  std::optional<Error> error_;
  bool lost_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool dirty_ = false, stopping_ = false;
  std::thread syncer_;
};

}  // namespace volador::tune
