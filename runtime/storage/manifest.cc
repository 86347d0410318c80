#include "runtime/storage/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/storage/storage_url.h"

namespace volador::storage {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kManifestVersion = 1;

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// '*' and '?' as in a shell, but for slashes, which are like any character. Linear in both but for one retry per star.
bool matches(std::string_view pattern, std::string_view text) {
  size_t at = 0, in = 0, star = pattern.npos, mark = 0;
  while (in < text.size()) {
    if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[in])) {
      ++at;
      ++in;
    } else if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      mark = in;
    } else if (star != pattern.npos) {
      at = star + 1;
      in = ++mark;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

}  // namespace

int64_t Manifest::bytes() const {
  int64_t sum = 0;
  for (const ManifestFile& file : files) sum += file.bytes;
  return sum;
}

std::string Manifest::to_json() const {
  Json rows = Json::array();
  for (const ManifestFile& file : files)
    rows.push_back({{"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}, {"mode", file.mode}});
  return Json{{"version", kManifestVersion}, {"files", std::move(rows)}, {"directories", directories}}.dump() + "\n";
}

Result<Manifest> parse_manifest(std::string_view what, std::string_view json) {
  const auto damaged = [&](std::string_view why) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: its {} is damaged: {}; store the folder again", what, kManifestName, why));
  };
  const Json root = Json::parse(json, nullptr, false);
  if (!root.is_object()) return damaged("it is not a JSON object");
  const auto version = root.find("version");
  if (version == root.end() || !version->is_number_integer()) return damaged("it has no version");
  if (*version != kManifestVersion)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: its {} has version {}, this Volador reads version {}; use a newer one", what,
                                  kManifestName, version->get<int64_t>(), kManifestVersion));
  const auto files = root.find("files"), directories = root.find("directories");
  if (files == root.end() || !files->is_array()) return damaged("it has no files");
  if (directories == root.end() || !directories->is_array()) return damaged("it has no directories");
  Manifest manifest;
  std::set<std::string_view> seen;
  for (const Json& row : *files) {
    if (!row.is_object() || !row.contains("path") || !row["path"].is_string() || !row.contains("bytes") ||
        !row["bytes"].is_number_unsigned() || !row.contains("sha256") || !row["sha256"].is_string() ||
        !row.contains("mode") || !row["mode"].is_number_unsigned())
      return damaged("a file without path, bytes, sha256 or mode");
    manifest.files.push_back({row["path"].get<std::string>(), row["bytes"].get<int64_t>(),
                              row["sha256"].get<std::string>(), row["mode"].get<unsigned>() & 0777});
    if (!is_sha256(manifest.files.back().sha256) || manifest.files.back().bytes < 0)
      return damaged(fmt::format("checksum or size of {}", row["path"].dump()));
  }
  for (const Json& row : *directories) {
    if (!row.is_string()) return damaged("a directory without a name");
    manifest.directories.push_back(row.get<std::string>());
  }
  for (const ManifestFile& file : manifest.files) {
    if (auto good = check_key("a path", file.path); !good) return damaged(good.error().message);
    if (!seen.insert(file.path).second) return damaged(fmt::format("\"{}\" is in it twice", file.path));
  }
  for (const std::string& path : manifest.directories) {
    if (auto good = check_key("a directory", path); !good) return damaged(good.error().message);
    if (!seen.insert(path).second) return damaged(fmt::format("\"{}\" is in it twice", path));
  }
  return manifest;
}

bool is_selected(const std::vector<std::string>& selectors, std::string_view path) {
  if (selectors.empty()) return true;
  return std::ranges::any_of(selectors, [&](std::string_view selector) {
    while (selector.ends_with('/')) selector.remove_suffix(1);
    if (selector.find_first_of("*?") != selector.npos) return matches(selector, path);
    return path == selector || (path.starts_with(selector) && path.substr(selector.size()).starts_with('/'));
  });
}

}  // namespace volador::storage
