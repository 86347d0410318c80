#include "worker/store/spill_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/crc32c.h"
#include "runtime/paths.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

std::string name_prefix(NodeId node) { return "volador-spill-" + short_id(node) + "-"; }

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool lies_in_memory(const struct statfs& info) { return info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC; }

// Fallback for file systems without O_TMPFILE: creates a named file and unlinks it at once.
net::UniqueFd open_nameless(const fs::path& folder, NodeId node) {
  net::UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600));
  if (fd) return fd;
  std::string name = (folder / (name_prefix(node) + "XXXXXX")).string();
  fd.reset(::mkostemp(name.data(), O_CLOEXEC));
  if (fd) ::unlink(name.c_str());
  return fd;
}

}  // namespace

Result<std::unique_ptr<SpillFile>> SpillFile::create(const fs::path& folder, NodeId node) {
  std::error_code failed;
  const bool made = fs::create_directories(folder, failed);
  if (made) fs::permissions(folder, fs::perms::owner_all, failed);
  remove_spill_leftovers(folder, node);
  auto fd = open_nameless(folder, node);
  if (!fd) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "object_spill_directory: no file can be made in {}: {}; name a folder that this user may write to, or set "
            "--object-spill-limit=0 to spill nothing",
            folder.string(), std::strerror(errno)));
  }
  return std::unique_ptr<SpillFile>(new SpillFile(folder, std::move(fd)));
}

Result<SpillSums> SpillFile::write(int64_t offset, std::span<const std::byte> bytes,
                                   const std::function<void()>& progress) const {
  auto sums = std::make_shared<std::vector<uint32_t>>();
  size_t done = 0;
  while (done < bytes.size()) {
    const auto chunk = bytes.subspan(done, std::min(bytes.size() - done, static_cast<size_t>(kSpillChunkBytes)));
    sums->push_back(crc32c(text(chunk)));
    for (size_t written = 0; written < chunk.size();) {
      const ssize_t now = ::pwrite(fd_.get(), chunk.data() + written, chunk.size() - written,
                                   static_cast<off_t>(offset) + static_cast<off_t>(done + written));
      if (now < 0 && errno == EINTR) continue;
      if (now <= 0) {
        const int why = now == 0 ? ENOSPC : errno;
        discard(offset, static_cast<int64_t>(bytes.size()));
        return make_error(ErrorCode::kUnavailable,
                          fmt::format("spilling to {}: {}", folder_.string(), std::strerror(why)));
      }
      written += static_cast<size_t>(now);
    }
    done += chunk.size();
    if (progress) progress();
  }
  return SpillSums(std::move(sums));
}

Result<void> SpillFile::read_chunk(int64_t offset, std::span<std::byte> into, uint32_t sum) const {
  for (size_t done = 0; done < into.size();) {
    const ssize_t now = ::pread(fd_.get(), into.data() + done, into.size() - done,
                                static_cast<off_t>(offset) + static_cast<off_t>(done));
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) {
      return make_error(ErrorCode::kObjectLost, fmt::format("the spill file in {} cannot be read: {}", folder_.string(),
                                                            now == 0 ? "it is too short" : std::strerror(errno)));
    }
    done += static_cast<size_t>(now);
  }
  if (crc32c(text(into)) == sum) return {};
  return make_error(ErrorCode::kObjectLost,
                    fmt::format("the spill file in {} is damaged: a checksum does not agree; look after that disk",
                                folder_.string()));
}

Result<void> SpillFile::read(int64_t offset, int64_t bytes, const std::vector<uint32_t>& sums, int64_t from,
                             std::span<std::byte> into) const {
  std::vector<std::byte> whole;  // Buffer for a chunk that is read partially.
  const int64_t end = from + static_cast<int64_t>(into.size());
  for (int64_t at = from; at < end;) {
    const int64_t chunk = at / kSpillChunkBytes;
    const int64_t begin = chunk * kSpillChunkBytes;
    const int64_t size = std::min(kSpillChunkBytes, bytes - begin);
    if (size <= 0 || static_cast<size_t>(chunk) >= sums.size())
      return make_error(ErrorCode::kObjectLost, "the spill file holds less than is asked for");
    const int64_t wanted = std::min(end, begin + size) - at;
    const auto part = into.subspan(static_cast<size_t>(at - from), static_cast<size_t>(wanted));
    if (wanted == size) {
      VOLADOR_TRY(read_chunk(offset + begin, part, sums[static_cast<size_t>(chunk)]));
    } else {
      whole.resize(static_cast<size_t>(size));
      VOLADOR_TRY(read_chunk(offset + begin, whole, sums[static_cast<size_t>(chunk)]));
      std::memcpy(part.data(), whole.data() + (at - begin), part.size());
    }
    at += wanted;
  }
  return {};
}

void SpillFile::discard(int64_t offset, int64_t bytes) const {
  [[maybe_unused]] const int ignored = ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                                   static_cast<off_t>(offset), static_cast<off_t>(bytes));
}

bool SpillFile::is_in_memory() const {
  struct statfs info {};
  return ::fstatfs(fd_.get(), &info) == 0 && lies_in_memory(info);
}

fs::path spill_folder(const fs::path& preferred) {
  (void)make_private_directory(preferred);  // Errors are reported when the first file is created in it.
  struct statfs info {};
  const fs::path other = "/var/tmp";
  if (::statfs(preferred.c_str(), &info) != 0 || !lies_in_memory(info) || ::access(other.c_str(), W_OK) != 0)
    return preferred;
  return ::statfs(other.c_str(), &info) == 0 && !lies_in_memory(info) ? other : preferred;
}

int64_t free_bytes_of(const fs::path& folder) {
  fs::path known = folder;  // The folder may be created later.
  std::error_code ignored;
  while (!known.empty() && !fs::exists(known, ignored) && known != known.parent_path()) known = known.parent_path();
  struct statfs info {};
  if (::statfs(known.c_str(), &info) != 0) return 0;
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_bsize);
}

void remove_spill_leftovers(const fs::path& folder, NodeId node) {
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    std::error_code ignored;
    if (entry->path().filename().string().starts_with(name_prefix(node))) fs::remove(entry->path(), ignored);
  }
}

}  // namespace volador::worker
