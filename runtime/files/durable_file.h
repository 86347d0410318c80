// File operations that survive the end of the process or of the machine, with errors that name the path and the next
// step.
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

// Owns a file descriptor.
class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int fd) : fd_(fd) {}
  ~FileHandle() { close(); }
  FileHandle(FileHandle&& other) noexcept : fd_(other.release()) {}
  FileHandle& operator=(FileHandle&& other) noexcept;

  // `flags` as open(2), O_CLOEXEC added. A file that is made has `mode`, or that of results (runtime/files/results_mode.h) where none
  // is given; the umask applies.
  static Result<FileHandle> open(const std::filesystem::path& path, int flags, std::optional<unsigned> mode = {});

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();
  void close();

 private:
  int fd_ = -1;
};

// All of `bytes`, or an error; a part may have been written then. `path` is for the message.
Result<void> write_all(int fd, std::string_view bytes, const std::filesystem::path& path);
// Up to `size` bytes; fewer only at the end of the file.
Result<size_t> read_some(int fd, char* out, size_t size, const std::filesystem::path& path);

// Contents and length of the file, or the names in the directory, reach the disk.
Result<void> sync_file(int fd, const std::filesystem::path& path);
Result<void> sync_directory(const std::filesystem::path& directory);

enum class Durability : uint8_t {
  kProcess,  // Survives the end of the process.
  kPower,    // Survives a power cut: synced, some milliseconds.
};

// A reader sees the old contents or the new ones, never a mixture. The temporary name is "<path>.partial": one writer a
// path. The new file has the mode of results.
Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view contents,
                                   Durability durability = Durability::kPower);

// kInvalidArgument: the file is longer than `bytes_max`.
Result<std::string> read_file(const std::filesystem::path& path, size_t bytes_max);

// Puts the directory `from` where `to` is, which may exist already; what was at `to` is removed afterwards. Both lie in
// one directory.
Result<void> replace_directory(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace volador
