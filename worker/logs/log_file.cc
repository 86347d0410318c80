#include "worker/logs/log_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
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
  std::ifstream in(path_, std::ios::binary);  // From an earlier worker.
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
  // If it is unreadable, counting starts at the newest file.
  if (file) (void)!::write(file.get(), text.data(), text.size());
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

// Returns the number of bytes of whole lines that fit; a line longer than a file gets its own file.
size_t LogFile::part_that_fits(std::string_view lines) const {
  const size_t room = size_ < limits_.file_bytes_max ? limits_.file_bytes_max - size_ : 0;
  if (lines.size() <= room) return lines.size();
  const size_t last_end = room == 0 ? std::string_view::npos : lines.rfind('\n', room - 1);
  if (last_end != std::string_view::npos) return last_end + 1;
  return size_ > 0 ? 0 : lines.find('\n') + 1;
}

void LogFile::write(std::string_view lines) {
  while (!lines.empty()) {
    if (!fd_) open();
    if (fd_ && part_that_fits(lines) == 0) {
      rotate();
      open();
    }
    if (!fd_) return;
    const size_t fits = part_that_fits(lines);
    // If the folder is not writable, the current file is kept.
    const std::string_view part = lines.substr(0, fits > 0 ? fits : lines.find('\n') + 1);
    lines.remove_prefix(part.size());
    const ssize_t written = ::write(fd_.get(), part.data(), part.size());
    if (written < 0) return complain("write it", errno);
    size_ += static_cast<size_t>(written);
    lines_ += std::count(part.begin(), part.begin() + written, '\n');
  }
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
