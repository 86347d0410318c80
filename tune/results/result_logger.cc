#include "tune/results/result_logger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <unordered_map>

#include "runtime/files/durable_file.h"
#include "runtime/files/results_mode.h"
#include "tune/results/result_text.h"
#include "tune/results/tensorboard_events.h"

namespace volador::tune {

namespace fs = std::filesystem;

// Formats rows and appends them to the files of their trials. Single-threaded.
class ResultLogger::Writer {
 public:
  explicit Writer(const ResultLoggerOptions& options) : options_(options) {}

  void take(Entry& entry) {
    if (auto* row = std::get_if<ResultRow>(&entry)) return take_row(*row);
    if (auto* params = std::get_if<Params>(&entry)) return take_params(*params);
    if (const auto* end = std::get_if<End>(&entry)) {
      if (options_.tensorboard) append_event_session_end(files_of(end->trial).events.pending, end->now, end->success);
      return;
    }
    if (auto* media = std::get_if<Media>(&entry)) return take_media(*media);
    if (const auto* events = std::get_if<Events>(&entry)) return take_records(*events);
    if (const auto* output = std::get_if<Output>(&entry)) return take_output(*output);
    auto& failure = std::get<Failure>(entry);
    files_of(failure.trial).errors.pending += failure.text;
  }

  void write() {
    error_.reset();
    std::vector<TrialId> due;
    due.swap(due_);
    for (const TrialId trial : due) {
      TrialFiles& files = files_.at(trial);
      files.is_due = false;
      if (auto written = write(trial, files); !written) {
        if (!error_) error_ = written.error();
        mark_due(trial, files);
      }
    }
  }

  ResultLoggerStatus status() const {
    return {.rows_written = rows_written_, .rows_unwritten = rows_unwritten_, .rows_lost = rows_lost_, .error = error_};
  }

 private:
  struct TrialFile {
    std::string pending;
    int64_t bytes = 0;  // Length of complete lines in the file: a partial write is truncated to this.
  };
  struct TrialFiles {
    bool has_directory = false;
    bool is_due = false;
    bool params_due = false;
    std::string params;
    TrialFile results, table, errors, events, out, err;
    std::string folder;  // Empty: the trial's id.
    std::string events_name;
    int64_t rows_pending = 0;
    CsvColumns columns;
    size_t columns_written = 0;  // Columns in the header on disk; 0: no file yet.
  };

  TrialFiles& files_of(TrialId trial) {
    TrialFiles& files = files_[trial];
    mark_due(trial, files);
    return files;
  }
  void mark_due(TrialId trial, TrialFiles& files) {
    if (files.is_due) return;
    files.is_due = true;
    due_.push_back(trial);
  }

  void take_params(const Params& params) {
    TrialFiles& files = files_of(params.trial);
    files.folder = params.folder;
    files.params = params.config.to_json() + "\n";
    files.params_due = true;
    if (!options_.tensorboard || !files.events_name.empty()) return;
    name_events(files, params.trial, params.now);
    append_event_session_start(files.events.pending, params.now, to_string(params.trial), params.config);
  }

  static void name_events(TrialFiles& files, TrialId trial, WallTime now) {
    if (!files.events_name.empty()) return;
    files.events_name = event_file_name(now, to_string(trial));
    append_event_version(files.events.pending, now);
  }

  void take_events(TrialFiles& files, const ResultRow& row) {
    if (!options_.tensorboard) return;
    name_events(files, row.trial, row.reported);
    points_ = row.metrics;
    points_.set("time_this_iter_s", row.time_this_iter_s);
    points_.set("time_total_s", row.time_total_s);
    append_event_scalars(files.events.pending, row.reported, row.step, points_);
  }

  void take_media(const Media& media) {
    if (!options_.tensorboard) return;
    TrialFiles& files = files_of(media.trial);
    if (is_full()) return;
    name_events(files, media.trial, media.now);
    const size_t before = files.events.pending.size();
    append_event_values(files.events.pending, media.now, media.step, media.values);
    unwritten_bytes_ += static_cast<int64_t>(files.events.pending.size() - before);
  }

