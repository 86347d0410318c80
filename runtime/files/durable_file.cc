#include "runtime/files/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/files/results_mode.h"

namespace volador {

namespace fs = std::filesystem;

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

Result<FileHandle> FileHandle::open(const fs::path& path, int flags, std::optional<unsigned> mode) {
  if ((flags & O_CREAT) != 0 && !mode) {
    const auto& results = results_mode();
    if (!results) return make_error(results.error());
    mode = results->file;
  }
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode.value_or(0));
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return make_error(file_error((flags & O_ACCMODE) == O_RDONLY ? "read" : "write", path, errno));
  return FileHandle(fd);
}

int FileHandle::release() { return std::exchange(fd_, -1); }

void FileHandle::close() {
  if (fd_ >= 0) ::close(release());
}

Result<void> write_all(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return make_error(file_error("write", path, errno));
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

Result<size_t> read_some(int fd, char* out, size_t size, const fs::path& path) {
  size_t total = 0;
  while (total < size) {
    const ssize_t count = ::read(fd, out + total, size - total);
    if (count < 0) {
      if (errno == EINTR) continue;
      return make_error(file_error("read", path, errno));
    }
    if (count == 0) break;
    total += static_cast<size_t>(count);
  }
  return total;
}

Result<void> sync_file(int fd, const fs::path& path) {
  if (::fsync(fd) != 0) return make_error(file_error("sync", path, errno));
  return {};
}

Result<void> sync_directory(const fs::path& directory) {
  auto handle = FileHandle::open(directory, O_RDONLY | O_DIRECTORY);
  if (!handle) return make_error(handle.error());
  return sync_file(handle->get(), directory);
}

Result<void> write_file_atomically(const fs::path& path, std::string_view contents, Durability durability) {
  fs::path partial = path;
  partial += ".partial";
  const auto write = [&]() -> Result<void> {
    auto handle = FileHandle::open(partial, O_WRONLY | O_CREAT | O_TRUNC);
    if (!handle) return make_error(handle.error());
    VOLADOR_TRY(write_all(handle->get(), contents, path));
    if (durability == Durability::kPower) VOLADOR_TRY(sync_file(handle->get(), path));
    if (::rename(partial.c_str(), path.c_str()) != 0) return make_error(file_error("write", path, errno));
    return {};
  };
  if (auto written = write(); !written) {
    ::unlink(partial.c_str());
    return written;
  }
  if (durability == Durability::kProcess) return {};
  return sync_directory(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

Result<std::string> read_file(const fs::path& path, size_t bytes_max) {
  auto handle = FileHandle::open(path, O_RDONLY);
  if (!handle) return make_error(handle.error());
  struct stat info {};
  if (fstat(handle->get(), &info) != 0) return make_error(file_error("read", path, errno));
  if (static_cast<size_t>(info.st_size) > bytes_max) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: expected at most {} bytes, it has {}", path.string(), bytes_max, info.st_size));
  }
  std::string contents(static_cast<size_t>(info.st_size), '\0');
  auto count = read_some(handle->get(), contents.data(), contents.size(), path);
  if (!count) return make_error(count.error());
  contents.resize(*count);
  return contents;
}

Result<void> replace_directory(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) return make_error(file_error("write", to, errno));
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
      // The file system cannot exchange names: for a moment neither exists, which readers treat as "not there".
      fs::path aside = from;
      aside += ".replaced";
      if (::rename(to.c_str(), aside.c_str()) != 0) return make_error(file_error("write", to, errno));
      if (::rename(from.c_str(), to.c_str()) != 0) {
        const int number = errno;
        (void)::rename(aside.c_str(), to.c_str());
        return make_error(file_error("write", to, number));
      }
      std::error_code ignored;
      fs::remove_all(aside, ignored);
    } else {
      std::error_code ignored;
      fs::remove_all(from, ignored);
    }
  }
  return sync_directory(to.has_parent_path() ? to.parent_path() : fs::path("."));
}

}  // namespace volador
