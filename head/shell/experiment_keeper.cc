#include "head/shell/experiment_keeper.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/files/record_file.h"
#include "runtime/log.h"
#include "runtime/paths.h"
#include "runtime/security/digest.h"

namespace volador::head {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr auto kGather = 20ms;
constexpr size_t kRecordBytes = size_t{1} << 20;  // Size of one part of a summary.
constexpr size_t kStemDigits = 32;
constexpr std::string_view kOpen = ".open", kEnded = ".ended", kHalf = ".half";

std::string stem_of(std::string_view experiment) {
  return security::hex(security::sha256(experiment)).substr(0, kStemDigits);
}

}  // namespace

struct ExperimentKeeper::Impl {
  Impl(const ExperimentKeeperOptions& o, const Clock& c) : options(o), clock(c) {}

  struct File {
    bool open = true;
    uint64_t bytes = 0;      // 0: does not exist yet.
    uint64_t summed_up = 0;  // Bytes of the last summary.
    uint64_t touched = 0;    // Order of the last writes.
    bool checked = false;    // Its end was verified to be complete.
  };

  Result<void> look();
  fs::path path(const std::string& stem, bool open) const {
    return options.directory / (stem + std::string(open ? kOpen : kEnded));
  }
  Kept read(const std::string& stem, File& file);
  void run(const Restore& restore, const Written& written);
  void restore_ended(const Restore& restore);
  struct Queued {
    ExperimentNews news;
    WallTime came;
  };
  void write(std::vector<Queued> batch, const Written& written);
  // Returns false if it is not on disk.
  bool write_one(const std::string& stem, const std::string& records, bool open);
  void sum_up(const std::string& stem, File& file);
  void fold_into_summary(const std::string& stem, File& file);
  void set_open(const std::string& stem, File& file, bool open);
  void make_room();
  void remove(std::map<std::string, File>::iterator file);
  void said(const Result<void>& written);

  const ExperimentKeeperOptions options;
  const Clock& clock;
  std::map<std::string, File> files;  // By stem. Confined to the thread once it runs.
  uint64_t touches = 0;
  uint64_t bytes = 0;  // Total.
  bool failing = false;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Queued> queue;
  size_t queue_bytes = 0;
  bool dropping = false;
  bool stopping = false;
  std::thread thread;
};

// ---- scanning the folder ----

Result<void> ExperimentKeeper::Impl::look() {
  VOLADOR_TRY(make_private_directory(options.directory));
  struct Found {
    fs::file_time_type written;
    std::string stem;
    bool open;
    uint64_t bytes;
  };
  std::vector<Found> found;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(options.directory, code)) {
    const std::string name = entry.path().filename().string();
    std::error_code gone;
    if (name.ends_with(kHalf)) fs::remove(entry.path(), gone);  // Left by an unfinished summary.
    const bool open = name.ends_with(kOpen);
    const std::string stem = name.substr(0, name.rfind('.'));
    if ((!open && !name.ends_with(kEnded)) || stem.size() != kStemDigits) continue;
    const auto size = entry.file_size(gone);
    if (!gone) found.push_back({.written = entry.last_write_time(gone), .stem = stem, .open = open, .bytes = size});
  }
  if (code) return make_error(file_error("read", options.directory, code.value()));
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return std::tie(a.written, a.stem) < std::tie(b.written, b.stem); });
  for (const Found& one : found) {
    if (files.contains(one.stem)) continue;  // Both names exist after an unfinished rename; the older file counts.
    files[one.stem] = {.open = one.open, .bytes = one.bytes, .touched = ++touches};
    bytes += one.bytes;
  }
  size_t open = 0;
  for (auto one = found.rbegin(); one != found.rend(); ++one) {  // Very old experiments are no longer running.
    if (File& file = files.at(one->stem); file.open && ++open > options.restored_max) set_open(one->stem, file, false);
  }
  make_room();
  return {};
}

