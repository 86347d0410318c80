#include "jobs/code_folder.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "jobs/job_spec.h"
#include "jobs/launch/command_check.h"
#include "runtime/control/program_transfer.h"
#include "runtime/files/directory_archive.h"
#include "runtime/quantities.h"
#include "runtime/resources.h"
#include "runtime/security/digest.h"

namespace volador::jobs {
namespace {

namespace fs = std::filesystem;

constexpr size_t kEntriesMax = 100'000;
constexpr size_t kLargestShown = 3;
constexpr std::string_view kAnyFolders = "**";  // Any number of folders, also none; at the end: everything inside.

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Files that git tracks or would track, relative to the folder; nullopt: not a git repository, or there is no git.
std::optional<std::set<std::string>> git_files(const fs::path& folder) {
  const std::string command = fmt::format("git -C {} ls-files -z --cached --others --exclude-standard 2>/dev/null",
                                          shell_quoted(folder.string()));
  std::FILE* pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return std::nullopt;
  std::string all;
  std::array<char, 65536> piece{};
  for (size_t got = 0; (got = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;) all.append(piece.data(), got);
  if (::pclose(pipe) != 0) return std::nullopt;
  std::set<std::string> files;
  for (size_t at = 0; at < all.size();) {
    const size_t end = all.find('\0', at);
    files.insert(all.substr(at, end - at));
    at = end == std::string::npos ? all.size() : end + 1;
  }
  return files;
}

struct CodeFiles {
  std::vector<ArchiveEntry> entries;
  std::vector<std::pair<int64_t, std::string>> sizes;
  int64_t bytes = 0;
};

Result<void> collect(const fs::path& root, const fs::path& below, const IgnoreRules& rules,
                     const std::optional<std::set<std::string>>& tracked, CodeFiles& out) {
  std::vector<fs::directory_entry> children;
  std::error_code failed;
  for (const auto& child : fs::directory_iterator(root / below, failed)) children.push_back(child);
  if (failed) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{}: cannot be read: {}", (root / below).string(), failed.message()));
  }
  std::ranges::sort(children, {}, [](const fs::directory_entry& entry) { return entry.path().filename().string(); });
  for (const fs::directory_entry& child : children) {
    const std::string name = (below / child.path().filename()).string();
    const bool is_directory = child.is_directory(failed) && !child.is_symlink(failed);
    if (rules.ignores(name, is_directory)) continue;
    if (is_directory) {
      const size_t at = out.entries.size();
      out.entries.push_back({.name = name, .is_directory = true});
      VOLADOR_TRY(collect(root, name, rules, tracked, out));
      // In a repository, git does not know folders without files.
      if (tracked && out.entries.size() == at + 1) out.entries.pop_back();
      continue;
    }
    if (tracked && !tracked->contains(name)) continue;
    if (child.is_symlink(failed) || !child.is_regular_file(failed)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: {} does not travel; list it in .voladorignore, or replace it by a copy",
                                    child.path().string(),
                                    child.is_symlink(failed) ? "a symbolic link" : "a socket, pipe or device"));
    }
    const auto bytes = static_cast<int64_t>(child.file_size(failed));
    out.entries.push_back({.name = name, .is_directory = false});
    out.sizes.emplace_back(bytes, name);
    out.bytes += bytes;
    if (out.entries.size() > kEntriesMax) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: more than {} files; name the folder of your code with --code, or list what "
                                    "need not travel in .voladorignore",
                                    root.string(), kEntriesMax));
    }
  }
  return {};
}

// The names between the slashes.
std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> names;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (end > 0) names.emplace_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return names;
}

bool path_matches(std::span<const std::string> pattern, std::span<const std::string> names) {
  if (pattern.empty()) return names.empty();
  if (names.empty()) return false;
  const auto rest = pattern.subspan(1);
  if (pattern.front() != kAnyFolders)
    return ::fnmatch(pattern.front().c_str(), names.front().c_str(), 0) == 0 && path_matches(rest, names.subspan(1));
  if (rest.empty()) return true;
  for (size_t i = 0; i < names.size(); ++i) {
    if (path_matches(rest, names.subspan(i))) return true;
  }
  return false;
}

