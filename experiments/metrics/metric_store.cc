#include "experiments/metrics/metric_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "experiments/metrics/metric_file.h"
#include "experiments/metrics/metric_query.h"
#include "runtime/files/durable_file.h"
#include "runtime/files/record_file.h"
#include "runtime/log.h"
#include "runtime/paths.h"
#include "runtime/serialize/codec.h"

namespace volador::experiments {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRecordBytes = size_t{16} << 20;
constexpr size_t kSmallBlockRows = 1024;
constexpr size_t kSmallBlocks = 8;  // Files of a group, after which they are merged.
constexpr size_t kWriteBytes = size_t{1} << 20;
constexpr int kTrialsMax = 1000;
constexpr uint64_t kPoints = 1000;
constexpr unsigned kFileMode = 0600;

// Entries of the log.
enum class Entry : uint8_t { kReport = 1, kRewind = 2, kRemoval = 3, kGroupRewind = 4 };

void encode_entry(Encoder& to, const MetricReport& report) {
  to.unsigned_integer(static_cast<uint64_t>(Entry::kReport));
  to.integer(report.experiment);
  to.integer(report.trial);
  to.text(report.group);
  to.integer(report.batches);
  to.integer(report.time_ms);
  to.array(report.values.size());
  for (const auto& [name, value] : report.values) {
    to.text(name);
    to.real(value);
  }
}

MetricReport decode_report(Decoder& from) {
  MetricReport report;
  report.experiment = from.integer();
  report.trial = from.integer();
  report.group = from.text();
  report.batches = from.integer();
  report.time_ms = from.integer();
  for (size_t left = from.array(); left > 0 && !from.failed(); --left) {
    std::string name(from.text());
    report.values.emplace_back(std::move(name), from.real());
  }
  return report;
}

// The last batches of a group that stay.
int64_t last_kept(const MetricRewind* rewind, std::string_view group) {
  const bool is_of_it = rewind != nullptr && (rewind->group.empty() || rewind->group == group);
  return is_of_it ? rewind->batches : std::numeric_limits<int64_t>::max();
}

// For one trial: reports that are not in its file, by group.
using Recent = std::map<std::string, MetricRows>;
using TrialKey = std::pair<int64_t, int64_t>;  // Experiment, trial.

// Writes the new contents of a trial's file from blocks of the old one and rows.
class MetricFileWriter {
 public:
  MetricFileWriter(int old, int fd, const fs::path& path) : old_(old), fd_(fd), path_(path) {}

  Result<void> copy(uint64_t at, uint64_t bytes) {
    if (copied_until_ != at) {
      VOLADOR_TRY(end_copy());
      VOLADOR_TRY(write());
      copied_from_ = at;
    }
    copied_until_ = at + bytes;
    return {};
  }
  Result<void> add(std::string_view group, const MetricRows& rows) {
    if (rows.empty()) return {};
    VOLADOR_TRY(end_copy());
    append_blocks(buffer_, group, rows);
    return buffer_.size() < kWriteBytes ? Result<void>{} : write();
  }
  Result<void> end() {
    VOLADOR_TRY(end_copy());
    return write();
  }

 private:
  Result<void> end_copy() {
    auto at = static_cast<off_t>(copied_from_);
    while (static_cast<uint64_t>(at) < copied_until_) {
      const ssize_t count = copy_file_range(old_, &at, fd_, nullptr, copied_until_ - static_cast<uint64_t>(at), 0);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return make_error(file_error("write", path_, count == 0 ? EIO : errno));
    }
    copied_from_ = copied_until_ = 0;
    return {};
  }
  Result<void> write() {
    auto written = write_all(fd_, buffer_, path_);
    buffer_.clear();
    return written;
  }

  const int old_, fd_;
  const fs::path& path_;
  std::string buffer_;
  uint64_t copied_from_ = 0, copied_until_ = 0;
};

}  // namespace

