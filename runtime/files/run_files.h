// The files of a run, as they lie on this machine: names that lead nowhere else, opened so that no link is followed. Whoever hands them
// out (the dashboard's server, a node, a program) does it by this. Blocking, a few microseconds a call on a disk of this machine; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/result.h"

namespace volador {

// A file while it is read, a piece at a time, in constant memory.
class FilePieces {
 public:
  static constexpr size_t kPieceBytes = 256 << 10;  // At most, about.

  virtual ~FilePieces() = default;
  // Of the whole, in bytes, where it is known before.
  virtual std::optional<uint64_t> length() const { return std::nullopt; }
  // Empty: that was all. kUnavailable, kInvalidArgument: what came before is not the whole file.
  [[nodiscard]] virtual Result<std::string> next() = 0;
};

class RunFiles {
 public:
  static constexpr size_t kFilesMax = 2000;  // Of one folder that are listed.

  // `directory` is absolute.
  explicit RunFiles(std::filesystem::path directory) : directory_(std::move(directory)) {}

  struct Entry {
    std::string name;
    std::string kind;  // "file", "checkpoint".
    int64_t bytes = 0;
    int64_t modified_ms = 0;
  };
  // Of the run (empty), or of one of its trials: regular files and complete checkpoints, by name. kNotFound, kPermissionDenied: what the
  // file system says; kInvalidArgument: a trial or a directory that is none.
  [[nodiscard]] Result<std::vector<Entry>> list(const std::string& trial) const;

  struct Opened {
    std::string file_name;  // To be saved under.
    std::string content_type;
    std::unique_ptr<FilePieces> pieces;
  };
  // One of list(); a checkpoint comes as a tar file. kInvalidArgument: a name that is none of ours.
  [[nodiscard]] Result<Opened> open(const std::string& trial, const std::string& name) const;

 private:
  const std::filesystem::path directory_;
};

}  // namespace volador
