#include "runtime/files/directory_parts.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "runtime/files/durable_file.h"
#include "runtime/security/digest.h"

namespace volador {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 20;

// Returns the checksum of a file's contents.
Result<std::string> checksum_of(const fs::path& path) {
  auto file = FileHandle::open(path, O_RDONLY | O_NOFOLLOW);
  if (!file) return make_error(file.error());
  security::Sha256 hash;
  std::string buffer(kReadBytes, '\0');
  while (true) {
    auto count = read_some(file->get(), buffer.data(), buffer.size(), path);
    if (!count) return make_error(count.error());
    if (*count == 0) return security::hex(hash.finish());
    hash.update({buffer.data(), *count});
  }
}

// `alone`: the largest files, each with its own archive. `together`: all other entries. Both keep the given order.
struct Split {
  std::vector<ArchiveEntry> together;
  std::vector<ArchiveEntry> alone;
};

Split split(const fs::path& directory, std::vector<ArchiveEntry> entries, const PartLimits& limits) {
  std::vector<std::pair<int64_t, std::string>> large;
  for (const ArchiveEntry& entry : entries) {
    struct stat info {};
    // Packing reports the error.
    if (entry.is_directory || ::lstat((directory / entry.name).c_str(), &info) != 0) continue;
    if (info.st_size >= limits.own_bytes_min) large.emplace_back(-info.st_size, entry.name);
  }
  std::sort(large.begin(), large.end());
  if (large.size() > limits.own_max) large.resize(limits.own_max);
  std::set<std::string> names;
  for (auto& [bytes, name] : large) names.insert(std::move(name));
  Split made;
  for (ArchiveEntry& entry : entries)
    (names.contains(entry.name) ? made.alone : made.together).push_back(std::move(entry));
  return made;
}

}  // namespace

std::string part_name(const std::vector<DirectoryPart>& parts, size_t index) {
  return index == 0 ? "archive.vla" : "part_" + parts[index].sha256 + ".vla";
}

std::vector<fs::path> parts_in(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code code;
  for (fs::directory_iterator entry(directory, code), end; !code && entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("part_") && name.ends_with(".vla")) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  found.insert(found.begin(), directory / "archive.vla");
  return found;
}

Result<DirectoryPart> DirectoryPacker::pack_some(const fs::path& directory,
                                                 const std::vector<ArchiveEntry>& entries) const {
  const fs::path fresh = folder_ / "fresh.vla";
  auto packed = pack_entries(directory, entries, fresh, {}, Durability::kProcess);
  if (!packed) return make_error(packed.error());
  std::error_code code;
  fs::rename(fresh, archive(packed->sha256), code);
  if (code) return make_error(file_error("write", archive(packed->sha256), code.value()));
  return DirectoryPart{packed->sha256, packed->archive_bytes};
}

Result<DirectoryPacker::Packed> DirectoryPacker::pack_file(const fs::path& directory, const ArchiveEntry& file) const {
  const fs::path path = directory / file.name;
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return make_error(file_error("read", path, errno));
  auto contents = checksum_of(path);
  if (!contents) return make_error(contents.error());
  const auto before = packed_.find(file.name);
  if (before != packed_.end() && before->second.mode == info.st_mode && before->second.contents == *contents) {
    std::error_code code;
    if (fs::exists(archive(before->second.part.sha256), code)) return before->second;
  }
  auto part = pack_some(directory, {file});
  if (!part) return make_error(part.error());
  return Packed{info.st_mode, std::move(*contents), std::move(*part)};
}

Result<std::vector<DirectoryPart>> DirectoryPacker::pack(const fs::path& directory) {
  VOLADOR_TRY(make_private_directory(folder_));
  auto entries = list_entries(directory);
  if (!entries) return make_error(entries.error());
  const Split found = split(directory, std::move(*entries), limits_);
  std::vector<DirectoryPart> parts;
  auto first = pack_some(directory, found.together);
  if (!first) return make_error(first.error());
  parts.push_back(std::move(*first));
  std::map<std::string, Packed> packed;
  for (const ArchiveEntry& file : found.alone) {
    auto own = pack_file(directory, file);
    if (!own) return make_error(own.error());
    parts.push_back(own->part);
    packed[file.name] = std::move(*own);
  }
  packed_ = std::move(packed);
  drop_others(parts);
  return parts;
}

void DirectoryPacker::drop_others(const std::vector<DirectoryPart>& parts) const {
  std::set<std::string> kept;
  for (const DirectoryPart& part : parts) kept.insert(part.sha256 + ".vla");
  std::vector<fs::path> gone;
  std::error_code code;
  for (fs::directory_iterator entry(folder_, code), end; !code && entry != end; entry.increment(code)) {
    if (!kept.contains(entry->path().filename().string())) gone.push_back(entry->path());
  }
  for (const fs::path& path : gone) fs::remove(path, code);
}

}  // namespace volador