struct MetricStore::Impl {
  explicit Impl(MetricStoreOptions o) : options(std::move(o)) {}
  ~Impl() {
    if (writer.joinable()) writer.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<void> open();
  Result<RecordsRead> replay_log(const fs::path& path);
  Result<void> write_log(std::string_view records);
  Result<void> flush();
  // Starts a thread that moves what the log has to the files, while reports go to a new log.
  Result<void> begin_flush();
  Result<void> write_frozen();
  // Takes over what the thread has done, if it has ended or `waits`.
  void end_flush(bool waits);
  // Before a report, when the log is full.
  Result<void> make_room();
  // Reports of a trial's group that are in no file, or in one as well.
  MetricRows rows_in_memory(const TrialKey& key, const std::string& group) const;
  void apply(const MetricReport& report);
  Result<void> apply(const MetricRewind& rewind);
  Result<void> apply_removal(int64_t experiment);
  Result<void> replay(std::string_view entries);
  // Moves `recent` to the trial's file, without the reports that the rewind removes.
  Result<void> write_trial(const TrialKey& key, const Recent& recent, const MetricRewind* rewind = nullptr);
  Result<void> append_to(MetricFile& file, const fs::path& path, const Recent& recent);
  Result<void> rewrite(MetricFile& file, const fs::path& path, const Recent& recent, const MetricRewind* rewind,
                       bool merge_small);

  fs::path log() const { return options.folder / "log"; }
  fs::path old_log() const { return options.folder / "log.old"; }
  fs::path folder_of(int64_t experiment) const { return options.folder / "trials" / std::to_string(experiment); }
  fs::path path(const TrialKey& key) const { return folder_of(key.first) / (std::to_string(key.second) + ".metrics"); }

  const MetricStoreOptions options;
  uint64_t log_end = 0;  // 0: there is no log.
  std::map<TrialKey, Recent> trials;
  std::map<TrialKey, Recent> frozen;  // What the old log has, while `writer` moves it to the files; constant meanwhile.
  bool has_old_log = false;
  std::thread writer;
  std::atomic<bool> is_written = false;  // `writer` has ended.
  Result<void> outcome;                  // Its outcome then.
  mutable std::mutex files;              // Held while `writer` writes a trial's file, and while one is read meanwhile.
  // Lists of names that reports share.
  std::map<std::vector<std::string>, std::shared_ptr<const std::vector<std::string>>> lists;
};

// A log that cannot be read is put aside.
Result<RecordsRead> MetricStore::Impl::replay_log(const fs::path& path) {
  std::vector<std::string> records;
  auto read = read_records(path, [&](std::string_view record) { records.emplace_back(record); });
  if (!read && read.error().code == ErrorCode::kInvalidArgument) {
    const fs::path aside = options.folder / "log.damaged";
    log::warn("metrics", "the log of metrics is damaged and put aside", {{"file", aside.string()}});
    if (rename(path.c_str(), aside.c_str()) != 0) return make_error(file_error("rename", path, errno));
    read = RecordsRead{};
  }
  if (!read && read.error().code == ErrorCode::kNotFound) read = RecordsRead{};
  if (!read) return read;
  if (read->torn)
    log::warn("metrics", "the end of the log of metrics is incomplete and left out", {{"file", path.string()}});
  for (const std::string& record : records) VOLADOR_TRY(replay(record));
  return read;
}

Result<void> MetricStore::Impl::open() {
  VOLADOR_TRY(make_private_directory(options.folder / "trials"));
  // A process ended while it moved the old one to the files, some of which may have it.
  std::error_code code;
  has_old_log = fs::exists(old_log(), code);
  if (has_old_log) {
    if (const auto old = replay_log(old_log()); !old) return make_error(old.error());
  }
  const auto read = replay_log(log());
  if (!read) return make_error(read.error());
  log_end = read->bytes;
  return has_old_log ? flush() : Result<void>();
}

Result<void> MetricStore::Impl::replay(std::string_view entries) {
  Decoder from(entries);
  while (!from.at_end() && !from.failed()) {
    const auto entry = static_cast<Entry>(from.unsigned_integer());
    switch (entry) {
      case Entry::kReport: {
        const MetricReport report = decode_report(from);
        if (!from.failed()) apply(report);
        break;
      }
      case Entry::kRewind:
      case Entry::kGroupRewind: {
        MetricRewind rewind;
        rewind.experiment = from.integer();
        rewind.trial = from.integer();
        rewind.batches = from.integer();
        if (entry == Entry::kGroupRewind) rewind.group = from.text();
        if (!from.failed()) VOLADOR_TRY(apply(rewind));
        break;
      }
      case Entry::kRemoval: {
        const int64_t experiment = from.integer();
        if (!from.failed()) VOLADOR_TRY(apply_removal(experiment));
        break;
      }
      default:
        from.fail("a report, a rewind or a removal");
    }
  }
  if (from.failed()) {
    log::warn("metrics", "an entry of the log of metrics cannot be read and is left out",
              {{"file", log().string()}, {"reason", from.error()->message}});
  }
  return {};
}

Result<void> MetricStore::Impl::write_log(std::string_view records) {
  auto end = write_records(log(), log_end, records, options.sync);
  if (!end) return make_error(end.error());
  log_end = *end;
  return {};
}

void MetricStore::Impl::apply(const MetricReport& report) {
  std::map<std::string_view, double> values;
  for (const auto& [name, value] : report.values) values.insert_or_assign(name, value);
  std::vector<std::string> names;
  MetricRow row{.time_ms = report.time_ms};
  for (const auto& [name, value] : values) {
    names.emplace_back(name);
    row.values.push_back(value);
  }
  auto& list = lists[names];
  if (!list) list = std::make_shared<const std::vector<std::string>>(std::move(names));
  row.names = list;
  trials[{report.experiment, report.trial}][report.group].insert_or_assign(report.batches, std::move(row));
}

Result<void> MetricStore::Impl::apply(const MetricRewind& rewind) {
  const TrialKey key{rewind.experiment, rewind.trial};
  if (const auto trial = trials.find(key); trial != trials.end()) {
    for (auto& [group, rows] : trial->second) rows.erase(rows.upper_bound(last_kept(&rewind, group)), rows.end());
  }
  return write_trial(key, {}, &rewind);
}

Result<void> MetricStore::Impl::apply_removal(int64_t experiment) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  trials.erase(trials.lower_bound({experiment, kLeast}), trials.upper_bound({experiment, kMost}));
  std::error_code code;
  fs::remove_all(folder_of(experiment), code);
  if (code) return make_error(file_error("remove", folder_of(experiment), code.value()));
  return {};
}

