#include "tune/checkpoint_store.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/files/directory_archive.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using ManifestJson = nlohmann::json;

constexpr std::string_view kPrefix = "checkpoint_";
constexpr size_t kDigestBytes = 32;
constexpr size_t kManifestBytesMax = 64 << 10;

tl::unexpected<Error> stale(const std::string& trial_id, uint64_t attempt, uint64_t newest) {
  return make_error(
      ErrorCode::kPermissionDenied,
      fmt::format("trial {}: attempt {} may not save a checkpoint, attempt {} has begun", trial_id, attempt, newest));
}

std::string manifest(const StoredCheckpoint& checkpoint) {
  return ManifestJson{{"step", checkpoint.step},
              {"attempt", checkpoint.attempt},
              {"sha256", checkpoint.sha256},
              {"archive_bytes", checkpoint.archive_bytes},
              {"saved_ns", checkpoint.saved.time_since_epoch().count()}}
             .dump() +
         "\n";
}

Result<StoredCheckpoint> read_checkpoint(const std::string& trial_id, const fs::path& directory) {
  auto text = read_file(directory / "checkpoint.json", kManifestBytesMax);
  if (!text) return make_error(text.error());
  const ManifestJson fields = ManifestJson::parse(*text, nullptr, false);
  StoredCheckpoint checkpoint;
  checkpoint.trial_id = trial_id;
  checkpoint.directory = directory;
  const auto integer = [&](const char* key, auto& out) {
    if (!fields.is_object() || !fields.contains(key) || !fields[key].is_number_integer()) return false;
    out = fields[key].get<std::decay_t<decltype(out)>>();
    return true;
  };
  int64_t saved = 0;
  if (!integer("step", checkpoint.step) || !integer("attempt", checkpoint.attempt) ||
      !integer("archive_bytes", checkpoint.archive_bytes) || !integer("saved_ns", saved) ||
      !fields.contains("sha256") || !fields["sha256"].is_string()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: its checkpoint.json is damaged", directory.string()));
  }
  checkpoint.sha256 = fields["sha256"].get<std::string>();
  checkpoint.saved = WallTime(std::chrono::nanoseconds(saved));
  std::error_code code;
  const auto size = fs::file_size(checkpoint.archive(), code);
  if (code) return make_error(file_error("read", checkpoint.archive(), code.value()));
  if (static_cast<int64_t>(size) != checkpoint.archive_bytes) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: its archive has {} bytes, its checkpoint.json says {}", directory.string(), size,
                                  checkpoint.archive_bytes));
  }
  return checkpoint;
}

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("{}{:06}", kPrefix, step); }

CheckpointWriter::~CheckpointWriter() {
  if (partial_.empty()) return;
  file_.close();
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
}

Result<void> CheckpointWriter::append(std::string_view bytes) {
  VOLADOR_TRY(write_all(file_.get(), bytes, partial_));
  bytes_ += static_cast<int64_t>(bytes.size());
  tail_ += bytes;
  if (tail_.size() > kDigestBytes) {
    const size_t covered = tail_.size() - kDigestBytes;
    hash_.update(std::string_view(tail_).substr(0, covered));
    tail_.erase(0, covered);
  }
  return {};
}

Result<StoredCheckpoint> CheckpointWriter::commit(std::string_view sha256, WallTime now) {
  auto stored = finish(sha256, now);
  if (!stored && !partial_.empty()) {
    file_.close();
    std::error_code ignored;
    fs::remove_all(partial_, ignored);
  }
  partial_.clear();
  return stored;
}

Result<StoredCheckpoint> CheckpointWriter::finish(std::string_view sha256, WallTime now) {
  if (const uint64_t newest = (*attempts_)[checkpoint_.trial_id]; newest > checkpoint_.attempt) {
    return stale(checkpoint_.trial_id, checkpoint_.attempt, newest);
  }
  const security::Digest digest = hash_.finish();
  const bool whole = tail_ == security::raw(digest);
  if (!whole || security::hex(digest) != sha256) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("trial {}: the checkpoint of step {} arrived torn: {} bytes with checksum {}, sent as {}",
                    checkpoint_.trial_id, checkpoint_.step, bytes_, security::hex(digest), sha256));
  }
  checkpoint_.sha256 = sha256;
  checkpoint_.archive_bytes = bytes_;
  VOLADOR_TRY(sync_file(file_.get(), partial_ / "archive.vla"));
  return publish(now);
}

// The archive of another checkpoint instead of appended bytes: it was compared when that one was committed.
Result<StoredCheckpoint> CheckpointWriter::adopt(const StoredCheckpoint& from, WallTime now) {
  const fs::path archive = partial_ / "archive.vla";
  checkpoint_.sha256 = from.sha256;
  checkpoint_.archive_bytes = from.archive_bytes;
  std::error_code code;
  fs::remove(archive, code);
  fs::create_hard_link(from.archive(), archive, code);
  if (code) {
    fs::copy_file(from.archive(), archive, code);
    if (code) return make_error(file_error("copy to", archive, code.value()));
    auto file = FileHandle::open(archive, O_RDONLY);
    if (!file) return make_error(file.error());
    VOLADOR_TRY(sync_file(file->get(), archive));
  }
  auto stored = publish(now);
  if (stored) partial_.clear();
  return stored;
}