  void take_records(const Events& events) {
    if (!options_.tensorboard || events.records.empty()) return;
    TrialFiles& files = files_of(events.trial);
    name_events(files, events.trial, events.now);
    files.events.pending += events.records;
  }

  void take_output(const Output& output) {
    if (is_full()) return;
    TrialFiles& files = files_of(output.trial);
    TrialFile& file = output.is_stderr ? files.err : files.out;
    file.pending += output.line;
    file.pending += '\n';
    unwritten_bytes_ += static_cast<int64_t>(output.line.size()) + 1;
  }

  bool is_full() const { return unwritten_bytes_ > static_cast<int64_t>(options_.unwritten_bytes_max); }

  void take_row(const ResultRow& row) {
    if (is_full()) {
      ++rows_lost_;
      return;
    }
    TrialFiles& files = files_of(row.trial);
    const size_t before = pending_bytes(files);
    take_events(files, row);
    cells_.build(row);
    append_json_line(files.results.pending, cells_);
    if (const size_t added = files.columns.add(cells_); added > 0) widen_csv(files.table.pending, added);
    append_csv_line(files.table.pending, files.columns, cells_);
    ++files.rows_pending;
    ++rows_unwritten_;
    unwritten_bytes_ += static_cast<int64_t>(pending_bytes(files) - before);
  }

  Result<void> write(TrialId trial, TrialFiles& files) {
    const fs::path directory = options_.directory / (files.folder.empty() ? to_string(trial) : files.folder);
    if (!files.has_directory) {
      const auto& mode = results_mode();
      if (!mode) return make_error(mode.error());
      if (::mkdir(directory.c_str(), mode->directory) != 0 && errno != EEXIST) {
        return make_error(file_error("write", directory, errno));
      }
      files.has_directory = true;
    }
    if (files.params_due) {
      VOLADOR_TRY(write_file_atomically(directory / "params.json", files.params, Durability::kProcess));
      files.params_due = false;
      files.params.clear();
    }
    VOLADOR_TRY(append(directory / "error.txt", files.errors));
    VOLADOR_TRY(append_counted(directory / "stdout", files.out));
    VOLADOR_TRY(append_counted(directory / "stderr", files.err));
    if (files.rows_pending == 0) return append_counted(directory / files.events_name, files.events);
    const auto bytes = static_cast<int64_t>(pending_bytes(files));
    VOLADOR_TRY(append(directory / "result.json", files.results));
    VOLADOR_TRY(write_table(directory / "progress.csv", files));
    VOLADOR_TRY(append(directory / files.events_name, files.events));
    rows_written_ += files.rows_pending;
    rows_unwritten_ -= files.rows_pending;
    files.rows_pending = 0;
    unwritten_bytes_ = std::max<int64_t>(0, unwritten_bytes_ - bytes);
    return {};
  }

  Result<void> append_counted(const fs::path& path, TrialFile& file) {
    const auto bytes = static_cast<int64_t>(file.pending.size());
    VOLADOR_TRY(append(path, file));
    unwritten_bytes_ = std::max<int64_t>(0, unwritten_bytes_ - bytes);
    return {};
  }

  static size_t pending_bytes(const TrialFiles& files) {
    return files.results.pending.size() + files.table.pending.size() + files.events.pending.size();
  }

  static Result<void> append(const fs::path& path, TrialFile& file) {
    if (file.pending.empty()) return {};
    auto handle = FileHandle::open(path, O_WRONLY | O_CREAT | O_APPEND);
    if (!handle) return make_error(handle.error());
    if (auto written = write_all(handle->get(), file.pending, path); !written) {
      (void)!::ftruncate(handle->get(), file.bytes);
      return written;
    }
    file.bytes += static_cast<int64_t>(file.pending.size());
    file.pending.clear();
    return {};
  }