ExperimentKeeper::Kept ExperimentKeeper::Impl::read(const std::string& stem, File& file) {
  Kept kept{.history = ExperimentHistory(options.limits), .rank = file.touched};
  size_t unread = 0;
  const auto read =
      read_records(path(stem, file.open), [&](std::string_view record) { unread += kept.history.add(record) ? 0 : 1; });
  if (!read) {
    log::warn("head", "a kept experiment cannot be read and is left out", {{"why", read.error().message}});
    return kept;
  }
  if (read->torn || unread > 0) {
    log::warn("head", "the end of a kept experiment was torn; what came before it counts",
              {{"experiment", kept.history.name()},
               {"bytes", read->bytes},
               {"of", file.bytes},
               {"unread", static_cast<uint64_t>(unread)}});
  }
  bytes -= file.bytes;
  file.bytes = read->bytes;
  bytes += file.bytes;
  file.checked = true;
  return kept;
}

void ExperimentKeeper::Impl::restore_ended(const Restore& restore) {
  std::vector<std::pair<uint64_t, std::string>> ended;
  size_t open = 0;
  for (const auto& [stem, file] : files) {
    if (file.open) {
      ++open;
    } else {
      ended.emplace_back(file.touched, stem);
    }
  }
  std::sort(ended.begin(), ended.end());
  const size_t room = options.restored_max - std::min(open, options.restored_max);
  for (size_t at = ended.size() - std::min(ended.size(), room); at < ended.size(); ++at) {
    const Kept kept = read(ended[at].second, files.at(ended[at].second));
    if (!kept.history.name().empty() && !restore(kept)) return;
  }
}

// ---- writing ----

void ExperimentKeeper::Impl::run(const Restore& restore, const Written& written) {
  if (restore) restore_ended(restore);
  std::unique_lock hold(mutex);
  while (true) {
    changed.wait(hold, [this] { return !queue.empty() || stopping; });
    if (!stopping) changed.wait_for(hold, kGather, [this] { return stopping; });
    std::vector<Queued> batch = std::exchange(queue, {});
    queue_bytes = 0;
    dropping = false;
    const bool last = stopping;
    hold.unlock();
    write(std::move(batch), written);
    if (last) return;
    hold.lock();
  }
}

void ExperimentKeeper::Impl::write(std::vector<Queued> batch, const Written& written) {
  struct Due {
    std::string records;
    bool open = true;
    std::map<std::pair<DriverId, std::string>, uint64_t> numbers;  // The last numbers, to be reported.
  };
  std::map<std::string, Due> due;
  for (auto& [news, came] : batch) {
    protocol::ExperimentRecord record;
    record.set_driver_id(raw(news.driver));
    record.set_machine_id(std::move(news.machine_id));
    record.set_wall_ms(unix_ms(came));
    record.set_update(std::move(news.update));
    Due& one = due[stem_of(news.experiment)];
    append_record(one.records, record.SerializeAsString());
    one.open = news.open;
    if (news.number > 0) one.numbers[{news.driver, news.experiment}] = news.number;
  }
  for (const auto& [stem, one] : due) {
    if (!write_one(stem, one.records, one.open) || !written) continue;
    for (const auto& [of, number] : one.numbers) written(of.first, of.second, number);
  }
}

bool ExperimentKeeper::Impl::write_one(const std::string& stem, const std::string& records, bool open) {
  File& file = files[stem];
  if (file.bytes == 0) file.checked = true;
  if (!file.checked) read(stem, file);  // Not among the experiments that are shown again.
  if (open && !file.open) set_open(stem, file, true);
  const auto written = write_records(path(stem, file.open), file.bytes, records, options.sync);
  said(written ? Result<void>() : make_error(written.error()));
  if (!written) return false;
  bytes += *written - file.bytes;
  file.bytes = *written;
  file.touched = ++touches;
  if (!open || file.bytes > std::max(options.summary_bytes, 2 * file.summed_up)) sum_up(stem, file);
  if (!open && file.open) set_open(stem, file, false);
  make_room();
  return true;
}

// Replaces the file once the summary is complete. The whole history was in memory; trim returns that memory to the
// system.
void ExperimentKeeper::Impl::sum_up(const std::string& stem, File& file) {
  fold_into_summary(stem, file);
  malloc_trim(0);
}

