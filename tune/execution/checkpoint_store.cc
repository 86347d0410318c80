#include "tune/execution/checkpoint_store.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "runtime/files/directory_archive.h"
#include "runtime/files/results_mode.h"
#include "runtime/quantities.h"

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
  ManifestJson others = ManifestJson::array();
  for (size_t at = 1; at < checkpoint.parts.size(); ++at) {
    others.push_back({{"sha256", checkpoint.parts[at].sha256}, {"bytes", checkpoint.parts[at].bytes}});
  }
  return ManifestJson{{"step", checkpoint.step},
                      {"attempt", checkpoint.attempt},
                      {"sha256", checkpoint.parts.front().sha256},
                      {"archive_bytes", checkpoint.parts.front().bytes},
                      {"parts", std::move(others)},
                      {"received_bytes", checkpoint.received_bytes},
                      {"saved_ns", checkpoint.saved.time_since_epoch().count()}}
             .dump() +
         "\n";
}

bool is_digest(std::string_view text) {
  return text.size() == 2 * kDigestBytes && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

template <class T>
bool read_integer(const ManifestJson& fields, const char* key, T& out) {
  const auto found = fields.find(key);
  if (found == fields.end() || !found->is_number_integer()) return false;
  out = found->get<T>();
  return true;
}

bool read_part(const ManifestJson& fields, const char* bytes_key, DirectoryPart& part) {
  const auto digest = fields.find("sha256");
  if (digest == fields.end() || !digest->is_string() || !read_integer(fields, bytes_key, part.bytes)) return false;
  part.sha256 = digest->get<std::string>();
  return is_digest(part.sha256);
}

// Checkpoints written before parts were introduced have the first part only.
bool read_parts(const ManifestJson& fields, std::vector<DirectoryPart>& parts) {
  if (!read_part(fields, "archive_bytes", parts.emplace_back())) return false;
  const auto others = fields.find("parts");
  if (others == fields.end()) return true;
  if (!others->is_array()) return false;
  return std::ranges::all_of(*others, [&](const ManifestJson& other) {
    return other.is_object() && read_part(other, "bytes", parts.emplace_back());
  });
}

Result<StoredCheckpoint> read_checkpoint(const std::string& trial_id, const fs::path& directory) {
  auto text = read_file(directory / "checkpoint.json", kManifestBytesMax);
  if (!text) return make_error(text.error());
  const ManifestJson fields = ManifestJson::parse(*text, nullptr, false);
  StoredCheckpoint checkpoint;
  checkpoint.trial_id = trial_id;
  checkpoint.directory = directory;
  int64_t saved = 0;
  if (!fields.is_object() || !read_integer(fields, "step", checkpoint.step) ||
      !read_integer(fields, "attempt", checkpoint.attempt) || !read_integer(fields, "saved_ns", saved) ||
      !read_parts(fields, checkpoint.parts)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: its checkpoint.json is damaged", directory.string()));
  }
  read_integer(fields, "received_bytes", checkpoint.received_bytes);
  checkpoint.saved = WallTime(std::chrono::nanoseconds(saved));
  for (size_t at = 0; at < checkpoint.parts.size(); ++at) {
    const fs::path archive = checkpoint.archive(at);
    std::error_code code;
    const auto size = fs::file_size(archive, code);
    if (code) return make_error(file_error("read", archive, code.value()));
    if (static_cast<int64_t>(size) == checkpoint.parts[at].bytes) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: {} has {} bytes, checkpoint.json says {}", directory.string(),
                                  archive.filename().string(), size, checkpoint.parts[at].bytes));
  }
  return checkpoint;
}

// Reads its parts and compares their checksums.
Result<void> verify(const StoredCheckpoint& checkpoint) {
  for (size_t at = 0; at < checkpoint.parts.size(); ++at) {
    auto summary = verify_archive(checkpoint.archive(at));
    if (!summary) return make_error(summary.error());
    if (summary->sha256 == checkpoint.parts[at].sha256) continue;
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: its archive is another one than its checkpoint.json names", checkpoint.directory.string()));
  }
  return {};
}

