#include "experiments/metrics/metric_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <set>

#include "runtime/log.h"

namespace volador::experiments {
namespace {

constexpr size_t kSmallFile = size_t{16} << 10;  // Read at once.
constexpr size_t kLookBytes = 512;               // Most heads are shorter.
constexpr size_t kWindowBytes = size_t{8} << 10;
constexpr size_t kSearchBytes = size_t{64} << 10;

Result<void> read_at(int fd, uint64_t at, std::string& to, const std::filesystem::path& path) {
  size_t total = 0;
  while (total < to.size()) {
    const ssize_t count = pread(fd, to.data() + total, to.size() - total, static_cast<off_t>(at + total));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return make_error(file_error("read", path, errno));
    if (count == 0) break;
    total += static_cast<size_t>(count);
  }
  to.resize(total);
  return {};
}

}  // namespace

Result<void> MetricFile::open() {
  auto file = FileHandle::open(path_, O_RDONLY);
  if (!file) {
    if (file.error().code == ErrorCode::kNotFound) return {};
    return make_error(file.error());
  }
  file_ = std::move(*file);
  struct stat info {};
  if (fstat(file_.get(), &info) != 0) return make_error(file_error("read", path_, errno));
  size_ = static_cast<uint64_t>(info.st_size);
  if (size_ <= kSmallFile) {
    whole_.resize(size_);
    VOLADOR_TRY(read_at(file_.get(), 0, whole_, path_));
    size_ = whole_.size();
  }
  return find_blocks();
}

Result<std::string_view> MetricFile::look(uint64_t at, size_t size) {
  size = static_cast<size_t>(std::min<uint64_t>(size, size_ - at));
  if (size_ <= kSmallFile) return std::string_view(whole_).substr(at, size);
  if (at < window_at_ || at + size > window_at_ + window_.size()) {
    window_.resize(std::min<uint64_t>(std::max(size, kWindowBytes), size_ - at));
    window_at_ = at;
    VOLADOR_TRY(read_at(file_.get(), at, window_, path_));
  }
  return std::string_view(window_).substr(at - window_at_, size);
}

Result<uint64_t> MetricFile::next_magic(uint64_t at) {
  while (at < size_) {
    auto bytes = look(at, kSearchBytes);
    if (!bytes) return make_error(bytes.error());
    if (const size_t found = bytes->find(kBlockMagic); found != std::string_view::npos) return at + found;
    if (bytes->size() < kBlockMagic.size()) break;
    at += bytes->size() - (kBlockMagic.size() - 1);  // It may lie across the end.
    if (bytes->size() < kSearchBytes) break;
  }
  return size_;
}

Result<void> MetricFile::find_blocks() {
  for (uint64_t at = 0; at < size_;) {
    auto bytes = look(at, kLookBytes);
    if (bytes && block_head_bytes(*bytes) > bytes->size()) bytes = look(at, block_head_bytes(*bytes));
    if (!bytes) return make_error(bytes.error());
    auto head = read_block_head(*bytes);
    if (head && head->bytes <= size_ - at) {
      at += head->bytes;
      blocks_.push_back({at - head->bytes, std::move(*head)});
      continue;
    }
    report_damage(at);
    const auto next = next_magic(at + 1);
    if (!next) return make_error(next.error());
    at = *next;
  }
  return {};
}

std::optional<std::string_view> MetricFile::part(const Block& block, const BlockPart& part) {
  const uint64_t at = block.at + part.at;
  if (part.bytes == 0) return std::string_view{};
  const auto known = parts_.find(at);
  if (known != parts_.end()) return known->second;
  std::string_view bytes;
  if (size_ <= kSmallFile) {
    bytes = std::string_view(whole_).substr(at, part.bytes);
  } else {
    std::string& kept = read_.emplace_back(part.bytes, '\0');
    if (!read_at(file_.get(), at, kept, path_)) kept.clear();
    bytes = kept;
  }
  std::optional<std::string_view> intact;
  if (is_intact(part, bytes)) {
    intact = bytes;
  } else {
    report_damage(at);
  }
  parts_.emplace(at, intact);
  return intact;
}

void MetricFile::forget_parts() {
  parts_.clear();
  read_.clear();
}

void MetricFile::add_rows(const Block& block, int64_t last, MetricRows& rows) {
  const auto batches = part(block, block.head.part);
  if (!batches) return;
  std::vector<std::string_view> columns;
  for (const MetricColumn& column : block.head.columns) columns.push_back(part(block, column.part).value_or(""));
  experiments::add_rows(block.head, *batches, columns, last, rows);
}

void MetricFile::report_damage(uint64_t at) const {
  static std::mutex mutex;
  static std::set<std::string> reported;
  const std::lock_guard lock(mutex);
  if (reported.size() > 1000) reported.clear();
  if (reported.insert(path_.string()).second) {
    log::warn("metrics", "a part of a file of metrics is damaged and left out", {{"file", path_.string()}, {"at", at}});
  }
}

}  // namespace volador::experiments
