#include "worker/hosts/host_groups.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

#include "runtime/log.h"
#include "runtime/net/unique_fd.h"
#include "runtime/paths.h"
#include "worker/hosts/cgroup.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr auto kEmptyPoll = milliseconds(1);
constexpr int kPollsATurn = 50;  // Then the ends of other groups have their turn.
constexpr auto kRemovePatience = milliseconds(1000);
constexpr long kCgroupMagic = 0x27e0eb, kCgroup2Magic = 0x63677270;
constexpr std::string_view kGroupPrefix = "volador-";

// Returns 0 or errno.
int write_control(const fs::path& file, std::string_view text) {
  const net::UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return errno;
  const ssize_t written = ::write(fd.get(), text.data(), text.size());
  return written == static_cast<ssize_t>(text.size()) ? 0 : errno;
}

// Returns the processes in a group, without those of its children; nothing if it does not exist.
std::vector<pid_t> processes_in(const fs::path& group) {
  std::vector<pid_t> pids;
  std::ifstream in(group / "cgroup.procs");
  for (pid_t pid = 0; in >> pid;) {
    if (pid > 0) pids.push_back(pid);  // 0: of another pid namespace.
  }
  return pids;
}

std::vector<fs::path> children_in(const fs::path& group) {
  std::vector<fs::path> children;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(group, error)) {
    std::error_code ignored;
    if (entry.is_directory(ignored)) children.push_back(entry.path());
  }
  return children;
}

// Starts to kill everything in a group and its children. Call it until the group is empty: without cgroup.kill, a
// process that forks meanwhile is found the next time.
void kill_group(const fs::path& group) {
  if (write_control(group / "cgroup.kill", "1") == 0) return;
  write_control(group / "pids.max", "0");       // v1: no further forks.
  write_control(group / "cgroup.freeze", "1");  // v2 before Linux 5.14; killed processes leave it frozen.
  for (const pid_t pid : processes_in(group)) ::kill(pid, SIGKILL);
  for (const fs::path& child : children_in(group)) kill_group(child);
}

// Returns false while processes or child groups are left.
bool remove_group(const fs::path& group) { return ::rmdir(group.c_str()) == 0 || errno == ENOENT; }

bool remove_tree(const fs::path& group) {
  for (const fs::path& child : children_in(group)) remove_tree(child);
  return remove_group(group);
}

// Removes the groups; kills what is left in one of them. `groups`: one that has cgroup.kill is the last. Returns false
// while something is left: call it again.
bool end_groups(const std::vector<fs::path>& groups) {
  bool gone = true;
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    if (remove_tree(*group)) continue;
    kill_group(*group);
    if (::access((*group / "cgroup.kill").c_str(), F_OK) == 0) return false;  // The others hold the same processes.
    gone = false;
  }
  return gone;
}

bool is_cgroup_folder(const fs::path& folder) {
  struct statfs info {};
  return ::statfs(folder.c_str(), &info) == 0 && (info.f_type == kCgroupMagic || info.f_type == kCgroup2Magic);
}

bool is_same_program(pid_t pid, const fs::path& root) {
  struct stat own {
  }, other{};
  return ::stat((root / "proc/self/exe").c_str(), &own) == 0 &&
         ::stat((root / "proc" / std::to_string(pid) / "exe").c_str(), &other) == 0 && own.st_dev == other.st_dev &&
         own.st_ino == other.st_ino;
}

GroupFolder look_at(const fs::path& folder, const fs::path& root) {
  GroupFolder found;
  found.writable = ::access(folder.c_str(), W_OK) == 0 && ::access((folder / "cgroup.procs").c_str(), W_OK) == 0;
  found.controllers = read_small_file(folder / "cgroup.controllers").value_or("");
  found.subtree_control = read_small_file(folder / "cgroup.subtree_control").value_or("");
  found.is_root = ::access((folder / "cgroup.type").c_str(), F_OK) != 0;
  // The root of the hierarchy has no cgroup.kill, but its groups have it since the version that added it.
  struct stat info {};
  found.has_kill = !found.is_root && ::stat((folder / "cgroup.kill").c_str(), &info) == 0;
  for (const pid_t pid : processes_in(folder)) found.has_other_processes |= !is_same_program(pid, root);
  return found;
}

}  // namespace

