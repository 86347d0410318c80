// The checkpoints of an experiment on the driver's disk. One counts only once it is complete: written under a temporary
// name, its checksums compared, synced, renamed. A reader never takes a torn one. It is stored as it travels, in parts
// (directory_parts.h); one that lies in another checkpoint already gets a second name there.
//
//   <experiment>/<trial id>/checkpoint_000010/archive.vla          its first part
//   <experiment>/<trial id>/checkpoint_000010/part_<sha256>.vla    each other one
//   <experiment>/<trial id>/checkpoint_000010/checkpoint.json      {"step", "attempt", "sha256", "archive_bytes" (of the
//                first part), "parts": [{"sha256", "bytes"}…] (the others), "received_bytes", "saved_ns"}
//   <experiment>/<trial id>/.checkpoint_000010.partial/            being written; means nothing
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
#include "runtime/files/directory_parts.h"
#include "runtime/files/durable_file.h"
#include "runtime/result.h"
#include "runtime/security/digest.h"

namespace volador::tune {

struct StoredCheckpoint {
  std::string trial_id;
  int64_t step = 0;      // The training iteration after which it was saved.
  uint64_t attempt = 0;  // Of the trial: 1 for its first actor, one more for every later one.
  std::vector<DirectoryPart> parts;  // At least one.
  int64_t received_bytes = 0;        // Of its parts, those that were not there before.
  WallTime saved{};
  std::filesystem::path directory;

  std::filesystem::path archive(size_t part) const { return directory / part_name(parts, part); }
  std::vector<std::filesystem::path> archives() const;
  int64_t bytes() const;  // Of all parts.
};

// What `latest` and `list` found. `torn` says what was skipped and why, a sentence each.
struct FoundCheckpoints {
  std::vector<StoredCheckpoint> valid;  // Oldest step first.
  std::vector<std::string> torn;
};

class CheckpointStore;
struct CheckpointBooks;

// One checkpoint on its way in. Destroyed without a commit it leaves nothing. At most one for each trial and step.
class CheckpointWriter {
 public:
  ~CheckpointWriter();
  CheckpointWriter(CheckpointWriter&&) noexcept = default;
  CheckpointWriter& operator=(CheckpointWriter&&) = delete;

  // The next part, if it lies in a checkpoint of this experiment that is known: then nothing of it is to be written.
  // Without an answer of its own where it does not, or cannot be had from there.
  bool reuse(const DirectoryPart& part);
  // The next part is this one; its bytes follow, in order, then end_part(). kInvalidArgument: a checksum that is none.
  [[nodiscard]] Result<void> begin_part(const DirectoryPart& part);
  [[nodiscard]] Result<void> append(std::string_view bytes);
  int64_t bytes() const { return bytes_; }  // Of the part so far.
  // kInvalidArgument: it is not the one named, or torn.
  [[nodiscard]] Result<void> end_part();

  // kUnavailable: the disk; kPermissionDenied: a newer attempt of the trial has begun, this one may not count. Nothing
  // is left behind then. Call once, with at least one part.
  [[nodiscard]] Result<StoredCheckpoint> commit(WallTime now);

 private:
  friend class CheckpointStore;
  CheckpointWriter() = default;
  Result<StoredCheckpoint> publish(WallTime now);

  std::shared_ptr<CheckpointBooks> books_;
  StoredCheckpoint checkpoint_;
  std::filesystem::path partial_;  // Empty once nothing is left to remove.
  FileHandle file_;       // Of the part under way, as the next three.
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

  // Makes a checkpoint of one trial one of another, of the same step, by second names for its parts where the file system can.
  // kPermissionDenied: as of begin(); kNotFound: it was removed. Nothing is left behind where it fails.
  [[nodiscard]] Result<StoredCheckpoint> clone(const StoredCheckpoint& from, const std::string& trial_id, uint64_t attempt, WallTime now);

  // kNotFound, kInvalidArgument: torn; its contents are not read.
  [[nodiscard]] Result<StoredCheckpoint> find(const std::string& trial_id, int64_t step) const;

  // Complete by name, manifest and length; contents are not read.
  FoundCheckpoints list(const std::string& trial_id) const;

  // The newest one whose parts all agree with their checksums; torn ones are skipped and named in `torn`. Reads it
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
  std::shared_ptr<CheckpointBooks> books_;
};

// "checkpoint_000010".
std::string checkpoint_name(int64_t step);

}  // namespace volador::tune