Result<void> MetricStore::Impl::flush() {
  end_flush(true);
  while (!trials.empty()) {
    VOLADOR_TRY(write_trial(trials.begin()->first, trials.begin()->second));
    trials.erase(trials.begin());
  }
  lists.clear();
  if (log_end == 0 && !has_old_log) return {};
  if (options.sync) {
    auto folder = FileHandle::open(options.folder, O_RDONLY | O_DIRECTORY);
    if (!folder) return make_error(folder.error());
    if (syncfs(folder->get()) != 0) return make_error(file_error("sync", options.folder, errno));
  }
  if (has_old_log && unlink(old_log().c_str()) != 0 && errno != ENOENT)
    return make_error(file_error("remove", old_log(), errno));
  has_old_log = false;
  auto end = write_records(log(), 0, {}, options.sync);
  if (!end) return make_error(end.error());
  log_end = *end;
  return {};
}

Result<void> MetricStore::Impl::begin_flush() {
  if (rename(log().c_str(), old_log().c_str()) != 0) return make_error(file_error("rename", log(), errno));
  has_old_log = true;
  log_end = 0;
  frozen = std::exchange(trials, {});
  lists.clear();
  is_written = false;
  writer = std::thread([this] {
    outcome = write_frozen();
    is_written = true;
  });
  return {};
}