// Folders of the worker's group.
struct HostGroups::Files {
  struct Place {
    GroupHierarchy hierarchy;
    fs::path folder;
    // Only hosts with a memory limit get a group here: of all hierarchies, memory costs the most.
    bool only_memory() const {
      return hierarchy.memory && !hierarchy.pids && !hierarchy.cpu && !hierarchy.kill && !hierarchy.v2;
    }
  };
  std::vector<Place> places;

  // Returns an empty text or what failed.
  std::string apply(const std::string& name, pid_t pid, const GroupLimits& limits) const;
  End read_end(const std::string& name) const;
  std::vector<fs::path> folders_of(const std::string& name) const;
};

// The end of one group. Each turn on the thread continues it.
struct HostGroups::Ending {
  std::shared_ptr<const Files> files;
  GroupPtr group;
  std::function<void(const End&)> done;
  SteadyTime until;
  End end = {};
  bool was_read = false;
};

std::string HostGroups::Files::apply(const std::string& name, pid_t pid, const GroupLimits& limits) const {
  for (const Place& place : places) {
    if (place.only_memory() && limits.memory_bytes == 0) continue;
    const fs::path group = place.folder / name;
    const bool made = ::mkdir(group.c_str(), 0755) == 0;
    if (!made && errno != EEXIST) return fmt::format("mkdir {}: {}", group.string(), std::strerror(errno));
    for (const GroupWrite& write : limit_writes(place.hierarchy, limits)) {
      const int error = write_control(group / write.file, write.text);
      if (error == 0 || (write.if_present && (error == ENOENT || error == EACCES || error == EOPNOTSUPP))) continue;
      return fmt::format("{} to {}: {}", write.text, (group / write.file).string(), std::strerror(error));
    }
    if (!made) continue;
    const int error = write_control(group / "cgroup.procs", std::to_string(pid));
    if (error != 0 && error != ESRCH)  // It has ended.
      return fmt::format("process {} to {}: {}", pid, group.string(), std::strerror(error));
  }
  return {};
}

HostGroups::End HostGroups::Files::read_end(const std::string& name) const {
  End end;
  for (const Place& place : places) {
    const fs::path group = place.folder / name;
    if (place.hierarchy.memory) {
      const char* file = place.hierarchy.v2 ? "memory.events" : "memory.oom_control";
      end.out_of_memory |= read_keyed_number(group / file, "oom_kill").value_or(0) > 0;
    }
    if (place.hierarchy.pids) end.process_limit |= read_keyed_number(group / "pids.events", "max").value_or(0) > 0;
  }
  return end;
}

std::vector<fs::path> HostGroups::Files::folders_of(const std::string& name) const {
  std::vector<fs::path> folders;
  folders.reserve(places.size());
  for (const Place& place : places) folders.push_back(name.empty() ? place.folder : place.folder / name);
  return folders;
}

