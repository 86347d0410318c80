// What an experiment's loop was told, record by record, on the driver's disk: told the same again, a loop comes to the same state. Resuming
// is such a replay.
//
//   journal.vlj: "VLJRNL01", then records: length (4 bytes, little endian), CRC-32C of length and contents (4), contents (msgpack)
//
// A record is in the file before the loop is told of it, so that nothing is acknowledged that a restarted driver does not know. A killed
// process loses nothing that was written; a power cut at most what came since the last sync, a second before.
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

// 2: trials' ids come from a key of the run. Version 1, which is read as well, derives them from the seed.
// 3: reasons stand as data behind the record whose text says them.
inline constexpr int64_t kJournalVersion = 3;

// The first record: what a resumed run must agree with.
struct JournalHeader {
  int64_t version = kJournalVersion;
  std::string name;
  std::string metric;
  std::string mode;
  uint64_t seed = 0;
  std::string space;       // As text, a line each for what varies.
  std::string searcher;    // As they describe themselves.
  std::string scheduler;
  std::string limits;      // Stop conditions, retries, concurrency, checkpoints.
  int64_t total = -1;      // Trials in all; -1: no end.
  std::chrono::nanoseconds started{0};  // Wall clock.
  std::optional<uint64_t> key = std::nullopt;  // Of the trials' ids; absent in version 1.

  uint64_t trial_key() const { return key.value_or(seed); }
};
VOLADOR_FIELDS(JournalHeader, version, name, metric, mode, seed, space, searcher, scheduler, limits, total, started,
               key);

struct JournalEvent {
  std::chrono::nanoseconds at{0};    // Of the loop's time, which starts at 0 and stands still between two drivers.
  std::chrono::nanoseconds wall{0};
  Event event;
};
struct JournalSuggestion {
  int64_t index = 0;
  Config config;
};
VOLADOR_FIELDS(JournalSuggestion, index, config);
// Where an attempt runs: for the rows of its results.
struct JournalPlace {
  uint32_t trial = 0;
  int64_t attempt = 0;
  std::string node;
  std::string hostname;
  int32_t pid = 0;
};
VOLADOR_FIELDS(JournalPlace, trial, attempt, node, hostname, pid);
// From this event on (the first is 0) nothing started any more: an interrupt, a used up time budget, an error. A resumed run takes that back.
struct JournalEnding {
  int64_t event = 0;
  std::string reason;
};
VOLADOR_FIELDS(JournalEnding, event, reason);

// What came of an event.
struct JournalDecision {
  int64_t event = 0;  // The first is 0.
  DecisionRecord record;
};
// The program that writes from here on, so that it can be started again: at the beginning and after each Resumed.
struct JournalProgram {
  std::string executable;  // Path.
  std::string sha256;      // Of the executable, 64 hex digits; empty: not known.
  std::vector<std::string> arguments;  // With the program's name.
  std::string working_directory;
  std::string hostname;
};
VOLADOR_FIELDS(JournalProgram, executable, sha256, arguments, working_directory, hostname);

// A trial of an earlier run that the searcher learned from before its first suggestion.
struct JournalEarlierTrial {
  Config config;
  std::vector<int64_t> steps = {};  // What it reported on its way,
  std::vector<double> values = {};  // of the metric.
  int64_t last_step = 0;            // 0: it failed.
  std::vector<double> last_value = {};  // One, or none where the metric was not reported.
  std::vector<double> objectives = {};
  std::vector<double> constraints = {};
};
VOLADOR_FIELDS(JournalEarlierTrial, config, steps, values, last_step, last_value, objectives, constraints);
// What the trials run, and what people call the run: at the beginning and after each Resumed.
struct JournalLabels {
  std::string trainable;  // In the registry of the program.
  std::vector<std::string> tags;
};
VOLADOR_FIELDS(JournalLabels, trainable, tags);

// The order is that of the file: new ones go to the end.
using JournalRecord = std::variant<JournalHeader, JournalEvent, JournalSuggestion, JournalPlace, JournalEnding, JournalDecision, JournalProgram,
                                   JournalEarlierTrial, JournalLabels>;

// Appends the record as it stands in the file.
void append_journal_record(std::string& out, const JournalRecord& record);

struct JournalContents {
  JournalHeader header;
  std::vector<JournalRecord> records;  // Without the header.
  size_t whole_bytes = 0;              // Up to the end of the last whole record.
  std::string torn;                    // What was cut, for people; empty: nothing.
};
// A record that the file ends in is cut. kInvalidArgument: no journal, of another version, or damaged in the middle; names the byte.
[[nodiscard]] Result<JournalContents> parse_journal(std::string_view bytes);

// Of a directory that holds a journal. kNotFound: it holds none.
std::filesystem::path journal_path(const std::filesystem::path& experiment);
[[nodiscard]] Result<JournalContents> read_journal(const std::filesystem::path& experiment);
// Whether a program goes on with the experiment now.
bool is_driven(const std::filesystem::path& experiment);

// Appends. Its own errors never stop the run: what the disk refuses is kept (up to 64 MiB) and tried again at the next commit; status() says.
class ExperimentJournal {
 public:
  // kUnavailable, kPermissionDenied: the file; names the path.
  [[nodiscard]] static Result<std::unique_ptr<ExperimentJournal>> create(const std::filesystem::path& experiment, const JournalHeader& header);
  // Goes on after `whole_bytes`. kUnavailable also where another process goes on with it now.
  [[nodiscard]] static Result<std::unique_ptr<ExperimentJournal>> open(const std::filesystem::path& experiment, size_t whole_bytes);
  ~ExperimentJournal();

  void add(const JournalRecord& record);
  // All that was added is in the file when this returns, or status() has the error.
  void commit();
  // Why the last commit failed; empty once all is written. Lost: more was refused than is kept; from then on nothing is written.
  const std::optional<Error>& status() const { return error_; }
  bool lost() const { return lost_; }

 private:
  ExperimentJournal(std::filesystem::path path, FileHandle file, int64_t bytes);
  void keep_synced();

  const std::filesystem::path path_;
  const FileHandle file_;
  int64_t bytes_;  // Whole records in the file.
  std::string pending_;
  std::optional<Error> error_;
  bool lost_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool dirty_ = false, stopping_ = false;
  std::thread syncer_;
};

}  // namespace volador::tune
