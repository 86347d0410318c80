#include "tune/execution/artifact_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/directory_archive.h"
#include "runtime/files/passing_folder.h"
#include "runtime/files/results_mode.h"
#include "runtime/paths.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;

Error copy_error(const fs::path& path, const std::error_code& code) { return file_error("write", path, code.value()); }

}  // namespace

bool ArtifactFolder::is_used() const {
  struct stat info {};
  return bytes_max_ > 0 && ::stat(path_.c_str(), &info) == 0;
}

Result<std::map<std::string, ArtifactFolder::Stamp>> ArtifactFolder::look() const {
  std::map<std::string, Stamp> found;
  std::error_code code;
  int64_t bytes = 0;
  for (fs::recursive_directory_iterator entry(path_, code), end; !code && entry != end; entry.increment(code)) {
    const fs::path& path = entry->path();
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode)) continue;  // Removed meanwhile.
    const std::string name = path.lexically_relative(path_).string();
    if (!S_ISREG(info.st_mode)) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("{} is a link, a socket or a device; artifacts are regular files and folders", name));
    }
    bytes += info.st_size;
    found[name] = {info.st_size, int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec, info.st_ino};
  }
  if (bytes > bytes_max_) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("they have {:.1f} MiB, more than artifact_bytes_max ({:.1f} MiB): write less, or set it higher",
                    static_cast<double>(bytes) / (1 << 20), static_cast<double>(bytes_max_) / (1 << 20)));
  }
  return found;
}

Result<std::optional<ArtifactFolder::Packed>> ArtifactFolder::pack_changed(const fs::path& archive) {
  if (refused_ || !is_used()) return std::optional<Packed>();
  auto found = look();
  if (!found) {
    refused_ = found.error().code == ErrorCode::kInvalidArgument;
    return make_error(found.error());
  }
  // Packs hard links to the changed files, in a separate folder, to avoid copying the files.
  const PassingFolder staged(path_.string() + ".staged");
  std::error_code code;
  int64_t files = 0;
  for (auto at = found->begin(); at != found->end();) {
    const auto& [name, stamp] = *at;
    const auto before = packed_.find(name);
    if (before != packed_.end() && before->second == stamp) {
      ++at;
      continue;
    }
    const fs::path link = staged.path() / name;
    fs::create_directories(link.parent_path(), code);
    if (code) return make_error(copy_error(link, code));
    fs::create_hard_link(path_ / name, link, code);
    if (code == std::errc::no_such_file_or_directory) {  // It was removed meanwhile: a replacement counts as new.
      at = found->erase(at);
      continue;
    }
    if (code) return make_error(copy_error(link, code));
    ++files;
    ++at;
  }
  if (files == 0) return std::optional<Packed>();
  auto packed = pack_directory(staged.path(), archive, {}, Durability::kProcess);
  if (!packed) return make_error(packed.error());
  packed_ = std::move(*found);
  return Packed{files, packed->sha256, packed->archive_bytes};
}

void ArtifactFolder::clear() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

namespace {

// Removes the permissions that results must not have from a file; its owner may still execute it.
Result<void> restrict_to_results_mode(const fs::path& file) {
  const auto& mode = results_mode();
  if (!mode) return make_error(mode.error());
  struct stat info {};
  if (::lstat(file.c_str(), &info) != 0) return make_error(file_error("read", file, errno));
  const unsigned kept = info.st_mode & (mode->file | (mode->directory & 0111)) & 0777;
  if (kept != (info.st_mode & 0777) && ::chmod(file.c_str(), kept) != 0) {
    return make_error(file_error("write", file, errno));
  }
  return {};
}

}  // namespace

Result<void> add_artifacts(const fs::path& archive, const std::string& sha256, const fs::path& target) {
  const PassingFolder fresh(archive.string() + ".unpacked");
  std::error_code code;
  auto unpacked = unpack_archive(archive, fresh.path(), {}, Durability::kProcess);
  if (unpacked && unpacked->sha256 != sha256) {
    unpacked =
        make_error(ErrorCode::kInvalidArgument, fmt::format("the checksum is {}, not {}", unpacked->sha256, sha256));
  }
  Result<void> added{};
  if (!unpacked) added = make_error(unpacked.error());
  for (fs::recursive_directory_iterator entry(fresh.path(), code), end; added && !code && entry != end;
       entry.increment(code)) {
    const fs::path to = target / entry->path().lexically_relative(fresh.path());
    std::error_code problem;
    if (entry->is_directory()) {
      added = make_results_directory(to);
    } else {
      added = make_results_directory(to.parent_path());
      if (added) added = restrict_to_results_mode(entry->path());
      if (added) fs::rename(entry->path(), to, problem);
    }
    if (problem) added = make_error(copy_error(to, problem));
  }
  return added;
}

}  // namespace volador::tune
