#include "runtime/storage/folder_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>

#include "runtime/files/durable_file.h"
#include "runtime/files/results_mode.h"

namespace volador::storage {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr size_t kPieceBytes = 1 << 20;
constexpr std::string_view kPartialSuffix = ".partial";  // File names during a write.
constexpr int64_t kIncludedBytesMin = 64 << 20;          // Reports and limits are looked at after so many bytes.

// Follows one call: its end, its time, its progress.
class Follower {
 public:
  Follower(const StorageCall& call, std::string what)
      : call_(call), what_(std::move(what)), begin_(steady_clock::now()) {}

  void arrived(const std::string& file) {
    if (call_.on_file) call_.on_file(file);
  }
  void expect(int64_t bytes) { progress_.total_bytes += bytes; }
  Result<void> advance(int64_t bytes) {
    progress_.bytes += bytes;
    if (call_.stop.stop_requested()) return make_error(ErrorCode::kCancelled, fmt::format("cancelled: {}", what_));
    const auto now = steady_clock::now();
    if (call_.time_limit.count() > 0 && now - begin_ > call_.time_limit)
      return make_error(
          ErrorCode::kTimeout,
          fmt::format("cannot {} within the time limit; raise it, or repeat the call, which copies what is "
                      "missing",
                      what_));
    if (call_.on_progress && (now - told_ >= std::chrono::seconds(1) || progress_.bytes == progress_.total_bytes)) {
      told_ = now;
      call_.on_progress(progress_);
    }
    return {};
  }

 private:
  const StorageCall& call_;
  const std::string what_;
  const steady_clock::time_point begin_;
  steady_clock::time_point told_{};
  StorageProgress progress_;
};

int64_t size_of(const fs::path& path) {
  std::error_code code;
  const auto size = fs::file_size(path, code);
  return code ? -1 : static_cast<int64_t>(size);
}

// Whether two files have the same bytes.
Result<bool> same_contents(const fs::path& left, const fs::path& right, Follower& follower) {
  const int64_t size = size_of(left);
  if (size < 0 || size != size_of(right)) return false;
  auto a = FileHandle::open(left, O_RDONLY), b = FileHandle::open(right, O_RDONLY);
  if (!a || !b) return false;
  std::string one(kPieceBytes, '\0'), other(kPieceBytes, '\0');
  for (;;) {
    const auto count = read_some(a->get(), one.data(), one.size(), left);
    const auto same = read_some(b->get(), other.data(), other.size(), right);
    if (!count || !same || *count != *same) return false;
    if (*count == 0) return true;
    if (!std::equal(one.begin(), one.begin() + static_cast<ptrdiff_t>(*count), other.begin())) return false;
    VOLADOR_TRY(follower.advance(0));
  }
}

// Copies the bytes that `from` has at the start. The target appears with all of them, or not at all.
Result<void> copy_whole(const fs::path& from, const fs::path& to, bool durable, Follower& follower) {
  auto source = FileHandle::open(from, O_RDONLY);
  if (!source) return make_error(source.error());
  struct stat info {};
  if (::fstat(source->get(), &info) != 0) return make_error(file_error("read", from, errno));
  const fs::path partial = to.string() + std::string(kPartialSuffix);
  const auto write = [&]() -> Result<void> {
    auto target = FileHandle::open(partial, O_WRONLY | O_CREAT | O_TRUNC);
    if (!target) return make_error(target.error());
    std::string piece;
    for (int64_t left = info.st_size; left > 0;) {
      // The kernel copies, and shares the blocks where the file system can.
      const ssize_t count = ::copy_file_range(source->get(), nullptr, target->get(), nullptr,
                                              static_cast<size_t>(std::min<int64_t>(left, kIncludedBytesMin)), 0);
      if (count < 0 && errno == EINTR) continue;
      int64_t moved = count;
      if (count < 0) {
        if (errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
          return make_error(file_error("write", partial, errno));
        piece.resize(kPieceBytes);
        const auto got =
            read_some(source->get(), piece.data(), static_cast<size_t>(std::min<int64_t>(left, kPieceBytes)), from);
        if (!got) return make_error(got.error());
        VOLADOR_TRY(write_all(target->get(), std::string_view(piece).substr(0, *got), partial));
        moved = static_cast<int64_t>(*got);
      }
      if (moved == 0)
        return make_error(
            ErrorCode::kInvalidArgument,
            fmt::format("{}: it became shorter while it was read; store the folder when nothing writes to it",
                        from.string()));
      left -= moved;
      VOLADOR_TRY(follower.advance(moved));
    }
    // Starts to write to the disk, and does not wait: copy_all() waits for all files.
    if (durable) ::sync_file_range(target->get(), 0, 0, SYNC_FILE_RANGE_WRITE);
    return {};
  };
  auto written = write();
  std::error_code code;
  if (written) {
    fs::rename(partial, to, code);
    if (!code) return {};
    written = make_error(file_error("write", to, code.value()));
  }
  fs::remove(partial, code);
  return written;
}

Result<void> copy_all(const fs::path& from, const std::vector<std::string>& files, const fs::path& to, bool durable,
                      bool absent_is_fine, Follower& follower) {
  for (const std::string& file : files) {
    VOLADOR_TRY(check_key("name of a file", file));
    follower.expect(std::max<int64_t>(0, size_of(from / file)));
  }
  fs::path last;
  std::vector<fs::path> written;
  for (const std::string& file : files) {
    const fs::path source = from / file, target = to / file;
    if (absent_is_fine && size_of(source) < 0) continue;
    if (target.parent_path() != last) VOLADOR_TRY(make_results_directory(target.parent_path()));
    last = target.parent_path();
    const auto same = same_contents(source, target, follower);
    if (!same) return make_error(same.error());
    if (*same) {
      VOLADOR_TRY(follower.advance(size_of(source)));
      follower.arrived(file);
      continue;
    }
    VOLADOR_TRY(copy_whole(source, target, durable, follower));
    if (durable) written.push_back(target);
    follower.arrived(file);
  }
  last.clear();
  for (const fs::path& path : written) {
    const auto file = FileHandle::open(path, O_RDONLY);
    if (!file) return make_error(file.error());
    VOLADOR_TRY(sync_file(file->get(), path));
    if (path.parent_path() != last) VOLADOR_TRY(sync_directory(path.parent_path()));
    last = path.parent_path();
    VOLADOR_TRY(follower.advance(0));
  }
  return {};
}

class LocalPieces final : public FilePieces {
 public:
  LocalPieces(FileHandle file, fs::path path, int64_t bytes)
      : file_(std::move(file)), path_(std::move(path)), bytes_(bytes), left_(bytes) {}
  std::optional<uint64_t> length() const override { return static_cast<uint64_t>(bytes_); }
  Result<std::string> next() override {
    std::string piece(static_cast<size_t>(std::min<int64_t>(left_, FilePieces::kPieceBytes)), '\0');
    const auto count = read_some(file_.get(), piece.data(), piece.size(), path_);
    if (!count) return make_error(count.error());
    if (*count != piece.size())
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("{}: it is shorter than its manifest says", path_.string()));
    left_ -= static_cast<int64_t>(*count);
    return piece;
  }

 private:
  FileHandle file_;
  const fs::path path_;
  const int64_t bytes_;
  int64_t left_;
};

}  // namespace

