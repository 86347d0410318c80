#include "jobs/sandbox/sandbox.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

namespace volador::jobs {

namespace {

using SandboxWords = std::vector<std::string>;

// Removes empty and "." components: "//data/./x/" becomes "/data/x", and "./" becomes "".
std::string without_empty_parts(std::string_view path) {
  std::string clean;
  const bool absolute = path.starts_with('/');
  while (!path.empty()) {
    const size_t length = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, length);
    if (!part.empty() && part != ".") {
      if (absolute || !clean.empty()) clean += '/';
      clean += part;
    }
    path.remove_prefix(std::min(length + 1, path.size()));
  }
  return clean.empty() && absolute ? "/" : clean;
}

bool has_parent_part(std::string_view path) {
  return path == ".." || path.starts_with("../") || path.ends_with("/..") ||
         path.find("/../") != std::string_view::npos;
}

// Whether the path is the folder or in it.
bool is_within(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || folder == "/" || path[folder.size()] == '/');
}

std::vector<std::string_view> split_at_colons(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t length = std::min(text.find(':'), text.size());
    parts.push_back(text.substr(0, length));
    if (length == text.size()) return parts;
    text.remove_prefix(length + 1);
  }
}

// The mount's target as an absolute path.
std::string absolute_target(const SandboxRequest& request, const Mount& mount) {
  if (mount.target.starts_with('/')) return without_empty_parts(mount.target);
  return without_empty_parts(request.working_directory + "/" + mount.target);
}

// The mounts with absolute targets; a target comes after the folders that contain it.
std::vector<Mount> sorted_mounts(const SandboxRequest& request) {
  std::vector<Mount> mounts = request.mounts;
  for (Mount& mount : mounts) mount.target = absolute_target(request, mount);
  std::ranges::stable_sort(mounts, {}, &Mount::target);
  return mounts;
}

void add_words(SandboxWords& words, std::initializer_list<std::string_view> more) {
  words.insert(words.end(), more.begin(), more.end());
}

// Adds the options that make the file system.
class SandboxTree {
 public:
  explicit SandboxTree(SandboxWords& words) : words_(words) {}

  // `option` creates `target`. bwrap makes missing parents accessible only to root, so they are made before.
  void add_at(std::initializer_list<std::string_view> option, const std::string& target) {
    for (size_t end = target.find('/', 1); end != std::string::npos; end = target.find('/', end + 1)) {
      const std::string folder = target.substr(0, end);
      if (made_.insert(folder).second) add_words(words_, {"--dir", folder});
    }
    made_.insert(target);
    add_words(words_, option);
    add_words(words_, {target});
  }

 private:
  SandboxWords& words_;
  std::set<std::string> made_ = {"/proc", "/dev", "/tmp"};
};

void add_namespaces(const SandboxRequest& request, SandboxWords& words) {
  if (request.new_user) add_words(words, {"--unshare-user", "--disable-userns"});
  if (request.new_pid) add_words(words, {"--unshare-pid"});
  if (request.new_ipc) add_words(words, {"--unshare-ipc"});
  if (request.new_uts) add_words(words, {"--unshare-uts"});
  if (request.new_uts && !request.hostname.empty()) add_words(words, {"--hostname", request.hostname});
  if (!request.terminal) add_words(words, {"--new-session"});
  if (request.filter_fd >= 0) add_words(words, {"--seccomp", std::to_string(request.filter_fd)});
  if (request.status_fd >= 0) add_words(words, {"--json-status-fd", std::to_string(request.status_fd)});
  // setpriv needs them to change the user, and drops them.
  if (!request.user && !request.keep_capabilities) add_words(words, {"--cap-drop", "ALL"});
}

void add_entries(const SandboxRequest& request, SandboxTree& tree) {
  std::vector<RootEntry> entries = request.entries;
  std::ranges::stable_sort(entries, {}, &RootEntry::path);
  for (const RootEntry& entry : entries) {
    const auto holds_entry = [&](std::string_view folder) { return is_within(entry.path, folder); };
    if (std::ranges::any_of(SandboxWords{"/proc", "/dev", "/tmp"}, holds_entry)) continue;
    if (entry.symlink_target.empty()) {
      tree.add_at({"--ro-bind", entry.source.empty() ? entry.path : entry.source}, entry.path);
    } else {
      tree.add_at({"--symlink", entry.symlink_target}, entry.path);
    }
  }
}