Result<void> check_needed(const fs::path& root, const std::vector<std::string>& needed,
                          const std::vector<ArchiveEntry>& entries) {
  for (const std::string& name : needed) {
    const auto is = [&](const ArchiveEntry& entry) { return entry.name == name && !entry.is_directory; };
    if (std::ranges::any_of(entries, is)) continue;
    std::error_code failed;
    if (fs::exists(root / name, failed)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("environment: {} does not travel with the job, because git or .voladorignore "
                                    "ignores it; take it out of .gitignore and .voladorignore",
                                    (root / name).string()));
    }
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("environment: the code folder {} has no file {}; name one that it has", root.string(), name));
  }
  return {};
}

}  // namespace

IgnoreRules::IgnoreRules(std::string_view text) {
  for (const char* always : {".git/", "__pycache__/", ".venv/", "node_modules/", ".ipynb_checkpoints/"}) add(always);
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) add(line);
}

void IgnoreRules::add(std::string_view line) {
  while (!line.empty() && (line.back() == ' ' || line.back() == '\r' || line.back() == '\t')) line.remove_suffix(1);
  if (line.empty() || line.front() == '#') return;
  Rule rule;
  if (line.front() == '!') {
    rule.keeps = true;
    line.remove_prefix(1);
  }
  if (line.ends_with('/')) {
    rule.directories_only = true;
    line.remove_suffix(1);
  }
  const bool anchored = line.find('/') != std::string_view::npos;
  if (!anchored) rule.pattern.emplace_back(kAnyFolders);
  for (std::string& name : split_path(line)) {
    if (name != kAnyFolders || rule.pattern.empty() || rule.pattern.back() != kAnyFolders)
      rule.pattern.push_back(std::move(name));
  }
  if (line.empty() || rule.pattern.empty()) return;
  rules_.push_back(std::move(rule));
}

bool IgnoreRules::ignores(const std::string& path, bool is_directory) const {
  const std::vector<std::string> names = split_path(path);
  bool ignored = false;
  for (const Rule& rule : rules_) {
    if (rule.directories_only && !is_directory) continue;
    if (path_matches(rule.pattern, names)) ignored = !rule.keeps;
  }
  return ignored;
}

Result<PackedCode> pack_code(const fs::path& folder, const fs::path& archive, const std::vector<std::string>& needed) {
  std::error_code failed;
  const fs::path root = fs::canonical(folder, failed);
  if (failed || !fs::is_directory(root, failed)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("code: {} is no folder; name the folder of your code", folder.string()));
  }
  const IgnoreRules rules(read_text(root / ".detignore") + "\n" + read_text(root / ".voladorignore"));
  CodeFiles found;
  VOLADOR_TRY(collect(root, {}, rules, git_files(root), found));
  VOLADOR_TRY(check_needed(root, needed, found.entries));
  if (found.bytes > kFilesBytesMax) {
    std::ranges::sort(found.sizes, std::greater<>());
    std::string largest;
    for (size_t i = 0; i < std::min(kLargestShown, found.sizes.size()); ++i)
      largest +=
          fmt::format("{}{} ({})", i == 0 ? "" : ", ", found.sizes[i].second, format_bytes(found.sizes[i].first));
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("code: {} has {} in {}; at most {} travel with a job. The largest: {}. List what need "
                    "not travel in .voladorignore, and put data where the nodes can read it",
                    root.string(), format_bytes(found.bytes), counted(found.sizes.size(), "file"),
                    format_bytes(kFilesBytesMax), largest));
  }
  auto packed = pack_entries(root, found.entries, archive, {}, Durability::kProcess);
  if (!packed) return make_error(packed.error());
  const auto hash = control::sha256_of_file(archive);
  if (!hash) return make_error(hash.error());
  return PackedCode{.sha256 = security::hex(*hash),
                    .archive_bytes = static_cast<int64_t>(fs::file_size(archive, failed)),
                    .content_bytes = found.bytes,
                    .files = static_cast<int64_t>(found.sizes.size())};
}

}  // namespace volador::jobs
