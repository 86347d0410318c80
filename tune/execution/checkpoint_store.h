// Stores the checkpoints of an experiment on the driver's disk. A checkpoint is valid only once complete: it is written
// under a temporary name, verified by checksum, synced and renamed, so that readers never see a partial one. It is
// stored as it is transferred, in parts (directory_parts.h); a part that another checkpoint already has is hard-linked.
//
//   <experiment>/<trial id>/checkpoint_000010/archive.vla          first part
//   <experiment>/<trial id>/checkpoint_000010/part_<sha256>.vla    each further part
//   <experiment>/<trial id>/checkpoint_000010/checkpoint.json      {"step", "attempt", "sha256", "archive_bytes" (of the
//                first part), "parts": [{"sha256", "bytes"}…] (the others), "received_bytes", "saved_ns"}
//   <experiment>/<trial id>/.checkpoint_000010.partial/            incomplete; ignored
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
  int64_t step = 0;                  // The training iteration after which it was saved.
  uint64_t attempt = 0;              // Attempt of the trial: 1 for its first actor, plus 1 for each later one.
  std::vector<DirectoryPart> parts;  // At least one.
  int64_t received_bytes = 0;        // Bytes of those parts that were not in the store before.
  WallTime saved{};
  std::filesystem::path directory;

  std::filesystem::path archive(size_t part) const { return directory / part_name(parts, part); }
  std::vector<std::filesystem::path> archives() const;
  int64_t bytes() const;  // Total of all parts.
};

// Result of `list`. `torn` names the skipped checkpoints and the reasons, one sentence each.
struct FoundCheckpoints {
  std::vector<StoredCheckpoint> valid;  // Oldest step first.
  std::vector<std::string> torn;
};

class CheckpointStore;
struct CheckpointBooks;

// A checkpoint being received. Destruction without a commit removes it. At most one for each trial and step.
class CheckpointWriter {
 public:
  ~CheckpointWriter();
  CheckpointWriter(CheckpointWriter&&) noexcept = default;
  CheckpointWriter& operator=(CheckpointWriter&&) = delete;

  // Adds the next part from another known checkpoint of this experiment, so that nothing has to be written. Returns
  // false if no checkpoint has the part or it cannot be reused; the caller then transfers it.
  bool reuse(const DirectoryPart& part);
  // Starts the next part; its bytes follow, in order, then end_part(). kInvalidArgument: an invalid checksum.
  [[nodiscard]] Result<void> begin_part(const DirectoryPart& part);
  [[nodiscard]] Result<void> append(std::string_view bytes);
  int64_t bytes() const { return bytes_; }  // Bytes of the current part so far.
  // kInvalidArgument: the checksum does not match, or the part is corrupt.
  [[nodiscard]] Result<void> end_part();

  // kUnavailable: disk error; kPermissionDenied: a newer attempt of the trial has started, so that this checkpoint is
  // not valid. In both cases nothing is left behind. Call once, with at least one part.
  [[nodiscard]] Result<StoredCheckpoint> commit(WallTime now);

 private:
  friend class CheckpointStore;
  CheckpointWriter() = default;
  Result<StoredCheckpoint> publish(WallTime now);

  std::shared_ptr<CheckpointBooks> books_;
  StoredCheckpoint checkpoint_;
  std::filesystem::path partial_;  // Empty once nothing is left to remove.
  FileHandle file_;                // State of the current part, as are the next three.
  security::Sha256 hash_;
  std::string tail_;  // The last bytes: the archive's own checksum, which is not part of the hashed data.
  int64_t bytes_ = 0;
};

// Single-threaded, including its writers.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::filesystem::path experiment_directory);

  // From now on only this attempt or a later one may commit for the trial. An older attempt has no effect.
  void fence(const std::string& trial_id, uint64_t attempt);

  // kPermissionDenied: a newer attempt of this trial has started; the caller is stale and must stop. An existing
  // checkpoint of the same step stays until the new one commits.
  [[nodiscard]] Result<CheckpointWriter> begin(const std::string& trial_id, int64_t step, uint64_t attempt);

  // Copies a checkpoint of one trial to another, for the same step, with hard links to its parts if the file system
  // supports them. kPermissionDenied: as begin(); kNotFound: it was removed. Leaves nothing behind on failure.
  [[nodiscard]] Result<StoredCheckpoint> clone(const StoredCheckpoint& from, const std::string& trial_id,
                                               uint64_t attempt, WallTime now);

  // kNotFound; kInvalidArgument: incomplete. Contents are not read.
  [[nodiscard]] Result<StoredCheckpoint> find(const std::string& trial_id, int64_t step) const;

  // Checks names, manifest and lengths; contents are not read.
  FoundCheckpoints list(const std::string& trial_id) const;

  // Returns the newest checkpoint whose parts all match their checksums; others are skipped and named in `torn`. Reads
  // the whole checkpoint.
  struct Latest {
    std::optional<StoredCheckpoint> checkpoint;
    std::vector<std::string> torn;
  };
  Latest latest(const std::string& trial_id) const;

  // Succeeds if the checkpoint is already absent.
  [[nodiscard]] Result<void> remove(const StoredCheckpoint& checkpoint);
  // Removes partial checkpoints that an earlier process left in the trial's directory.
  void remove_partial(const std::string& trial_id);

  const std::filesystem::path& experiment_directory() const { return root_; }

 private:
  std::filesystem::path root_;
  std::shared_ptr<CheckpointBooks> books_;
};

// Returns "checkpoint_000010".
std::string checkpoint_name(int64_t step);

}  // namespace volador::tune
