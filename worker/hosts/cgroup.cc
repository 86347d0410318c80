#include "worker/hosts/cgroup.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <sstream>

#include "runtime/net/unique_fd.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSmall = 64 << 10;  // Maximum number of bytes read per file.

// Whether "a,b,c" contains `name`.
bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t end = names.find(',');
    if (names.substr(0, end) == name) return true;
    if (end == std::string_view::npos) break;
    names.remove_prefix(end + 1);
  }
  return false;
}

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::string> read_small_file(const fs::path& path) {
  const net::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string text;
  char piece[8 << 10];
  while (text.size() < kSmall) {
    const ssize_t got = ::read(file.get(), piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece, static_cast<size_t>(got));
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::optional<int64_t> read_number(const fs::path& path) {
  const auto text = read_small_file(path);
  if (!text) return std::nullopt;
  return parse_number(*text);
}

std::optional<int64_t> read_keyed_number(const fs::path& path, std::string_view key) {
  const auto text = read_small_file(path);
  if (!text) return std::nullopt;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ')
      return parse_number(std::string_view(line).substr(key.size() + 1));
  }
  return std::nullopt;
}

std::vector<fs::path> cgroup_folders(const fs::path& root, std::string_view controller) {
  const auto text = read_small_file(root / "proc/self/cgroup");
  if (!text) return {};
  std::string group;
  std::istringstream lines(*text);
  bool found = false;
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view names = std::string_view(line).substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : lists(names, controller)) {
      group = line.substr(second + 1);
      found = true;
    }
  }
  if (!found) return {};
  std::error_code error;
  fs::path mount;
  const fs::path base = root / "sys/fs/cgroup";
  if (!controller.empty())
    mount = base / controller;
  else if (fs::exists(base / "cgroup.controllers", error))
    mount = base;
  else
    mount = base / "unified";
  if (!fs::is_directory(mount, error)) return {};
  std::vector<fs::path> folders;
  fs::path at = fs::path(group).relative_path();
  while (!at.empty() && at != ".") {
    if (fs::is_directory(mount / at, error)) folders.push_back(mount / at);
    at = at.parent_path();
  }
  folders.push_back(mount);
  return folders;
}

}  // namespace volador::worker
