// Which control groups the hosts of a worker get, and the writes for their limits. Pure: the texts of the kernel are
// arguments.
//
// Hybrid systems mount the v1 controllers one by one and v2 beside them without controllers: limits then need a group
// in each v1 hierarchy, and a v2 group ends the processes. With v2 alone one group does everything.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace volador::worker {

// A mounted hierarchy of control groups.
struct CgroupMount {
  std::string point;  // "/sys/fs/cgroup/memory".
  std::string root;   // The group that is visible at `point`.
  bool v2 = false;
  bool read_only = false;
  std::vector<std::string> controllers;  // v1: "cpu", "cpuacct"; v2: empty.
};
// Parses /proc/self/mountinfo; lines of other file systems are skipped.
[[nodiscard]] std::vector<CgroupMount> parse_cgroup_mounts(std::string_view mountinfo);

// Folder of a process's group in a hierarchy.
struct OwnGroup {
  std::string folder;
  std::string parent;  // Empty: it is the root of the mount.
  bool read_only = false;
};
// Returns the folder for a v1 controller, or for v2 (""), from the text of /proc/self/cgroup. Nothing: not mounted, or
// the group lies outside of what is mounted.
[[nodiscard]] std::optional<OwnGroup> own_group(const std::vector<CgroupMount>& mounts, std::string_view own_cgroups,
                                                std::string_view controller);

// Files of a group's folder.
struct GroupFolder {
  bool writable = false;             // This process may create groups in it.
  std::string controllers;           // cgroup.controllers: "cpuset cpu io memory pids"; v1: empty.
  std::string subtree_control;       // cgroup.subtree_control.
  bool is_root = false;              // Root of the machine's v2 hierarchy: it may have processes and controllers.
  bool has_kill = false;             // The kernel has cgroup.kill (Linux 5.14).
  bool has_other_processes = false;  // It has processes of other programs than Volador.
};

// A hierarchy in which the worker creates its group.
struct GroupHierarchy {
  std::string base;  // The worker's group is created in this folder.
  bool v2 = false;
  bool memory = false, pids = false, cpu = false, kill = false;  // What it is used for.

  bool operator==(const GroupHierarchy&) const = default;
};

// What a worker can do with control groups.
struct GroupPlan {
  std::vector<GroupHierarchy> hierarchies;  // The one that can kill is the last.
  // v2 does not allow processes in a group that passes controllers on: those of the base are moved to its child of this
  // name first. Empty: not needed.
  std::string leaf;
  std::string enable;                 // Text for cgroup.subtree_control of the base and of the worker's group (v2).
  bool base_has_controllers = false;  // The base passes them on already.
  std::vector<std::string> missing;   // What hosts do not get, each with its reason.

  bool has(bool GroupHierarchy::*use) const;
};
// `folders`: by path; a missing folder counts as not writable.
[[nodiscard]] GroupPlan plan_groups(std::string_view mountinfo, std::string_view own_cgroups,
                                    const std::map<std::string, GroupFolder>& folders);
// Returns the folders that plan_groups looks at.
[[nodiscard]] std::vector<std::string> folders_to_read(std::string_view mountinfo, std::string_view own_cgroups);

inline constexpr std::string_view kLeafGroup = "volador-daemons";

// Limits of one group.
struct GroupLimits {
  int64_t memory_bytes = 0;    // 0: none.
  int64_t processes = 0;       // Processes and threads; 0: no limit.
  std::optional<double> cpus;  // Share of CPU time in proportion to other groups; no value: the kernel's default.

  bool operator==(const GroupLimits&) const = default;
};
struct GroupWrite {
  std::string file;
  std::string text;
  bool if_present = false;  // Kernels without the file are fine.

  bool operator==(const GroupWrite&) const = default;
};
// Returns the writes for a new group, in order.
[[nodiscard]] std::vector<GroupWrite> limit_writes(const GroupHierarchy& hierarchy, const GroupLimits& limits);

// "volador-CLUSTER-NODE-1f3a9c02": two clusters of one name do not share it.
[[nodiscard]] std::string group_name(std::string_view cluster, std::string_view node_name, std::string_view node_id);

}  // namespace volador::worker