Result<void> MetricStore::Impl::write_frozen() {
  for (const auto& [key, recent] : frozen) {
    const std::lock_guard lock(files);
    VOLADOR_TRY(write_trial(key, recent));
  }
  if (options.sync) {
    auto folder = FileHandle::open(options.folder, O_RDONLY | O_DIRECTORY);
    if (!folder) return make_error(folder.error());
    if (syncfs(folder->get()) != 0) return make_error(file_error("sync", options.folder, errno));
  }
  if (unlink(old_log().c_str()) != 0) return make_error(file_error("remove", old_log(), errno));
  return {};
}

void MetricStore::Impl::end_flush(bool waits) {
  if (!writer.joinable() || (!waits && !is_written)) return;
  writer.join();
  if (outcome) {
    has_old_log = false;
  } else {
    log::warn("metrics", "reports are not in their files yet", {{"why", outcome.error().message}});
    // Later reports of the same batches count.
    for (auto& [key, recent] : frozen) {
      for (auto& [group, rows] : recent) trials[key][group].merge(rows);
    }
  }
  frozen.clear();
}

Result<void> MetricStore::Impl::make_room() {
  end_flush(false);
  if (log_end < options.log_bytes) return {};
  // The new log may become as long while the old one is moved.
  if (writer.joinable() && log_end < 2 * options.log_bytes) return {};
  end_flush(true);
  // Where that has failed, the error of another try is the caller's.
  return has_old_log ? flush() : begin_flush();
}

MetricRows MetricStore::Impl::rows_in_memory(const TrialKey& key, const std::string& group) const {
  MetricRows rows;
  for (const auto* part : {&trials, &frozen}) {
    const auto trial = part->find(key);
    if (trial == part->end()) continue;
    const auto found = trial->second.find(group);
    if (found == trial->second.end()) continue;
    rows.insert(found->second.begin(), found->second.end());  // Those of `trials` count.
  }
  return rows;
}

Result<void> MetricStore::Impl::write_trial(const TrialKey& key, const Recent& recent, const MetricRewind* rewind) {
  const fs::path path = this->path(key);
  MetricFile file(path);
  VOLADOR_TRY(file.open());
  bool overlaps = false;
  std::map<std::string_view, size_t> small;
  for (const MetricFile::Block& block : file.blocks()) {
    const auto rows = recent.find(block.head.group);
    overlaps |= block.head.last > last_kept(rewind, block.head.group) ||
                (rows != recent.end() && !rows->second.empty() && rows->second.begin()->first <= block.head.last);
    if (block.head.rows < kSmallBlockRows) ++small[block.head.group];
  }
  // Trials that report alike are not merged in the same flush.
  const size_t most = kSmallBlocks + static_cast<size_t>(key.second) % kSmallBlocks;
  const bool merge_small =
      std::any_of(small.begin(), small.end(), [most](const auto& group) { return group.second >= most; });
  return overlaps || merge_small ? rewrite(file, path, recent, rewind, merge_small) : append_to(file, path, recent);
}

Result<void> MetricStore::Impl::append_to(MetricFile& file, const fs::path& path, const Recent& recent) {
  std::string blocks;
  for (const auto& [group, rows] : recent) append_blocks(blocks, group, rows);
  if (blocks.empty()) return {};
  if (!file.exists()) VOLADOR_TRY(make_private_directory(path.parent_path()));
  auto to = FileHandle::open(path, O_WRONLY | O_CREAT, kFileMode);
  if (!to) return make_error(to.error());
  const auto end = static_cast<off_t>(file.end());
  // What lies behind the last block was torn by a crash.
  if (ftruncate(to->get(), end) != 0 || lseek(to->get(), end, SEEK_SET) < 0)
    return make_error(file_error("write", path, errno));
  auto written = write_all(to->get(), blocks, path);
  if (!written && ftruncate(to->get(), end) != 0)
    log::warn("metrics", "a torn end of a file of metrics stays", {{"file", path.string()}});
  return written;
}