Result<StoredCheckpoint> CheckpointWriter::publish(WallTime now) {
  checkpoint_.saved = now;
  file_.close();
  VOLADOR_TRY(write_file_atomically(partial_ / "checkpoint.json", manifest(checkpoint_)));
  VOLADOR_TRY(replace_directory(partial_, checkpoint_.directory));
  return checkpoint_;
}

CheckpointStore::CheckpointStore(fs::path experiment_directory)
    : root_(std::move(experiment_directory)), attempts_(std::make_shared<std::map<std::string, uint64_t>>()) {}

void CheckpointStore::fence(const std::string& trial_id, uint64_t attempt) {
  uint64_t& newest = (*attempts_)[trial_id];
  newest = std::max(newest, attempt);
}

Result<CheckpointWriter> CheckpointStore::begin(const std::string& trial_id, int64_t step, uint64_t attempt) {
  fence(trial_id, attempt);
  if (const uint64_t newest = (*attempts_)[trial_id]; newest > attempt) return stale(trial_id, attempt, newest);
  CheckpointWriter writer;
  writer.attempts_ = attempts_;
  writer.checkpoint_.trial_id = trial_id;
  writer.checkpoint_.step = step;
  writer.checkpoint_.attempt = attempt;
  writer.checkpoint_.directory = root_ / trial_id / checkpoint_name(step);
  fs::path partial = root_ / trial_id / fmt::format(".{}.partial", checkpoint_name(step));
  std::error_code code;
  fs::remove_all(partial, code);
  fs::create_directories(partial, code);
  if (code) return make_error(file_error("write", partial, code.value()));
  writer.partial_ = std::move(partial);
  auto file = FileHandle::open(writer.partial_ / "archive.vla", O_WRONLY | O_CREAT | O_EXCL);
  if (!file) return make_error(file.error());
  writer.file_ = std::move(*file);
  return writer;
}

Result<StoredCheckpoint> CheckpointStore::clone(const StoredCheckpoint& from, const std::string& trial_id, uint64_t attempt, WallTime now) {
  auto writer = begin(trial_id, from.step, attempt);
  if (!writer) return make_error(writer.error());
  return writer->adopt(from, now);
}

Result<StoredCheckpoint> CheckpointStore::find(const std::string& trial_id, int64_t step) const {
  return read_checkpoint(trial_id, root_ / trial_id / checkpoint_name(step));
}

FoundCheckpoints CheckpointStore::list(const std::string& trial_id) const {
  FoundCheckpoints found;
  std::error_code code;
  for (fs::directory_iterator entry(root_ / trial_id, code), end; !code && entry != end; entry.increment(code)) {
    if (!entry->path().filename().string().starts_with(kPrefix)) continue;
    auto checkpoint = read_checkpoint(trial_id, entry->path());
    if (checkpoint) {
      found.valid.push_back(std::move(*checkpoint));
    } else {
      found.torn.push_back(checkpoint.error().message);
    }
  }
  std::ranges::sort(found.valid, {}, &StoredCheckpoint::step);
  std::ranges::sort(found.torn);
  return found;
}

CheckpointStore::Latest CheckpointStore::latest(const std::string& trial_id) const {
  FoundCheckpoints found = list(trial_id);
  Latest latest;
  latest.torn = std::move(found.torn);
  for (auto checkpoint = found.valid.rbegin(); checkpoint != found.valid.rend(); ++checkpoint) {
    auto summary = verify_archive(checkpoint->archive());
    if (summary && summary->sha256 == checkpoint->sha256) {
      latest.checkpoint = *checkpoint;
      break;
    }
    latest.torn.push_back(summary ? fmt::format("{}: its archive is another one than its checkpoint.json names",
                                                checkpoint->directory.string())
                                  : summary.error().message);
  }
  return latest;
}

Result<void> CheckpointStore::remove(const StoredCheckpoint& checkpoint) {
  // Renamed first: a half removed one must not look complete.
  fs::path aside =
      checkpoint.directory.parent_path() / fmt::format(".{}.removed", checkpoint.directory.filename().string());
  std::error_code code;
  fs::remove_all(aside, code);
  fs::rename(checkpoint.directory, aside, code);
  if (code) {
    if (code == std::errc::no_such_file_or_directory) return {};
    return make_error(file_error("remove", checkpoint.directory, code.value()));
  }
  fs::remove_all(aside, code);
  if (code) return make_error(file_error("remove", aside, code.value()));
  return {};
}

void CheckpointStore::remove_partial(const std::string& trial_id) {
  std::vector<fs::path> left;
  std::error_code code;
  for (fs::directory_iterator entry(root_ / trial_id, code), end; !code && entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(".checkpoint_")) left.push_back(entry->path());
  }
  for (const fs::path& path : left) fs::remove_all(path, code);
}

}  // namespace volador::tune
