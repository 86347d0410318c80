#include "worker/hosts/cgroup_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace volador::worker {
namespace {

constexpr double kLeastCpus = 0.5;  // A host that asks for no CPU gets the weight of half of one.
constexpr int64_t kV2WeightOfCpu = 100, kV2WeightMax = 10'000;    // cpu.weight: 1 to 10,000, default 100.
constexpr int64_t kV1SharesOfCpu = 1024, kV1SharesMax = 262'144;  // cpu.shares: 2 to 262,144, default 1024.
constexpr const char* kV2Controllers[] = {"memory", "pids", "cpu"};

std::vector<std::string_view> words_of(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool has_word(std::string_view text, std::string_view word, std::string_view separators = " \n") {
  const auto words = words_of(text, separators);
  return std::find(words.begin(), words.end(), word) != words.end();
}

// mountinfo writes space, tab, line break and backslash as \040, \011, \012 and \134.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    unsigned code = 0;
    if (text[at] == '\\' && at + 3 < text.size() &&
        std::from_chars(text.data() + at + 1, text.data() + at + 4, code, 8).ptr == text.data() + at + 4) {
      out += static_cast<char>(code);
      at += 3;
    } else {
      out += text[at];
    }
  }
  return out;
}

// Returns the path of `group` below `root`, with a slash at its start unless empty.
std::optional<std::string> below(std::string_view group, std::string_view root) {
  if (group.find("/..") != std::string_view::npos) return std::nullopt;  // Outside of the namespace.
  if (root == "/") return group == "/" ? std::string() : std::string(group);
  if (!group.starts_with(root)) return std::nullopt;
  group.remove_prefix(root.size());
  if (!group.empty() && group[0] != '/') return std::nullopt;
  return group == "/" ? std::string() : std::string(group);
}

bool passes_on(const GroupFolder& folder) {
  return std::all_of(std::begin(kV2Controllers), std::end(kV2Controllers), [&](const char* name) {
    return !has_word(folder.controllers, name) || has_word(folder.subtree_control, name);
  });
}

GroupHierarchy v2_hierarchy(const std::string& base, const GroupFolder& folder) {
  return {.base = base,
          .v2 = true,
          .memory = has_word(folder.controllers, "memory"),
          .pids = has_word(folder.controllers, "pids"),
          .cpu = has_word(folder.controllers, "cpu"),
          .kill = folder.has_kill};
}

std::string not_writable(const OwnGroup& group) {
  if (group.read_only) {
    return fmt::format(
        "{} is mounted read-only; start the container with a writable /sys/fs/cgroup (docker run "
        "--cgroupns=private --privileged)",
        group.folder);
  }
  return fmt::format(
      "this user may not create groups in {}; start the worker with `systemd-run --user --scope -p "
      "Delegate=yes volador start …`, or as root",
      group.folder);
}

const GroupFolder& folder_at(const std::map<std::string, GroupFolder>& folders, const std::string& path) {
  static const GroupFolder none;
  const auto found = folders.find(path);
  return found == folders.end() ? none : found->second;
}