Result<std::unique_ptr<HostGroups>> HostGroups::create(net::IoLoop& loop, HostGroupOptions options) {
  const std::string mounts = read_small_file(options.root / "proc/self/mountinfo").value_or("");
  const std::string own = read_small_file(options.root / "proc/self/cgroup").value_or("");
  std::map<std::string, GroupFolder> folders;
  for (const std::string& folder : folders_to_read(mounts, own)) folders.emplace(folder, look_at(folder, options.root));
  GroupPlan plan = plan_groups(mounts, own, folders);

  auto files = std::make_shared<Files>();
  for (GroupHierarchy& hierarchy : plan.hierarchies) {
    const fs::path base = hierarchy.base;
    const auto give_up = [&](const std::string& what, int error) {
      plan.missing.push_back(fmt::format("{}: {}", what, std::strerror(error)));
      log::debug("worker", "a cgroup hierarchy is not used", {{"folder", hierarchy.base}});
    };
    if (hierarchy.v2 && !plan.leaf.empty()) {
      const fs::path leaf = base / plan.leaf;
      if (::mkdir(leaf.c_str(), 0755) != 0 && errno != EEXIST) {
        give_up("mkdir " + leaf.string(), errno);
        continue;
      }
      for (const pid_t pid : processes_in(base)) write_control(leaf / "cgroup.procs", std::to_string(pid));
    }
    if (hierarchy.v2 && !plan.enable.empty() && !plan.base_has_controllers) {
      if (const int error = write_control(base / "cgroup.subtree_control", plan.enable); error != 0) {
        give_up(fmt::format("{} to {}/cgroup.subtree_control", plan.enable, hierarchy.base), error);
        hierarchy.memory = hierarchy.pids = hierarchy.cpu = false;
        plan.enable.clear();
      }
    }
    const fs::path folder = base / options.name;
    if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
      give_up("mkdir " + folder.string(), errno);
      continue;
    }
    if (hierarchy.v2 && !plan.enable.empty()) {
      if (const int error = write_control(folder / "cgroup.subtree_control", plan.enable); error != 0) {
        give_up(fmt::format("{} to {}/cgroup.subtree_control", plan.enable, folder.string()), error);
        hierarchy.memory = hierarchy.pids = hierarchy.cpu = false;
      }
    }
    hierarchy.kill = hierarchy.v2 && ::access((folder / "cgroup.kill").c_str(), W_OK) == 0;
    for (const GroupWrite& write : limit_writes(hierarchy, {.cpus = options.cpus}))
      write_control(folder / write.file, write.text);
    files->places.push_back({.hierarchy = hierarchy, .folder = folder});
  }
  if (files->places.empty()) {
    return make_error(ErrorCode::kUnavailable, plan.missing.empty() ? std::string("no cgroup hierarchy is mounted")
                                                                    : fmt::format("{}", fmt::join(plan.missing, "; ")));
  }
  if (!options.record.empty()) {
    std::string record;
    for (const Files::Place& place : files->places) record += place.folder.string() + "\n";
    VOLADOR_TRY(write_file_atomic(options.record, record, 0600));
  }
  return std::unique_ptr<HostGroups>(
      new HostGroups(loop, std::move(files), std::move(options), std::move(plan.missing)));
}

HostGroups::HostGroups(net::IoLoop& loop, std::shared_ptr<const Files> files, HostGroupOptions options,
                       std::vector<std::string> missing)
    : files_(std::move(files)),
      options_(std::move(options)),
      missing_(std::move(missing)),
      placing_("groups", [&loop](JobThread::Then then) { loop.post(std::move(then)); }),
      ending_("groups-end", [&loop](JobThread::Then then) { loop.post(std::move(then)); }) {}

HostGroups::~HostGroups() {
  *alive_ = false;
  placing_.wait_until_idle(kRemovePatience);
  ending_.wait_until_idle(kRemovePatience);
  const SteadyTime end = std::chrono::steady_clock::now() + kRemovePatience;
  const auto groups = files_->folders_of("");
  bool gone = end_groups(groups);
  while (!gone && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kEmptyPoll);
    gone = end_groups(groups);
  }
  std::error_code ignored;
  if (gone && !options_.record.empty()) fs::remove(options_.record, ignored);
}

GroupLimits HostGroups::limits_for(int64_t memory_bytes, double cpus) const {
  return {.memory_bytes = memory_bytes, .processes = options_.processes_max, .cpus = cpus};
}

HostGroups::GroupPtr HostGroups::place(pid_t pid, const GroupLimits& limits, std::function<void()> done) {
  auto group = std::make_shared<Group>(fmt::format("host-{}", ++last_));
  change(group, pid, limits, std::move(done));
  return group;
}

