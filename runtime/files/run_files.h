// Access to the files of a run on this machine. Names cannot leave the run's directory, and symbolic links are not
// followed. Used by the dashboard's server, nodes and programs. Blocking, a few microseconds per call on a local disk;
// any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/result.h"

namespace volador {

// Reads a file piece by piece in constant memory.
class FilePieces {
 public:
  static constexpr size_t kPieceBytes = 256 << 10;  // Approximate maximum size.

  virtual ~FilePieces() = default;
  // Returns the total size in bytes, if known in advance.
  virtual std::optional<uint64_t> length() const { return std::nullopt; }
  // Empty: end of the file. kUnavailable, kInvalidArgument: the earlier pieces are not the whole file.
  [[nodiscard]] virtual Result<std::string> next() = 0;
};

// Lists and opens the files of one run.
class RunFiles {
 public:
  static constexpr size_t kFilesMax = 2000;  // Maximum number of files listed per folder.

  // `directory` is absolute.
  explicit RunFiles(std::filesystem::path directory) : directory_(std::move(directory)) {}

  struct Entry {
    std::string name;
    std::string kind;  // "file", "checkpoint".
    int64_t bytes = 0;
    int64_t modified_ms = 0;
  };
  // Lists regular files and complete checkpoints of the run (`trial` empty) or of a trial, by name. kNotFound,
  // kPermissionDenied: file system errors; kInvalidArgument: invalid trial or directory.
  [[nodiscard]] Result<std::vector<Entry>> list(const std::string& trial) const;

  struct Opened {
    std::string file_name;  // Suggested file name.
    std::string content_type;
    std::unique_ptr<FilePieces> pieces;
  };
  // Opens an entry of list(); a checkpoint is sent as a tar file. kInvalidArgument: invalid name.
  [[nodiscard]] Result<Opened> open(const std::string& trial, const std::string& name) const;

 private:
  const std::filesystem::path directory_;
};

}  // namespace volador
