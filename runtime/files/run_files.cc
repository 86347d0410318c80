#include "runtime/files/run_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "runtime/files/archive_tar.h"
#include "runtime/files/directory_parts.h"
#include "runtime/net/unique_fd.h"

namespace volador {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCheckpoint = "checkpoint_";
constexpr const char* kJournal = "journal.vlj";  // Present in every run.

// Whether the name is a visible single path component; files being written have a leading dot.
bool is_plain_name(std::string_view name) {
  const bool printable = std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; });
  return !name.empty() && name.size() <= 255 && name.front() != '.' && printable &&
         name.find('/') == std::string_view::npos;
}

bool names_checkpoint(std::string_view name) {
  if (!name.starts_with(kCheckpoint) || name.size() == kCheckpoint.size()) return false;
  const std::string_view step = name.substr(kCheckpoint.size());
  return std::all_of(step.begin(), step.end(), [](char c) { return c >= '0' && c <= '9'; });
}

tl::unexpected<Error> trouble(const fs::path& path, int error) {
  const auto code = error == EACCES || error == EPERM                       ? ErrorCode::kPermissionDenied
                    : error == ENOENT || error == ENOTDIR || error == ELOOP ? ErrorCode::kNotFound
                                                                            : ErrorCode::kUnavailable;
  return make_error(code, fmt::format("{}: {}", path.string(), std::strerror(error)));
}

