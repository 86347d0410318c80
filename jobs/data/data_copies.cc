#include "jobs/data/data_copies.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "runtime/resources.h"
#include "runtime/security/digest.h"

namespace volador::jobs {
namespace {

namespace fs = std::filesystem;

constexpr double kDiskShareMax = 0.95;

// Adds one path and what is below it to the text that is hashed. `name`: relative to the source.
Result<void> list_path(const fs::path& path, const std::string& name, DataListing& listing, std::string& text) {
  struct stat info {};
  // The source itself may be a link; within it, links are copied as links.
  const int failed = name.empty() ? ::stat(path.c_str(), &info) : ::lstat(path.c_str(), &info);
  if (failed != 0)
    return make_error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                      fmt::format("{}: {}", path.string(), std::strerror(errno)));
  if (S_ISDIR(info.st_mode)) {
    std::error_code error;
    std::vector<std::string> children;
    for (const auto& child : fs::directory_iterator(path, error)) children.push_back(child.path().filename().string());
    if (error) return make_error(ErrorCode::kUnavailable, fmt::format("{}: {}", path.string(), error.message()));
    std::ranges::sort(children);
    text += fmt::format("{}\n{:o}\n", name, info.st_mode);
    for (const std::string& child : children)
      VOLADOR_TRY(list_path(path / child, name.empty() ? child : name + "/" + child, listing, text));
    return {};
  }
  if (!S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: it is neither a file, a folder nor a link and cannot be copied", path.string()));
  }
  text += fmt::format("{}\n{:o}\n{}\n{}.{:09}\n", name, info.st_mode, info.st_size, info.st_mtim.tv_sec,
                      info.st_mtim.tv_nsec);
  listing.files += 1;
  listing.bytes += info.st_size;
  return {};
}

// Whether the disk of the folder has room for more bytes.
bool has_room(const fs::path& folder, int64_t bytes) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return false;
  const double total = static_cast<double>(disk.f_blocks) * static_cast<double>(disk.f_frsize);
  const double available = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  return available - static_cast<double>(bytes) >= (1 - kDiskShareMax) * total;
}

}  // namespace

Result<DataListing> list_data(const fs::path& source) {
  DataListing listing;
  std::string text;
  VOLADOR_TRY(list_path(source, "", listing, text));
  listing.hash = security::hex(security::sha256(text)).substr(0, 32);
  return listing;
}

Result<DataCopies::Copy> DataCopies::prepare(const fs::path& source, const std::vector<std::string>& variables,
                                             const std::string& node) {
  const auto refused = [&](const Error& why) {
    return make_error(why.code,
                      fmt::format("mount {}: node {} cannot copy it: {}", source.string(), node, why.message));
  };
  const auto listing = list_data(source);
  if (!listing) return refused(listing.error());
  // The path is a part of the key: equal listings of two sources do not mean equal contents.
  const std::string key = security::hex(security::sha256(source.string() + "\n" + listing->hash)).substr(0, 32);
  const std::string size = fmt::format("{} ({}, {} {})", source.string(), format_bytes(listing->bytes), listing->files,
                                       listing->files == 1 ? "file" : "files");
  bool full = false;
  const auto build = [&](const fs::path& made) -> Result<void> {
    if (!has_room(made, listing->bytes)) store_.remove_unused();
    if (full = !has_room(made, listing->bytes); full) return make_error(ErrorCode::kUnavailable, "the disk is full");
    const fs::path target = made / "data";
    const fs::path log = made / "log";
    // Follows the source if it is a link, but no link in it.
    const auto code = store_.run({"cp", "-a", "-H", "-T", "--reflink=auto", "--", source.string(), target.string()},
                                 variables, made, log);
    if (!code) return make_error(code.error());
    if (*code != 0) return make_error(ErrorCode::kUnavailable, last_lines(log));
    const auto now = list_data(source);
    if (!now) return make_error(now.error());
    const auto copied = list_data(target);
    if (!copied) return make_error(copied.error());
    // Times and owners of the copy depend on its file system.
    if (now->hash != listing->hash || copied->bytes != listing->bytes || copied->files != listing->files) {
      return make_error(ErrorCode::kUnavailable,
                        "it changed while it was copied; submit the job again when its files are complete");
    }
    return {};
  };
  auto shared = store_.share(key,
                             {.begins = "copying " + size,
                              .done = "the copy is complete",
                              .waits = "waiting for another job that copies " + size,
                              .note = source.string()},
                             build);
  if (!shared && full) {
    store_.say(fmt::format("volador: {} does not fit on the disk of {}, so that the job reads it where it is", size,
                           store_.folder().string()));
    return Copy{.path = source, .hold = {}};
  }
  if (!shared)
    return shared.error().code == ErrorCode::kCancelled ? make_error(shared.error()) : refused(shared.error());
  fs::path path = shared->folder() / "data";
  return Copy{.path = std::move(path), .hold = std::move(*shared)};
}

}  // namespace volador::jobs