void ExperimentKeeper::Impl::fold_into_summary(const std::string& stem, File& file) {
  const Kept kept = read(stem, file);
  if (kept.history.name().empty()) return;
  const fs::path half = options.directory / (stem + std::string(kHalf));
  uint64_t length = 0;
  Result<void> result;
  kept.history.for_each_record(kRecordBytes, [&](const std::string& record) {
    if (!result) return;
    std::string framed;
    append_record(framed, record);
    const auto written = write_records(half, length, framed, false);
    if (written) length = *written;
    if (!written) result = make_error(written.error());
  });
  if (result && options.sync) {
    const auto synced = write_records(half, length, {}, true);
    if (!synced) result = make_error(synced.error());
  }
  std::error_code code;
  if (result) {
    fs::rename(half, path(stem, file.open), code);
    if (code) result = make_error(file_error("replace", path(stem, file.open), code.value()));
  }
  said(result);
  if (!result) {
    fs::remove(half, code);
    file.summed_up = file.bytes;  // Prevents an immediate retry.
    return;
  }
  bytes += length;
  bytes -= file.bytes;
  file.bytes = file.summed_up = length;
}

void ExperimentKeeper::Impl::set_open(const std::string& stem, File& file, bool open) {
  std::error_code code;
  fs::rename(path(stem, file.open), path(stem, open), code);
  if (!code) file.open = open;
}

void ExperimentKeeper::Impl::make_room() {
  while (files.size() > options.files_max || bytes > options.bytes_max) {
    const auto before = [](const auto& a, const auto& b) {
      return std::pair(a.second.open, a.second.touched) < std::pair(b.second.open, b.second.touched);
    };
    const auto oldest = std::min_element(files.begin(), files.end(), before);
    if (oldest == files.end()) return;
    remove(oldest);
  }
}

void ExperimentKeeper::Impl::remove(std::map<std::string, File>::iterator file) {
  std::error_code code;
  fs::remove(path(file->first, file->second.open), code);
  bytes -= file->second.bytes;
  files.erase(file);
  log::info("head", "a kept experiment made room for newer ones",
            {{"files", static_cast<uint64_t>(files.size())}, {"bytes", bytes}});
}

void ExperimentKeeper::Impl::said(const Result<void>& written) {
  const bool was_failing = std::exchange(failing, !written);
  if (!written && !was_failing) {
    log::warn("head", "experiments are not kept over a restart while this lasts; they go on",
              {{"why", written.error().message}});
  } else if (written && was_failing) {
    log::info("head", "experiments are kept again");
  }
}

// ---- ExperimentKeeper ----

ExperimentKeeper::ExperimentKeeper(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ExperimentKeeper::~ExperimentKeeper() { stop(); }

Result<std::unique_ptr<ExperimentKeeper>> ExperimentKeeper::open(const ExperimentKeeperOptions& options,
                                                                 const Clock& clock) {
  auto impl = std::make_unique<Impl>(options, clock);
  VOLADOR_TRY(impl->look());
  return std::unique_ptr<ExperimentKeeper>(new ExperimentKeeper(std::move(impl)));
}

std::vector<ExperimentKeeper::Kept> ExperimentKeeper::read_open() {
  std::vector<Kept> open;
  for (auto& [stem, file] : impl_->files) {
    if (!file.open) continue;
    Kept kept = impl_->read(stem, file);
    if (!kept.history.name().empty()) open.push_back(std::move(kept));
  }
  std::sort(open.begin(), open.end(), [](const Kept& a, const Kept& b) { return a.rank < b.rank; });
  return open;
}

void ExperimentKeeper::start(Restore restore, Written written) {
  VOLADOR_CHECK(!impl_->thread.joinable(), "start() is called once");
  impl_->thread = std::thread([impl = impl_.get(), restore = std::move(restore), written = std::move(written)] {
    impl->run(restore, written);
  });
}

void ExperimentKeeper::keep(ExperimentNews news) {
  const std::lock_guard hold(impl_->mutex);
  if (impl_->stopping) return;
  const size_t size = news.update.size() + sizeof(ExperimentNews);
  if (impl_->queue_bytes + size > impl_->options.queue_bytes_max) {
    if (!std::exchange(impl_->dropping, true))
      log::warn("head", "experiments report faster than the disk takes it; some of it is not kept over a restart");
    return;
  }
  impl_->queue_bytes += size;
  impl_->queue.push_back({.news = std::move(news), .came = impl_->clock.wall()});
  impl_->changed.notify_all();
}

void ExperimentKeeper::stop() {
  {
    const std::lock_guard hold(impl_->mutex);
    impl_->stopping = true;
    impl_->changed.notify_all();
  }
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace volador::head
