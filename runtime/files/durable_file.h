// File operations that survive the end of the process or a power failure. Errors name the path and the next step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/paths.h"
#include "runtime/result.h"

namespace volador {

// Owning file descriptor.
class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int fd) : fd_(fd) {}
  ~FileHandle() { close(); }
  FileHandle(FileHandle&& other) noexcept : fd_(other.release()) {}
  FileHandle& operator=(FileHandle&& other) noexcept;

  // `flags` as for open(2), O_CLOEXEC is added. A created file has `mode`, by default the results mode
  // (runtime/files/results_mode.h); the umask applies.
  static Result<FileHandle> open(const std::filesystem::path& path, int flags, std::optional<unsigned> mode = {});

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();
  void close();

 private:
  int fd_ = -1;
};

// Writes all bytes or fails, possibly after a part was written. `path` is used in the message.
Result<void> write_all(int fd, std::string_view bytes, const std::filesystem::path& path);
// Reads up to `size` bytes; fewer only at the end of the file.
Result<size_t> read_some(int fd, char* out, size_t size, const std::filesystem::path& path);

// Syncs contents and length of the file, or the names in the directory, to disk.
Result<void> sync_file(int fd, const std::filesystem::path& path);
Result<void> sync_directory(const std::filesystem::path& directory);

enum class Durability : uint8_t {
  kProcess,  // Survives the end of the process.
  kPower,    // Survives a power failure: synced, some milliseconds.
};

// Readers see either the old or the new contents. The temporary name is "<path>.partial": one writer per path. The new
// file has the results mode.
Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view contents,
                                   Durability durability = Durability::kPower);

// kInvalidArgument: the file is longer than `bytes_max`.
Result<std::string> read_file(const std::filesystem::path& path, size_t bytes_max);

// Renames the directory `from` to `to`, which may exist; the old contents of `to` are removed afterwards. Both must be
// in one directory.
Result<void> replace_directory(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace volador