// Places the groups in the v2 hierarchy with limits, if one of its groups allows it.
void plan_v2(GroupPlan& plan, const OwnGroup& own, const std::map<std::string, GroupFolder>& folders,
             std::vector<std::string>& wanted) {
  const GroupFolder& here = folder_at(folders, own.folder);
  std::vector<std::string> enable;
  for (const char* name : kV2Controllers) {
    if (has_word(here.controllers, name) && std::find(wanted.begin(), wanted.end(), name) != wanted.end())
      enable.push_back(fmt::format("+{}", name));
  }
  const auto take = [&](const std::string& base, const GroupFolder& folder) {
    GroupHierarchy hierarchy = v2_hierarchy(base, folder);
    const auto use = [&](bool GroupHierarchy::*member, const char* name) {
      const auto at = std::find(wanted.begin(), wanted.end(), name);
      hierarchy.*member = hierarchy.*member && at != wanted.end();
      if (hierarchy.*member) wanted.erase(at);
    };
    use(&GroupHierarchy::memory, "memory");
    use(&GroupHierarchy::pids, "pids");
    use(&GroupHierarchy::cpu, "cpu");
    plan.enable = fmt::format("{}", fmt::join(enable, " "));
    plan.base_has_controllers = enable.empty() || passes_on(folder);
    plan.hierarchies.push_back(std::move(hierarchy));
  };
  if (own.read_only || !here.writable) {
    const std::string why = not_writable(own);
    plan.missing.push_back("ending all processes of an actor at once: " + why);
    for (std::string& name : wanted) name += ": " + why;
    return;
  }
  // Beside the worker's own group, which then keeps its processes.
  const GroupFolder& above = folder_at(folders, own.parent);
  const bool is_free = enable.empty() || here.is_root || passes_on(here);
  if (is_free) return take(own.folder, here);
  if (!here.has_other_processes) {
    plan.leaf = kLeafGroup;
    return take(own.folder, here);
  }
  if (!own.parent.empty() && above.writable && (above.is_root || passes_on(above))) return take(own.parent, above);
  const std::string why = fmt::format(
      "{} also has processes of other programs, and a group with processes cannot limit its children; start the worker "
      "in a group of its own: `systemd-run --user --scope -p Delegate=yes volador start …`",
      own.folder);
  for (std::string& name : wanted) name += ": " + why;
  plan.hierarchies.push_back({.base = own.folder, .v2 = true, .kill = here.has_kill});
}

}  // namespace