// Creates a hard link to a file, which is immutable by now, or a synced copy if the file system has no hard links.
bool link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::create_hard_link(from, to, code);
  if (!code) return true;
  fs::copy_file(from, to, code);
  if (code) return false;
  const auto file = FileHandle::open(to, O_RDONLY);
  return file && sync_file(file->get(), to);
}

}  // namespace

std::vector<fs::path> StoredCheckpoint::archives() const {
  std::vector<fs::path> paths;
  for (size_t at = 0; at < parts.size(); ++at) paths.push_back(archive(at));
  return paths;
}

int64_t StoredCheckpoint::bytes() const {
  int64_t sum = 0;
  for (const DirectoryPart& part : parts) sum += part.bytes;
  return sum;
}

// State shared by the store and its writers.
struct CheckpointBooks {
  std::map<std::string, uint64_t> attempts;         // Newest attempt of each trial.
  std::unordered_map<std::string, fs::path> parts;  // Location of a part with this checksum, in a checkpoint that was
                                                    // complete.

  void add(const StoredCheckpoint& checkpoint) {
    for (size_t at = 0; at < checkpoint.parts.size(); ++at) parts[checkpoint.parts[at].sha256] = checkpoint.archive(at);
  }
  // Parts already known in a newer checkpoint stay registered there: the one that was found may be deleted soon.
  void add_unknown(const StoredCheckpoint& checkpoint) {
    for (size_t at = 0; at < checkpoint.parts.size(); ++at)
      parts.try_emplace(checkpoint.parts[at].sha256, checkpoint.archive(at));
  }
  void remove(const StoredCheckpoint& checkpoint) {
    for (size_t at = 0; at < checkpoint.parts.size(); ++at) {
      const auto known = parts.find(checkpoint.parts[at].sha256);
      if (known != parts.end() && known->second == checkpoint.archive(at)) parts.erase(known);
    }
  }
};

std::string checkpoint_name(int64_t step) { return fmt::format("{}{:06}", kPrefix, step); }

CheckpointWriter::~CheckpointWriter() {
  if (partial_.empty()) return;
  file_.close();
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
}

Result<void> CheckpointWriter::begin_part(const DirectoryPart& part) {
  if (!is_digest(part.sha256)) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("trial {}: \"{}\" is no checksum of a part of a checkpoint", checkpoint_.trial_id, part.sha256));
  }
  checkpoint_.parts.push_back(part);
  const fs::path path = partial_ / part_name(checkpoint_.parts, checkpoint_.parts.size() - 1);
  auto file = FileHandle::open(path, O_WRONLY | O_CREAT | O_EXCL);  // Never opens an existing file, which may have
                                                                    // other hard links.
  if (!file) return make_error(file.error());
  file_ = std::move(*file);
  hash_ = security::Sha256();
  tail_.clear();
  bytes_ = 0;
  return {};
}

Result<void> CheckpointWriter::append(std::string_view bytes) {
  VOLADOR_TRY(write_all(file_.get(), bytes, partial_));
  bytes_ += static_cast<int64_t>(bytes.size());
  if (bytes.size() >= kDigestBytes) {
    hash_.update(tail_);
    hash_.update(bytes.substr(0, bytes.size() - kDigestBytes));
    tail_ = bytes.substr(bytes.size() - kDigestBytes);
    return {};
  }
  tail_ += bytes;
  if (tail_.size() > kDigestBytes) {
    const size_t covered = tail_.size() - kDigestBytes;
    hash_.update(std::string_view(tail_).substr(0, covered));
    tail_.erase(0, covered);
  }
  return {};
}

Result<void> CheckpointWriter::end_part() {
  const DirectoryPart& part = checkpoint_.parts.back();
  const security::Digest digest = hash_.finish();
  const bool whole = tail_ == security::raw(digest) && bytes_ == part.bytes;
  if (!whole || security::hex(digest) != part.sha256) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("trial {}: the checkpoint of step {} arrived torn: {} with checksum {}, sent as {} with {}",
                    checkpoint_.trial_id, checkpoint_.step, counted(bytes_, "byte"), security::hex(digest), part.bytes,
                    part.sha256));
  }
  VOLADOR_TRY(sync_file(file_.get(), partial_));
  file_.close();
  checkpoint_.received_bytes += bytes_;
  return {};
}