void add_devices(const SandboxRequest& request, SandboxWords& words, SandboxTree& tree) {
  // Settings of the kernel belong to root, who needs no capability to write them.
  add_words(words, {"--proc", "/proc", "--ro-bind-try", "/proc/sys", "/proc/sys", "--dev", "/dev"});
  for (const std::string& device : request.devices) tree.add_at({"--dev-bind", device}, device);
  if (request.gpus) {
    SandboxWords nodes;
    for (const int gpu : *request.gpus) nodes.push_back(fmt::format("/dev/nvidia{}", gpu));
    if (!nodes.empty()) nodes.insert(nodes.end(), {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"});
    for (const std::string& node : nodes) add_words(words, {"--dev-bind-try", node, node});
    SandboxWords numbers;
    for (size_t i = 0; i < request.gpus->size(); ++i) numbers.push_back(std::to_string(i));
    add_words(words, {"--setenv", "CUDA_VISIBLE_DEVICES", fmt::format("{}", fmt::join(numbers, ","))});
  }
  add_words(words, {"--perms", "1777", "--size", std::to_string(request.shm_bytes), "--tmpfs", "/dev/shm"});
  add_words(words, {"--perms", "1777", "--tmpfs", "/tmp"});
}

void add_mounts(const SandboxRequest& request, SandboxTree& tree) {
  for (const Mount& mount : sorted_mounts(request)) {
    const bool has_fd = mount.source_fd >= 0;
    const std::string option = fmt::format("--{}bind{}", mount.read_only ? "ro-" : "", has_fd ? "-fd" : "");
    tree.add_at({option, has_fd ? std::to_string(mount.source_fd) : mount.source}, mount.target);
  }
  for (const auto& [target, source] : request.files) tree.add_at({"--ro-bind", source}, without_empty_parts(target));
}

void add_user(const SandboxUser& user, SandboxWords& words) {
  add_words(words, {user.setpriv, "--reuid", std::to_string(user.uid), "--regid", std::to_string(user.gid)});
  if (user.groups.empty()) {
    add_words(words, {"--clear-groups"});
  } else {
    add_words(words, {"--groups", fmt::format("{}", fmt::join(user.groups, ","))});
  }
  add_words(words, {"--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"});
}

}  // namespace

Result<Mount> parse_mount(std::string_view text) {
  const auto refused = [&](std::string_view rule) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("mount \"{}\": {}", text, rule));
  };
  const std::vector<std::string_view> parts = split_at_colons(text);
  if (parts.size() < 2 || parts.size() > 3) {
    return refused("expected /source:/target or /source:/target:ro; a path cannot contain \":\"");
  }
  if (text.find('\0') != std::string_view::npos) return refused("a path cannot contain a zero byte");
  if (!parts[0].starts_with('/')) {
    return refused(fmt::format("the source must be an absolute path of the host, got \"{}\"", parts[0]));
  }
  for (const std::string_view path : {parts[0], parts[1]}) {
    if (has_parent_part(path)) return refused(fmt::format("\"{}\" contains \"..\"; write the path without it", path));
  }
  if (parts[1].empty()) return refused("the target is empty; name the path inside the job");
  Mount mount{.source = without_empty_parts(parts[0]), .target = without_empty_parts(parts[1])};
  if (mount.target.empty()) {
    return refused(
        fmt::format("the target must not be \"{}\", the working directory; name a folder in it or an absolute "
                    "path",
                    parts[1]));
  }
  if (mount.target == "/") return refused("the target must not be \"/\", which would hide all other files");
  if (is_within(mount.target, "/proc") || is_within(mount.target, "/dev")) {
    return refused("the target must not be in /proc or /dev, which the job has of its own; use another path");
  }
  const std::string_view option = parts.size() == 3 ? parts[2] : "rw";
  if (option != "ro" && option != "rw" && option != "copy") {
    return refused(
        fmt::format("expected the option ro (read-only), rw or copy (read-only, from a copy on the node's "
                    "disk), got \"{}\"",
                    option));
  }
  mount.copied = option == "copy";
  mount.read_only = option != "rw";
  return mount;
}

Result<void> check_targets(const SandboxRequest& request) {
  const std::vector<Mount> mounts = sorted_mounts(request);
  SandboxWords targets;
  for (const Mount& mount : mounts) targets.push_back(mount.target);
  for (const auto& [target, source] : request.files) targets.push_back(without_empty_parts(target));
  std::set<std::string_view> seen;
  for (const std::string& target : targets) {
    if (!seen.insert(target).second) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("mounts: \"{}\" is the target of two mounts or files; leave one out", target));
    }
  }
  if (request.new_user || request.keep_capabilities) return {};
  for (const Mount& mount : mounts) {
    const auto inside = std::ranges::find_if(
        targets, [&](const std::string& target) { return target != mount.target && is_within(target, mount.target); });
    if (mount.read_only || inside == targets.end()) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("mounts: the target \"{}\" is within the writable mount \"{}\", which root does not "
                                  "trust; choose a target outside",
                                  *inside, mount.target));
  }
  return {};
}

std::vector<std::string> bwrap_command(const SandboxRequest& request) {
  SandboxWords words = {request.bwrap};
  add_namespaces(request, words);
  add_words(words, {"--tmpfs", "/"});
  SandboxTree tree(words);
  add_entries(request, tree);
  add_devices(request, words, tree);
  add_mounts(request, tree);
  add_words(words, {"--remount-ro", "/", "--chdir", request.working_directory, "--"});
  if (request.user) add_user(*request.user, words);
  words.insert(words.end(), request.command.begin(), request.command.end());
  return words;
}

std::vector<std::string> folders_to_list(const SandboxRequest& request,
                                         const std::function<bool(const std::string&)>& exists) {
  // In these folders bwrap can create targets.
  std::vector<std::string> writable = {"/tmp", "/dev"};
  SandboxWords targets;
  for (const Mount& mount : sorted_mounts(request)) targets.push_back(mount.target);
  writable.insert(writable.end(), targets.begin(), targets.end());
  for (const auto& [target, source] : request.files) targets.push_back(without_empty_parts(target));
  std::set<std::string> folders;
  for (const std::string& target : targets) {
    const auto holds_target = [&](const std::string& folder) { return folder != target && is_within(target, folder); };
    if (std::ranges::any_of(writable, holds_target) || exists(target)) continue;
    for (size_t end = target.find('/', 1); end != std::string::npos; end = target.find('/', end + 1)) {
      std::string folder = target.substr(0, end);
      if (!exists(folder)) break;
      folders.insert(std::move(folder));
    }
  }
  return {folders.begin(), folders.end()};
}

}  // namespace volador::jobs