Result<std::vector<StoredObject>> FolderStore::list(const std::string& key, const StorageCall& call) {
  std::vector<StoredObject> objects;
  const fs::path base = place(key);
  Follower follower(call, fmt::format("list {}", base.string()));
  std::error_code code;
  fs::recursive_directory_iterator at(base, code), end;
  if (code == std::errc::no_such_file_or_directory || code == std::errc::not_a_directory) return objects;
  for (; !code && at != end; at.increment(code)) {
    VOLADOR_TRY(follower.advance(0));
    std::error_code gone;
    if (at->is_symlink(gone) || !at->is_regular_file(gone)) continue;
    std::string path = at->path().lexically_relative(base).string();
    if (path.ends_with(kPartialSuffix)) continue;
    objects.push_back({std::move(path), std::max<int64_t>(0, size_of(at->path()))});
  }
  if (code) return make_error(file_error("list", base, code.value()));
  std::ranges::sort(objects, {}, &StoredObject::path);
  return objects;
}

Result<void> FolderStore::put(const fs::path& folder, const std::vector<std::string>& files, const std::string& key,
                              const StorageCall& call) {
  Follower follower(call, fmt::format("store {} in {}", folder.string(), place(key).string()));
  return copy_all(folder, files, place(key), true, true, follower);
}

Result<void> FolderStore::get(const std::string& key, const std::vector<std::string>& files, const fs::path& folder,
                              const StorageCall& call) {
  Follower follower(call, fmt::format("read {} into {}", place(key).string(), folder.string()));
  return copy_all(place(key), files, folder, false, true, follower);
}

Result<void> FolderStore::write(const std::string& key, std::string_view bytes, const StorageCall&) {
  VOLADOR_TRY(check_key("key", key));
  const fs::path path = place(key);
  VOLADOR_TRY(make_results_directory(path.parent_path()));
  return write_file_atomically(path, bytes);
}

Result<std::string> FolderStore::read(const std::string& key, size_t bytes_max, const StorageCall&) {
  VOLADOR_TRY(check_key("key", key));
  return read_file(place(key), bytes_max);
}

Result<std::unique_ptr<FilePieces>> FolderStore::open(const std::string& key, int64_t bytes, std::stop_token) {
  VOLADOR_TRY(check_key("key", key));
  auto file = FileHandle::open(place(key), O_RDONLY | O_NOFOLLOW);
  if (!file) return make_error(file.error());
  return std::make_unique<LocalPieces>(std::move(*file), place(key), bytes);
}

Result<void> FolderStore::remove(const std::string& key, const std::vector<std::string>& files, const StorageCall&) {
  const fs::path base = place(key);
  for (const std::string& file : files) {
    VOLADOR_TRY(check_key("name of a file", file));
    std::error_code code;
    fs::remove(base / file, code);
    if (code && code != std::errc::no_such_file_or_directory && code != std::errc::not_a_directory)
      return make_error(file_error("delete", base / file, code.value()));
    // Folders that are empty now go as well, as in an object store.
    for (fs::path parent = (base / file).parent_path(); parent != root_; parent = parent.parent_path()) {
      if (parent.string().size() <= root_.string().size() || !fs::remove(parent, code) || code) break;
    }
  }
  return {};
}

}  // namespace volador::storage