bool CheckpointWriter::reuse(const DirectoryPart& part) {
  const auto known = books_->parts.find(part.sha256);
  if (known == books_->parts.end()) return false;
  std::error_code code;
  const auto size = fs::file_size(known->second, code);
  checkpoint_.parts.push_back(part);
  const fs::path to = partial_ / part_name(checkpoint_.parts, checkpoint_.parts.size() - 1);
  if (!code && static_cast<int64_t>(size) == part.bytes && link_or_copy(known->second, to)) return true;
  checkpoint_.parts.pop_back();
  books_->parts.erase(known);
  return false;
}

Result<StoredCheckpoint> CheckpointWriter::commit(WallTime now) {
  const uint64_t newest = books_->attempts[checkpoint_.trial_id];
  auto stored = newest > checkpoint_.attempt
                    ? Result<StoredCheckpoint>(stale(checkpoint_.trial_id, checkpoint_.attempt, newest))
                    : publish(now);
  if (!stored && !partial_.empty()) {
    file_.close();
    std::error_code ignored;
    fs::remove_all(partial_, ignored);
  }
  partial_.clear();
  return stored;
}

Result<StoredCheckpoint> CheckpointWriter::publish(WallTime now) {
  checkpoint_.saved = now;
  file_.close();
  VOLADOR_TRY(write_file_atomically(partial_ / "checkpoint.json", manifest(checkpoint_)));
  VOLADOR_TRY(replace_directory(partial_, checkpoint_.directory));
  books_->add(checkpoint_);
  return checkpoint_;
}

CheckpointStore::CheckpointStore(fs::path experiment_directory)
    : root_(std::move(experiment_directory)), books_(std::make_shared<CheckpointBooks>()) {}

void CheckpointStore::fence(const std::string& trial_id, uint64_t attempt) {
  uint64_t& newest = books_->attempts[trial_id];
  newest = std::max(newest, attempt);
}

Result<CheckpointWriter> CheckpointStore::begin(const std::string& trial_id, int64_t step, uint64_t attempt) {
  fence(trial_id, attempt);
  if (const uint64_t newest = books_->attempts[trial_id]; newest > attempt) return stale(trial_id, attempt, newest);
  CheckpointWriter writer;
  writer.books_ = books_;
  writer.checkpoint_.trial_id = trial_id;
  writer.checkpoint_.step = step;
  writer.checkpoint_.attempt = attempt;
  writer.checkpoint_.directory = root_ / trial_id / checkpoint_name(step);
  fs::path partial = root_ / trial_id / fmt::format(".{}.partial", checkpoint_name(step));
  std::error_code code;
  fs::remove_all(partial, code);
  VOLADOR_TRY(make_results_directory(partial));
  writer.partial_ = std::move(partial);
  return writer;
}

Result<StoredCheckpoint> CheckpointStore::clone(const StoredCheckpoint& from, const std::string& trial_id,
                                                uint64_t attempt, WallTime now) {
  if (auto there = read_checkpoint(from.trial_id, from.directory); !there) return make_error(there.error());
  auto writer = begin(trial_id, from.step, attempt);
  if (!writer) return make_error(writer.error());
  books_->add_unknown(from);
  for (size_t at = 0; at < from.parts.size(); ++at) {
    if (!writer->reuse(from.parts[at]))
      return make_error(ErrorCode::kUnavailable, fmt::format("{}: it cannot be copied", from.archive(at).string()));
  }
  return writer->commit(now);
}

Result<StoredCheckpoint> CheckpointStore::find(const std::string& trial_id, int64_t step) const {
  auto checkpoint = read_checkpoint(trial_id, root_ / trial_id / checkpoint_name(step));
  if (checkpoint) books_->add_unknown(*checkpoint);
  return checkpoint;
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
    const auto whole = verify(*checkpoint);
    if (whole) {
      latest.checkpoint = *checkpoint;
      break;
    }
    latest.torn.push_back(whole.error().message);
  }
  return latest;
}

Result<void> CheckpointStore::remove(const StoredCheckpoint& checkpoint) {
  books_->remove(checkpoint);
  // Renamed first, so that a partially removed one does not look complete.
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