std::vector<CgroupMount> parse_cgroup_mounts(std::string_view mountinfo) {
  std::vector<CgroupMount> mounts;
  // "36 31 0:33 /root /point rw,relatime shared:9 - cgroup cgroup rw,memory"
  for (const std::string_view line : words_of(mountinfo, "\n")) {
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto front = words_of(line.substr(0, dash), " ");
    const auto back = words_of(line.substr(dash + 3), " ");
    if (front.size() < 6 || back.size() < 3 || (back[0] != "cgroup" && back[0] != "cgroup2")) continue;
    CgroupMount mount{.point = unescaped(front[4]),
                      .root = unescaped(front[3]),
                      .v2 = back[0] == "cgroup2",
                      .read_only = has_word(front[5], "ro", ",") || has_word(back[2], "ro", ","),
                      .controllers = {}};
    if (!mount.v2) {
      for (const std::string_view name : words_of(back[2], ",")) mount.controllers.emplace_back(name);
    }
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::optional<OwnGroup> own_group(const std::vector<CgroupMount>& mounts, std::string_view own_cgroups,
                                  std::string_view controller) {
  std::string_view group;
  for (const std::string_view line : words_of(own_cgroups, "\n")) {  // "4:memory:/group", "0::/group".
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : has_word(names, controller, ",")) group = line.substr(second + 1);
  }
  if (group.empty()) return std::nullopt;
  for (const CgroupMount& mount : mounts) {
    const bool fits = controller.empty() ? mount.v2
                                         : std::find(mount.controllers.begin(), mount.controllers.end(), controller) !=
                                               mount.controllers.end();
    if (!fits) continue;
    auto path = below(group, mount.root);
    if (!path) continue;
    // A daemon of Volador that was moved out of the way of the groups counts as a process of the group above.
    const std::string leaf = fmt::format("/{}", kLeafGroup);
    if (controller.empty() && path->ends_with(leaf)) path->resize(path->size() - leaf.size());
    OwnGroup own{.folder = mount.point + *path, .parent = {}, .read_only = mount.read_only};
    if (!path->empty()) own.parent = mount.point + path->substr(0, path->rfind('/'));
    return own;
  }
  return std::nullopt;
}

bool GroupPlan::has(bool GroupHierarchy::*use) const {
  return std::any_of(hierarchies.begin(), hierarchies.end(), [use](const GroupHierarchy& one) { return one.*use; });
}

std::vector<std::string> folders_to_read(std::string_view mountinfo, std::string_view own_cgroups) {
  const auto mounts = parse_cgroup_mounts(mountinfo);
  std::vector<std::string> folders;
  for (const char* controller : {"memory", "pids", "cpu", ""}) {
    const auto own = own_group(mounts, own_cgroups, controller);
    if (!own) continue;
    folders.push_back(own->folder);
    if (*controller == '\0' && !own->parent.empty()) folders.push_back(own->parent);
  }
  return folders;
}

GroupPlan plan_groups(std::string_view mountinfo, std::string_view own_cgroups,
                      const std::map<std::string, GroupFolder>& folders) {
  GroupPlan plan;
  const auto mounts = parse_cgroup_mounts(mountinfo);
  std::vector<std::string> wanted;  // For v2; with the reason behind it where nothing has it.
  const auto take_v1 = [&](const char* name, bool GroupHierarchy::*use) {
    const auto own = own_group(mounts, own_cgroups, name);
    if (!own) return wanted.emplace_back(name), void();
    if (own->read_only || !folder_at(folders, own->folder).writable)
      return plan.missing.push_back(fmt::format("{}: {}", name, not_writable(*own)));
    for (GroupHierarchy& known : plan.hierarchies) {
      if (known.base == own->folder) return void(known.*use = true);  // "cpu,memory" mounted together.
    }
    plan.hierarchies.push_back({.base = own->folder});
    plan.hierarchies.back().*use = true;
  };
  take_v1("memory", &GroupHierarchy::memory);
  take_v1("pids", &GroupHierarchy::pids);
  take_v1("cpu", &GroupHierarchy::cpu);
  if (const auto own = own_group(mounts, own_cgroups, "")) plan_v2(plan, *own, folders, wanted);
  for (const std::string& name : wanted) {
    plan.missing.push_back(name.find(": ") != std::string::npos
                               ? name
                               : fmt::format("{}: no mounted cgroup hierarchy of this process has this controller; as "
                                             "root, enable it in cgroup.subtree_control of the groups above",
                                             name));
  }
  return plan;
}

std::vector<GroupWrite> limit_writes(const GroupHierarchy& hierarchy, const GroupLimits& limits) {
  std::vector<GroupWrite> writes;
  if (hierarchy.memory && limits.memory_bytes > 0) {
    const std::string bytes = std::to_string(limits.memory_bytes);
    if (hierarchy.v2) {
      writes.push_back({.file = "memory.max", .text = bytes});
      writes.push_back({.file = "memory.swap.max", .text = "0", .if_present = true});
    } else {
      writes.push_back({.file = "memory.limit_in_bytes", .text = bytes});
      // Memory and swap together, never below the limit of memory.
      writes.push_back({.file = "memory.memsw.limit_in_bytes", .text = bytes, .if_present = true});
    }
  }
  if (hierarchy.pids && limits.processes > 0)
    writes.push_back({.file = "pids.max", .text = std::to_string(limits.processes)});
  if (hierarchy.cpu && limits.cpus) {
    const double cpus = std::max(kLeastCpus, *limits.cpus);
    const auto scaled = [cpus](int64_t one, int64_t most) {
      return std::to_string(std::min(most, static_cast<int64_t>(std::llround(cpus * static_cast<double>(one)))));
    };
    if (hierarchy.v2)
      writes.push_back({.file = "cpu.weight", .text = scaled(kV2WeightOfCpu, kV2WeightMax)});
    else
      writes.push_back({.file = "cpu.shares", .text = scaled(kV1SharesOfCpu, kV1SharesMax)});
  }
  return writes;
}

std::string group_name(std::string_view cluster, std::string_view node_name, std::string_view node_id) {
  return fmt::format("volador-{}-{}-{}", cluster, node_name, node_id);
}

}  // namespace volador::worker