Result<void> MetricStore::Impl::rewrite(MetricFile& file, const fs::path& path, const Recent& recent,
                                        const MetricRewind* rewind, bool merge_small) {
  fs::path partial = path;
  partial += ".partial";
  auto to = FileHandle::open(partial, O_WRONLY | O_CREAT | O_TRUNC, kFileMode);
  if (!to) return make_error(to.error());
  MetricFileWriter writer(file.fd(), to->get(), partial);

  struct Group {
    MetricRows rows;  // To be written before the next block of the group.
    MetricRows::const_iterator next, end;
  };
  std::map<std::string_view, Group> groups;
  for (const auto& [name, rows] : recent) groups[name] = {{}, rows.begin(), rows.end()};
  static const MetricRows kNone;
  const auto write_rows = [&](std::string_view name, MetricRows& rows) {
    auto written = writer.add(name, rows);
    rows.clear();
    return written;
  };
  const auto write = [&]() -> Result<void> {
    for (const MetricFile::Block& block : file.blocks()) {
      Group& group = groups.try_emplace(block.head.group, Group{{}, kNone.end(), kNone.end()}).first->second;
      const int64_t last = last_kept(rewind, block.head.group);
      const bool replaced = group.next != group.end && group.next->first <= block.head.last;
      if (!replaced && block.head.last <= last && !(merge_small && block.head.rows < kSmallBlockRows)) {
        VOLADOR_TRY(write_rows(block.head.group, group.rows));
        VOLADOR_TRY(writer.copy(block.at, block.head.bytes));
        continue;
      }
      if (block.head.first <= last) file.add_rows(block, last, group.rows);
      file.forget_parts();
      for (; group.next != group.end && group.next->first <= block.head.last; ++group.next)
        group.rows.insert_or_assign(group.next->first, group.next->second);
      if (group.rows.size() >= kBlockRows) VOLADOR_TRY(write_rows(block.head.group, group.rows));
    }
    for (auto& [name, group] : groups) {
      group.rows.insert(group.next, group.end);
      VOLADOR_TRY(write_rows(name, group.rows));
    }
    VOLADOR_TRY(writer.end());
    if (options.sync) VOLADOR_TRY(sync_file(to->get(), partial));
    if (rename(partial.c_str(), path.c_str()) != 0) return make_error(file_error("write", path, errno));
    return options.sync ? sync_directory(path.parent_path()) : Result<void>{};
  };
  auto written = write();
  if (!written) unlink(partial.c_str());
  return written;
}

MetricStore::MetricStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricStore::MetricStore(MetricStore&&) noexcept = default;
MetricStore& MetricStore::operator=(MetricStore&&) noexcept = default;
MetricStore::~MetricStore() = default;

Result<MetricStore> MetricStore::open(const MetricStoreOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  VOLADOR_TRY(impl->open());
  return MetricStore(std::move(impl));
}

Result<void> MetricStore::append(std::span<const MetricReport> reports) {
  if (reports.empty()) return {};
  VOLADOR_TRY(impl_->make_room());
  std::string records;
  Encoder entries;
  for (const MetricReport& report : reports) {
    encode_entry(entries, report);
    if (entries.bytes().size() < kRecordBytes && &report != &reports.back()) continue;
    append_record(records, entries.bytes());
    entries.truncate(0);
  }
  VOLADOR_TRY(impl_->write_log(records));
  for (const MetricReport& report : reports) impl_->apply(report);
  return {};
}

