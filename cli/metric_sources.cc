#include "cli/metric_sources.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <system_error>
#include <utility>

namespace volador::cli {
namespace {

namespace fs = std::filesystem;
using experiments::katib::EventScalar;
using experiments::katib::MetricPoint;

constexpr size_t kPieceBytes = 256 << 10;
constexpr size_t kEventFilesMax = 1000;

}  // namespace

GrowingFile::GrowingFile(fs::path path, bool skip) : path_(std::move(path)) {
  if (!skip) return;
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  file_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  device_ = info.st_dev;
  inode_ = info.st_ino;
  offset_ = info.st_size;
}

void GrowingFile::read_rest(const std::function<void(std::string_view)>& found) {
  std::string piece(kPieceBytes, '\0');
  while (file_) {
    const ssize_t got = ::pread(file_.get(), piece.data(), piece.size(), offset_);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    offset_ += got;
    found(std::string_view(piece).substr(0, static_cast<size_t>(got)));
  }
}

void GrowingFile::read(const std::function<void(std::string_view)>& found) {
  struct stat info {};
  const bool exists = ::stat(path_.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  if (exists && file_ && (info.st_dev != device_ || info.st_ino != inode_)) {
    read_rest(found);  // The end of the file that was moved away.
    file_.reset();
    if (on_new) on_new();
  }
  if (exists && !file_) {
    file_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    device_ = info.st_dev;
    inode_ = info.st_ino;
    offset_ = 0;
  }
  if (exists && info.st_size < offset_) {
    offset_ = 0;
    if (on_new) on_new();
  }
  read_rest(found);
}

EventFolder::EventFolder(fs::path folder, std::vector<std::string> metrics, bool as_katib, bool skip)
    : folder_(std::move(folder)), metrics_(std::move(metrics)), as_katib_(as_katib) {
  if (!skip) return;
  for (const fs::path& path : files()) files_[path];
}

std::vector<fs::path> EventFolder::files() const {
  std::vector<fs::path> found;
  std::error_code failed;
  fs::recursive_directory_iterator entries(folder_, fs::directory_options::skip_permission_denied, failed), end;
  for (; !failed && entries != end && found.size() < kEventFilesMax; entries.increment(failed)) {
    std::error_code ignored;
    if (!entries->is_regular_file(ignored)) continue;
    if (entries->path().filename().string().find("tfevents") != std::string::npos) found.push_back(entries->path());
  }
  return found;
}

std::vector<std::string> EventFolder::read(const Found& found) {
  std::vector<std::string> wrong;
  for (const fs::path& path : files()) {
    const auto [at, is_new] = files_.try_emplace(path);
    File& file = at->second;
    if (is_new) file.bytes = std::make_unique<GrowingFile>(path, /*skip=*/false);
    if (!file.bytes || file.is_broken) continue;
    const std::string parent = path.parent_path().string();
    const auto on_scalar = [&](const EventScalar& scalar) {
      for (std::string& metric : experiments::katib::metrics_of_tag(scalar.tag, parent, metrics_, as_katib_)) {
        MetricPoint point{.metric = std::move(metric), .value = scalar.value, .time_ns = {}};
        if (scalar.seconds > 0 && scalar.seconds < 9e9)
          point.time_ns = static_cast<int64_t>(std::llround(scalar.seconds * 1e6)) * 1000;
        found({std::move(point)});
      }
    };
    file.bytes->read([&](std::string_view bytes) {
      if (file.is_broken) return;
      if (auto fed = file.events.feed(bytes, on_scalar); !fed) {
        file.is_broken = true;
        wrong.push_back(path.string() + ": " + fed.error().message);
      }
    });
  }
  return wrong;
}

}  // namespace volador::cli
