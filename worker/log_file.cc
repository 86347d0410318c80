#include "worker/log_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "runtime/log.h"

namespace volador::worker {

namespace fs = std::filesystem;

LogFile::LogFile(fs::path path, LogFileLimits limits) : path_(std::move(path)), limits_(limits) {}

void LogFile::complain(std::string_view what, int error_number) {
  if (complained_) return;
  complained_ = true;
  log::warn("worker", "output of an actor is lost",
            {{"file", path_.string()}, {"cannot", what}, {"reason", std::strerror(error_number)}});
}

void LogFile::open() {
  fd_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd_) return complain("open it", errno);
  struct stat info {};
  size_ = ::fstat(fd_.get(), &info) == 0 ? static_cast<size_t>(info.st_size) : 0;
  if (size_ == 0) return;
  std::ifstream in(path_, std::ios::binary);  // Of a worker before this one.
  lines_ = std::count(std::istreambuf_iterator<char>(in), {}, '\n');
  lines_before_ = read_lines_before(path_);
}

fs::path lines_before_path(const fs::path& log) { return log.string() + ".before"; }

int64_t read_lines_before(const fs::path& log) {
  int64_t lines = 0;
  std::ifstream(lines_before_path(log)) >> lines;
  return std::max<int64_t>(lines, 0);
}

void LogFile::note_lines_before() const {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
  const net::UniqueFd file(::open(lines_before_path(path_).c_str(), flags, 0600));
  const std::string text = fmt::format("{}\n", lines_before_);
  if (file) (void)!::write(file.get(), text.data(), text.size());  // Unreadable, the count begins at the newest file.
}

void LogFile::rotate() {
  fd_.reset();
  std::error_code ignored;
  for (int i = limits_.files_max - 1; i >= 1; --i) {
    const fs::path from = i == 1 ? path_ : fs::path(fmt::format("{}.{}", path_.string(), i - 1));
    fs::rename(from, fmt::format("{}.{}", path_.string(), i), ignored);
  }
  if (limits_.files_max <= 1) fs::remove(path_, ignored);
  lines_before_ += std::exchange(lines_, 0);
  note_lines_before();
}

void LogFile::write_line(std::string_view line) {
  if (!fd_) open();
  if (!fd_) return;
  if (size_ > 0 && size_ + line.size() + 1 > limits_.file_bytes_max) {
    rotate();
    open();
    if (!fd_) return;
  }
  char end = '\n';
  const iovec parts[2] = {{const_cast<char*>(line.data()), line.size()}, {&end, 1}};
  const ssize_t written = ::writev(fd_.get(), parts, 2);
  if (written < 0) return complain("write it", errno);
  size_ += static_cast<size_t>(written);
  ++lines_;
}

size_t prune_logs(const fs::path& folder, uint64_t bytes_max, size_t files_max) {
  struct Entry {
    fs::path path;
    fs::file_time_type written;
    uint64_t bytes;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    if (!item.is_regular_file(error)) continue;
    Entry entry{item.path(), item.last_write_time(error), item.file_size(error)};
    if (error) continue;
    total += entry.bytes;
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.written < b.written; });
  size_t removed = 0;
  size_t left = entries.size();
  for (const Entry& entry : entries) {
    if (total <= bytes_max && left <= files_max) break;
    if (fs::remove(entry.path, error)) ++removed;
    total -= entry.bytes;
    --left;
  }
  return removed;
}

}  // namespace volador::worker