Result<void> MetricStore::rewind(const MetricRewind& rewind) {
  impl_->end_flush(true);  // It changes the file.
  Encoder entry;
  entry.unsigned_integer(static_cast<uint64_t>(rewind.group.empty() ? Entry::kRewind : Entry::kGroupRewind));
  entry.integer(rewind.experiment);
  entry.integer(rewind.trial);
  entry.integer(rewind.batches);
  if (!rewind.group.empty()) entry.text(rewind.group);
  std::string record;
  append_record(record, entry.bytes());
  VOLADOR_TRY(impl_->write_log(record));
  return impl_->apply(rewind);
}

Result<void> MetricStore::remove(int64_t experiment) {
  impl_->end_flush(true);
  Encoder entry;
  entry.unsigned_integer(static_cast<uint64_t>(Entry::kRemoval));
  entry.integer(experiment);
  std::string record;
  append_record(record, entry.bytes());
  VOLADOR_TRY(impl_->write_log(record));
  return impl_->apply_removal(experiment);
}

Result<void> MetricStore::flush() { return impl_->flush(); }

Result<v1::GetMetricsReply> MetricStore::query(const v1::GetMetricsRequest& request,
                                               const ExperimentOf& experiment_of) const {
  if (request.trials_size() > kTrialsMax) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("metrics of {} trials were asked for; one request may name {}. Ask several times.",
                                  request.trials_size(), kTrialsMax));
  }
  MetricQuery query{.group = request.group().empty() ? "validation" : request.group()};
  query.metrics.insert(request.metrics().begin(), request.metrics().end());
  if (request.from_batch() != 0) query.from = request.from_batch();
  if (request.to_batch() != 0) query.to = request.to_batch();
  if (request.max_points() == 0) query.points = kPoints;
  if (request.max_points() > 0)
    query.points = std::max(static_cast<uint64_t>(request.max_points()), MetricQuery::kLeastPoints);

  v1::GetMetricsReply reply;
  for (const int64_t trial : request.trials()) {
    const auto experiment = experiment_of(trial);
    if (!experiment) continue;
    const TrialKey key{*experiment, trial};
    const MetricRows recent = impl_->rows_in_memory(key, query.group);
    const std::lock_guard lock(impl_->files);
    MetricFile file(impl_->path(key));
    VOLADOR_TRY(file.open());
    for (const MetricSeries& series : read_series(file, recent, query)) {
      v1::TrialMetricSeries& made = *reply.add_series();
      made.set_trial(trial);
      made.set_group(query.group);
      made.set_metric(series.metric);
      const auto size = static_cast<int>(series.points.size());
      made.mutable_batches()->Resize(size, 0);
      made.mutable_values()->Resize(size, 0);
      made.mutable_times_ms()->Resize(size, 0);
      int64_t* batches = made.mutable_batches()->mutable_data();
      double* values = made.mutable_values()->mutable_data();
      int64_t* times = made.mutable_times_ms()->mutable_data();
      for (const MetricPoint& point : series.points) {
        *batches++ = point.batches;
        *values++ = point.value;
        *times++ = point.time_ms;
      }
    }
  }
  return reply;
}

Result<std::vector<MetricStore::Name>> MetricStore::names(int64_t experiment, int64_t trial) const {
  std::set<Name> names;
  const std::lock_guard lock(impl_->files);
  MetricFile file(impl_->path({experiment, trial}));
  VOLADOR_TRY(file.open());
  for (const MetricFile::Block& block : file.blocks()) {
    for (const MetricColumn& column : block.head.columns) names.insert({block.head.group, column.name});
  }
  for (const auto* part : {&impl_->trials, &impl_->frozen}) {
    const auto found = part->find({experiment, trial});
    if (found == part->end()) continue;
    for (const auto& [group, rows] : found->second) {
      for (const auto& [batches, row] : rows) {
        for (const std::string& name : *row.names) names.insert({group, name});
      }
    }
  }
  return std::vector<Name>(names.begin(), names.end());
}

}  // namespace volador::experiments