void HostGroups::change(const GroupPtr& group, pid_t pid, const GroupLimits& limits, std::function<void()> done) {
  group->memory_limit_bytes = limits.memory_bytes;
  placing_.post(
      [this, files = files_, group, pid, limits, done = std::move(done), alive = alive_]() mutable -> JobThread::Then {
        std::string failure = files->apply(group->name, pid, limits);
        return [this, alive, failure = std::move(failure), done = std::move(done)] {
          if (!*alive) return;
          if (!failure.empty() && !std::exchange(failure_told_, true)) {
            log::warn("worker", "a process could not be limited; it runs without its limits, and so may others",
                      {{"reason", failure}});
          }
          if (done) done();
        };
      });
}

void HostGroups::end(GroupPtr group, std::function<void(const End&)> done) {
  take_turn(std::make_shared<Ending>(Ending{.files = files_,
                                            .group = std::move(group),
                                            .done = std::move(done),
                                            .until = std::chrono::steady_clock::now() + kEndPatience}));
}

void HostGroups::take_turn(const std::shared_ptr<Ending>& ending) {
  ending_.post([this, ending, alive = alive_]() -> JobThread::Then {
    if (!std::exchange(ending->was_read, true)) ending->end = ending->files->read_end(ending->group->name);
    const auto folders = ending->files->folders_of(ending->group->name);
    bool gone = end_groups(folders);
    for (int i = 1; i < kPollsATurn && !gone; ++i) {
      std::this_thread::sleep_for(kEmptyPoll);
      gone = end_groups(folders);
    }
    return [this, ending, gone, alive] {
      if (!*alive) return;
      if (!gone && std::chrono::steady_clock::now() < ending->until) return take_turn(ending);
      if (!gone) {
        log::warn("worker", "processes of an ended actor do not end although they were killed",
                  {{"group", ending->group->name}});
      }
      if (ending->done) ending->done(ending->end);
    };
  });
}

HostGroups::Reader HostGroups::reader() const { return Reader(files_); }

void HostGroups::kill_all() {
  for (auto place = files_->places.rbegin(); place != files_->places.rend(); ++place) {
    kill_group(place->folder);
    if (place->hierarchy.kill) return;
  }
}

HostGroups::Reading HostGroups::Reader::read(const Group& group) const {
  Reading reading;
  if (files_->places.empty()) return reading;
  for (const Files::Place& place : files_->places) {
    if (place.hierarchy.pids)
      reading.process_limit |= read_keyed_number(place.folder / group.name / "pids.events", "max").value_or(0) > 0;
  }
  const Files::Place& last = files_->places.back();  // Every host has a group there.
  reading.pids = processes_in(last.folder / group.name);
  if (const auto microseconds = read_keyed_number(last.folder / group.name / "cpu.stat", "usage_usec"))
    reading.cpu_seconds = static_cast<double>(*microseconds) / 1e6;
  return reading;
}

size_t remove_groups(const fs::path& record, milliseconds patience) {
  std::ifstream in(record);
  if (!in) return 0;
  std::vector<fs::path> groups;
  for (std::string line; std::getline(in, line);) {
    const fs::path group = line;
    // The file might be damaged: nothing else is ever removed.
    if (group.filename().string().starts_with(kGroupPrefix) && is_cgroup_folder(group)) groups.push_back(group);
  }
  std::set<pid_t> processes;
  for (const fs::path& group : groups) {
    for (const fs::path& child : children_in(group)) {
      for (const pid_t pid : processes_in(child)) processes.insert(pid);
    }
  }
  const SteadyTime end = std::chrono::steady_clock::now() + patience;
  while (!end_groups(groups)) {
    if (std::chrono::steady_clock::now() > end) return processes.size();
    std::this_thread::sleep_for(kEmptyPoll);
  }
  std::error_code ignored;
  fs::remove(record, ignored);
  return processes.size();
}

}  // namespace volador::worker