  static Result<void> write_table(const fs::path& path, TrialFiles& files) {
    TrialFile& table = files.table;
    const size_t columns = files.columns.size();
    if (files.columns_written == 0) {
      TrialFile whole{.pending = files.columns.header() + table.pending};
      VOLADOR_TRY(append(path, whole));
      table.bytes = whole.bytes;
      table.pending.clear();
    } else if (files.columns_written < columns) {
      // The table has more columns than the file: rewritten, so that a reader sees either the old table or the new one.
      auto old = read_file(path, SIZE_MAX);
      if (!old) return make_error(old.error());
      const size_t header_end = old->find('\n');
      std::string rows = header_end == std::string::npos ? std::string() : old->substr(header_end + 1);
      widen_csv(rows, columns - files.columns_written);
      const std::string whole = files.columns.header() + rows + table.pending;
      VOLADOR_TRY(write_file_atomically(path, whole, Durability::kProcess));
      table.bytes = static_cast<int64_t>(whole.size());
      table.pending.clear();
    } else {
      VOLADOR_TRY(append(path, table));
    }
    files.columns_written = columns;
    return {};
  }

  const ResultLoggerOptions& options_;
  std::unordered_map<TrialId, TrialFiles> files_;
  std::vector<TrialId> due_;
  ResultCells cells_;
  Metrics points_;
  int64_t rows_written_ = 0;
  int64_t rows_unwritten_ = 0;
  int64_t rows_lost_ = 0;
  int64_t unwritten_bytes_ = 0;
  std::optional<Error> error_;
};

ResultLogger::ResultLogger(ResultLoggerOptions options)
    : options_(std::move(options)), writer_(std::make_unique<Writer>(options_)), thread_([this] { run(); }) {}

ResultLogger::~ResultLogger() {
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void ResultLogger::start_trial(TrialId trial, WallTime now, const Config& config, std::string folder) {
  push(Params{trial, now, config, std::move(folder)});
}

void ResultLogger::log_media(TrialId trial, int64_t step, WallTime now, std::vector<std::string> values) {
  push(Media{trial, step, now, std::move(values)});
}

void ResultLogger::keep_events(TrialId trial, WallTime now, std::string records) {
  push(Events{trial, now, std::move(records)});
}

void ResultLogger::log_output(TrialId trial, bool is_stderr, std::string line) {
  push(Output{trial, is_stderr, std::move(line)});
}

void ResultLogger::end_trial(TrialId trial, WallTime now, bool success) { push(End{trial, now, success}); }

void ResultLogger::log(ResultRow row) { push(std::move(row)); }

void ResultLogger::log_error(TrialId trial, WallTime now, std::string text) {
  DateText date;
  push(Failure{trial, fmt::format("{}\n{}\n\n", date.of(now), text)});
}

void ResultLogger::push(Entry entry) {
  std::unique_lock<std::mutex> hold(mutex_);
  room_.wait(hold, [this] { return queue_.size() < options_.rows_waiting_max; });
  queue_.push_back(std::move(entry));
  if (queue_.size() * 2 == options_.rows_waiting_max) wake_.notify_one();
}

ResultLoggerStatus ResultLogger::flush() {
  std::unique_lock<std::mutex> hold(mutex_);
  const uint64_t wanted = ++flushes_asked_;
  wake_.notify_one();
  room_.wait(hold, [&] { return flushes_done_ >= wanted; });
  return status_;
}

ResultLoggerStatus ResultLogger::status() const {
  const std::lock_guard<std::mutex> hold(mutex_);
  return status_;
}

// Files are created while trials end and start; this thread lowers its priority in order not to delay them (on Linux
// this affects only the thread).
void ResultLogger::run() {
  constexpr int kNicer = 5;
  pthread_setname_np(pthread_self(), "tune-results");
  (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNicer);
  std::vector<Entry> taken;
  std::unique_lock<std::mutex> hold(mutex_);
  while (true) {
    wake_.wait_for(hold, options_.flush_interval, [this] {
      return stopping_ || flushes_asked_ > flushes_done_ || queue_.size() * 2 >= options_.rows_waiting_max;
    });
    const bool last = stopping_;
    const uint64_t flushes = flushes_asked_;
    taken.swap(queue_);
    hold.unlock();
    room_.notify_all();
    for (Entry& entry : taken) writer_->take(entry);
    taken.clear();
    writer_->write();
    hold.lock();
    status_ = writer_->status();
    flushes_done_ = flushes;
    room_.notify_all();
    if (last) return;
  }
}

}  // namespace volador::tune
