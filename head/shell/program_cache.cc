#include "head/shell/program_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/paths.h"
#include "runtime/quantities.h"
#include "runtime/resources.h"
#include "runtime/text.h"

namespace volador::head {
namespace {

constexpr size_t kHashBytes = 32;
constexpr std::string_view kUnfinished = ".part";

// The 32 bytes of a file name of 64 hex digits; empty: not such a name.
std::string hash_of_name(const std::string& name) {
  std::string out;
  if (name.size() != 2 * kHashBytes || name.find_first_not_of("0123456789abcdef") != name.npos) return out;
  for (size_t i = 0; i < name.size(); i += 2) out += static_cast<char>(std::stoi(name.substr(i, 2), nullptr, 16));
  return out;
}

}  // namespace

std::string program_name(const std::string& sha256) { return "sha256:" + hex_text(sha256).substr(0, 8) + "…"; }

Result<std::unique_ptr<ProgramCache>> ProgramCache::open(std::filesystem::path folder,
                                                         const ProgramCacheLimits& limits) {
  VOLADOR_TRY(make_private_directory(folder));
  std::unique_ptr<ProgramCache> cache(new ProgramCache(std::move(folder), limits));
  std::vector<std::pair<std::filesystem::file_time_type, std::string>> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(cache->folder_, ignored)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(kUnfinished)) {
      std::filesystem::remove(entry.path(), ignored);
    } else if (std::string sha256 = hash_of_name(name); !sha256.empty() && entry.is_regular_file(ignored)) {
      found.emplace_back(entry.last_write_time(ignored), std::move(sha256));
    }
  }
  std::sort(found.begin(), found.end());
  for (const auto& [time, sha256] : found)
    cache->insert(sha256, static_cast<int64_t>(std::filesystem::file_size(cache->path_of(sha256), ignored)));
  return cache;
}

std::filesystem::path ProgramCache::path_of(const std::string& sha256) const { return folder_ / hex_text(sha256); }

void ProgramCache::insert(const std::string& sha256, int64_t bytes) {
  auto [entry, is_new] = entries_.try_emplace(sha256);
  if (!is_new) return;
  entry->second = {.bytes = bytes, .order = order_.insert(order_.end(), sha256)};
  bytes_ += bytes;
}

std::optional<std::filesystem::path> ProgramCache::find(const std::string& sha256) {
  const auto found = entries_.find(sha256);
  if (found == entries_.end()) return std::nullopt;
  std::error_code ignored;
  const auto path = path_of(sha256);
  if (!std::filesystem::exists(path, ignored)) {  // The file was deleted externally.
    bytes_ -= found->second.bytes;
    order_.erase(found->second.order);
    entries_.erase(found);
    return std::nullopt;
  }
  order_.splice(order_.end(), order_, found->second.order);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now(), ignored);
  return path;
}

Result<std::unique_ptr<ProgramCache::Upload>> ProgramCache::begin(const std::string& sha256, int64_t size,
                                                                  const InUse& in_use) {
  if (sha256.size() != kHashBytes) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("program: a hash of {}; expected SHA-256 ({})",
                                                               counted(sha256.size(), "byte"), kHashBytes));
  }
  if (size <= 0 || size > limits_.program_bytes) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("program {}: {} bytes; expected 1 to {} ({}). Strip debug information, or load large data at "
                    "run time.",
                    program_name(sha256), size, limits_.program_bytes, format_bytes(limits_.program_bytes)));
  }
  if (uploads_ >= limits_.uploads) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{} being uploaded, the most at a time; try again in a moment",
                                  counted(uploads_, "program is", "programs are")));
  }
  for (auto oldest = order_.begin(); bytes_ + size > limits_.bytes && oldest != order_.end();) {
    const std::string victim = *oldest++;
    if (in_use(victim)) continue;
    std::error_code ignored;
    std::filesystem::remove(path_of(victim), ignored);
    const auto entry = entries_.find(victim);
    bytes_ -= entry->second.bytes;
    order_.erase(entry->second.order);
    entries_.erase(entry);
  }
  if (bytes_ + size > limits_.bytes) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("program {}: {} not fit beside the {} of programs in use; the head keeps at most {}",
                                  program_name(sha256), counted(size, "byte does", "bytes do"), counted(bytes_, "byte"),
                                  limits_.bytes));
  }
  const auto temporary = folder_ / fmt::format("{}.{}{}", hex_text(sha256), next_upload_++, kUnfinished);
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return make_error(file_error("create", temporary, errno));
  return std::unique_ptr<Upload>(new Upload(*this, sha256, size, temporary, fd));
}

ProgramCache::Upload::Upload(ProgramCache& cache, std::string sha256, int64_t size, std::filesystem::path temporary,
                             int fd)
    : cache_(cache), sha256_(std::move(sha256)), size_(size), temporary_(std::move(temporary)), fd_(fd) {
  ++cache_.uploads_;
  cache_.bytes_ += size_;
}

ProgramCache::Upload::~Upload() {
  --cache_.uploads_;
  cache_.bytes_ -= size_;
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Result<void> ProgramCache::Upload::write(int64_t offset, std::string_view bytes) {
  if (offset != written_ || written_ + static_cast<int64_t>(bytes.size()) > size_) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("program {}: a piece of {} at {}; expected it at {} and within {}",
                                  program_name(sha256_), counted(bytes.size(), "byte"), offset, written_, size_));
  }
  hash_.update(bytes);
  written_ += static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return make_error(file_error("write", temporary_, errno));
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return {};
}

Result<void> ProgramCache::Upload::finish() {
  if (written_ != size_) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("program {}: ended after {} of {}", program_name(sha256_), written_, counted(size_, "byte")));
  }
  if (security::raw(hash_.finish()) != sha256_) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("program {}: its content has another hash; it was changed while it was read",
                                  program_name(sha256_)));
  }
  const auto path = cache_.path_of(sha256_);
  if (fchmod(fd_, 0700) != 0 || rename(temporary_.c_str(), path.c_str()) != 0)
    return make_error(file_error("rename", temporary_, errno));
  temporary_.clear();
  cache_.insert(sha256_, size_);
  return {};
}

}  // namespace volador::head