// Returns the name of the trial's folder by its id; empty: none. Ids have eight hex digits; shorter ones are not
// searched.
std::string folder_named_after(int parent, const std::string& id) {
  constexpr size_t kIdSize = 8;
  if (id.size() != kIdSize || id.find_first_not_of("0123456789abcdef") != std::string::npos) return {};
  DIR* const listing = ::fdopendir(::openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (listing == nullptr) return {};
  std::string found;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string_view name = entry->d_name;
    if (name.find(id) == std::string_view::npos || !is_plain_name(entry->d_name)) continue;
    struct stat info {};
    if (::fstatat(parent, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(info.st_mode)) continue;
    found = name;
    break;
  }
  ::closedir(listing);
  return found;
}

Result<net::UniqueFd> open_folder(const fs::path& directory, const std::string& trial) {
  if (!directory.is_absolute()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("\"{}\": the directory of a run is an absolute path", directory.string()));
  }
  net::UniqueFd folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return trouble(directory, errno);
  // The program reports the folder's path: require a journal, so that no other folder (with keys, for example) is
  // exposed.
  struct stat journal {};
  if (::fstatat(folder.get(), kJournal, &journal, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(journal.st_mode)) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{} holds no run: {} is missing there", directory.string(), kJournal));
  }
  if (trial.empty()) return folder;
  if (!is_plain_name(trial))
    return make_error(ErrorCode::kInvalidArgument, fmt::format("trial \"{}\": no id of a trial", trial));
  net::UniqueFd inner(::openat(folder.get(), trial.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!inner && errno == ENOENT) {
    // A run may name its trials' folders (.trial_folder); the names contain the id.
    const std::string named = folder_named_after(folder.get(), trial);
    if (!named.empty())
      inner = net::UniqueFd(::openat(folder.get(), named.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    else
      errno = ENOENT;
  }
  if (!inner) return trouble(directory / trial, errno);
  return inner;
}

// Opens a regular file; rejects files that block on open.
Result<net::UniqueFd> open_file(int folder, const std::string& name, const fs::path& shown, struct stat& info) {
  net::UniqueFd file(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return trouble(shown, errno);
  if (::fstat(file.get(), &info) != 0) return trouble(shown, errno);
  if (!S_ISREG(info.st_mode))
    return make_error(ErrorCode::kNotFound, fmt::format("{}: no regular file", shown.string()));
  return file;
}

int64_t modified_ms(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000;
}

// Reads the length at the time of opening: a journal may grow meanwhile.
class PlainPieces final : public FilePieces {
 public:
  PlainPieces(net::UniqueFd file, uint64_t bytes) : file_(std::move(file)), left_(bytes), length_(bytes) {}
  std::optional<uint64_t> length() const override { return length_; }
  Result<std::string> next() override {
    std::string piece(static_cast<size_t>(std::min<uint64_t>(left_, kPieceBytes)), '\0');
    const ssize_t got = piece.empty() ? 0 : ::read(file_.get(), piece.data(), piece.size());
    if (got < 0) return make_error(ErrorCode::kUnavailable, std::strerror(errno));
    if (got == 0 && left_ > 0) return make_error(ErrorCode::kUnavailable, "the file became shorter while it was read");
    piece.resize(static_cast<size_t>(got));
    left_ -= static_cast<uint64_t>(got);
    return piece;
  }

 private:
  net::UniqueFd file_;
  uint64_t left_;
  const uint64_t length_;
};

class TarPieces final : public FilePieces {
 public:
  TarPieces(std::vector<net::UniqueFd> archives, ArchiveTar tar)
      : archives_(std::move(archives)), tar_(std::move(tar)) {}
  Result<std::string> next() override { return tar_.next(); }

 private:
  const std::vector<net::UniqueFd> archives_;  // Kept open while they are read.
  ArchiveTar tar_;
};

fs::path at_descriptor(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

std::string content_type_of(std::string_view name) {
  if (name.ends_with(".json")) return "application/json";
  if (name.ends_with(".csv")) return "text/csv; charset=utf-8";
  if (name.ends_with(".yaml") || name.ends_with(".txt") || name.ends_with(".diff")) return "text/plain; charset=utf-8";
  return "application/octet-stream";
}

// Returns a checkpoint's archives in unpacking order.
std::vector<std::string> archives_of(int checkpoint) {
  std::vector<std::string> names;
  for (const fs::path& path : parts_in(at_descriptor(checkpoint))) names.push_back(path.filename().string());
  return names;
}

std::optional<RunFiles::Entry> entry_of(int folder, const std::string& name) {
  struct stat info {};
  if (!is_plain_name(name) || ::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  if (S_ISREG(info.st_mode))
    return RunFiles::Entry{.name = name, .kind = "file", .bytes = info.st_size, .modified_ms = modified_ms(info)};
  if (!S_ISDIR(info.st_mode) || !names_checkpoint(name)) return std::nullopt;
  const net::UniqueFd checkpoint(::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!checkpoint) return std::nullopt;
  RunFiles::Entry entry{.name = name, .kind = "checkpoint", .bytes = 0, .modified_ms = 0};
  for (const std::string& archive : archives_of(checkpoint.get())) {
    if (::fstatat(checkpoint.get(), archive.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode))
      return std::nullopt;
    entry.bytes += info.st_size;
    entry.modified_ms = std::max(entry.modified_ms, modified_ms(info));
  }
  return entry;
}

}  // namespace

Result<std::vector<RunFiles::Entry>> RunFiles::list(const std::string& trial) const {
  auto folder = open_folder(directory_, trial);
  if (!folder) return make_error(folder.error());
  DIR* const listing = ::fdopendir(::dup(folder->get()));
  if (listing == nullptr) return trouble(directory_ / trial, errno);
  std::vector<Entry> entries;
  while (const dirent* found = ::readdir(listing)) {
    if (entries.size() >= kFilesMax) break;
    if (auto entry = entry_of(folder->get(), found->d_name)) entries.push_back(std::move(*entry));
  }
  ::closedir(listing);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

Result<RunFiles::Opened> RunFiles::open(const std::string& trial, const std::string& name) const {
  if (!is_plain_name(name))
    return make_error(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is no name of a file here", name));
  auto folder = open_folder(directory_, trial);
  if (!folder) return make_error(folder.error());
  const fs::path shown = directory_ / trial / name;
  struct stat info {};
  if (!trial.empty() && names_checkpoint(name)) {
    net::UniqueFd checkpoint(::openat(folder->get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!checkpoint) return trouble(shown, errno);
    std::vector<net::UniqueFd> archives;
    std::vector<fs::path> paths;
    for (const std::string& part : archives_of(checkpoint.get())) {
      auto archive = open_file(checkpoint.get(), part, shown / part, info);
      if (!archive) return make_error(archive.error());
      paths.push_back(at_descriptor(archive->get()));
      archives.push_back(std::move(*archive));
    }
    auto tar = ArchiveTar::open(paths);
    if (!tar)
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("{}: it cannot be read ({})", shown.string(), tar.error().message));
    return Opened{.file_name = trial + "_" + name + ".tar",
                  .content_type = "application/x-tar",
                  .pieces = std::make_unique<TarPieces>(std::move(archives), std::move(*tar))};
  }
  auto file = open_file(folder->get(), name, shown, info);
  if (!file) return make_error(file.error());
  return Opened{.file_name = (trial.empty() ? "" : trial + "_") + name,
                .content_type = content_type_of(name),
                .pieces = std::make_unique<PlainPieces>(std::move(*file), static_cast<uint64_t>(info.st_size))};
}

}  // namespace volador
