// The checkpoints of an experiment on the driver's disk. One counts only once it is complete: written under a temporary
// name, its checksum compared, synced, renamed. A reader never takes a torn one.
//
//   <experiment>/<trial id>/checkpoint_000010/archive.vla        everything that save_checkpoint wrote
//   (directory_archive.h) <experiment>/<trial id>/checkpoint_000010/checkpoint.json    {"step", "attempt", "sha256",
//   "archive_bytes", "saved_ns"} <experiment>/<trial id>/.checkpoint_000010.partial/          being written; means
//   nothing
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/clock.h"
#include "runtime/files/durable_file.h"
#include "runtime/result.h"
#include "runtime/security/digest.h"

namespace volador::tune {

struct StoredCheckpoint {
  std::string trial_id;
  int64_t step = 0;      // The training iteration after which it was saved.
  uint64_t attempt = 0;  // Of the trial: 1 for its first actor, one more for every later one.
  std::string sha256;    // Of the archive.
  int64_t archive_bytes = 0;
  WallTime saved{};
  std::filesystem::path directory;

  std::filesystem::path archive() const { return directory / "archive.vla"; }
};

// What `latest` and `list` found. `torn` says what was skipped and why, a sentence each.
struct FoundCheckpoints {
  std::vector<StoredCheckpoint> valid;  // Oldest step first.
  std::vector<std::string> torn;
};

class CheckpointStore;

// One checkpoint on its way in. Destroyed without a commit it leaves nothing. At most one for each trial and step.
class CheckpointWriter {
 public:
  ~CheckpointWriter();
  CheckpointWriter(CheckpointWriter&&) noexcept = default;
  CheckpointWriter& operator=(CheckpointWriter&&) = delete;

  // The archive's bytes, in order.
  [[nodiscard]] Result<void> append(std::string_view bytes);
  int64_t bytes() const { return bytes_; }

  // kInvalidArgument: the archive is not the one named, or torn. kUnavailable: the disk; kPermissionDenied: a newer
  // attempt of the trial has begun, this one may not count. Nothing is left behind then. Call once.
  [[nodiscard]] Result<StoredCheckpoint> commit(std::string_view sha256, WallTime now);

 private:
  friend class CheckpointStore;
  CheckpointWriter() = default;
  Result<StoredCheckpoint> finish(std::string_view sha256, WallTime now);
  Result<StoredCheckpoint> adopt(const StoredCheckpoint& from, WallTime now);
  Result<StoredCheckpoint> publish(WallTime now);

  std::shared_ptr<std::map<std::string, uint64_t>> attempts_;
  StoredCheckpoint checkpoint_;
  std::filesystem::path partial_;  // Empty once nothing is left to remove.
  FileHandle file_;
  security::Sha256 hash_;
  std::string tail_;  // The last bytes: the archive's own checksum, which does not cover itself.
  int64_t bytes_ = 0;
};

// One thread, its writers too.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::filesystem::path experiment_directory);

  // From now on only this attempt or a later one may commit for the trial. An older one changes nothing.
  void fence(const std::string& trial_id, uint64_t attempt);

  // kPermissionDenied: a newer attempt of this trial has begun; the caller is stale and must stop. A checkpoint of the
  // same step that is there already stays until the new one commits.
  [[nodiscard]] Result<CheckpointWriter> begin(const std::string& trial_id, int64_t step, uint64_t attempt);

  // Makes a checkpoint of one trial one of another, of the same step, by a second name for its archive where the file system can.
  // kPermissionDenied: as of begin(). Nothing is left behind where it fails.
  [[nodiscard]] Result<StoredCheckpoint> clone(const StoredCheckpoint& from, const std::string& trial_id, uint64_t attempt, WallTime now);

  // kNotFound, kInvalidArgument: torn; its contents are not read.
  [[nodiscard]] Result<StoredCheckpoint> find(const std::string& trial_id, int64_t step) const;

  // Complete by name, manifest and length; contents are not read.
  FoundCheckpoints list(const std::string& trial_id) const;

  // The newest one whose whole archive agrees with its checksum; torn ones are skipped and named in `torn`. Reads it
  // once.
  struct Latest {
    std::optional<StoredCheckpoint> checkpoint;
    std::vector<std::string> torn;
  };
  Latest latest(const std::string& trial_id) const;

  // A removed or absent one is no error.
  [[nodiscard]] Result<void> remove(const StoredCheckpoint& checkpoint);
  // What writers of an earlier process left in the trial's directory.
  void remove_partial(const std::string& trial_id);

  const std::filesystem::path& experiment_directory() const { return root_; }

 private:
  std::filesystem::path root_;
  std::shared_ptr<std::map<std::string, uint64_t>> attempts_;  // Newest of each trial.
};

// "checkpoint_000010".
std::string checkpoint_name(int64_t step);

}  // namespace volador::tune
