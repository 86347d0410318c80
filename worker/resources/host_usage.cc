#include "worker/resources/host_usage.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "worker/hosts/cgroup.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

struct Stat {
  int group = 0;
  double cpu_seconds = 0;  // Including ended children.
  double own_seconds = 0;
  double started_seconds = 0;
};

// "pid (name, with anything in it) state parent group session tty tpgid flags minflt cminflt majflt cmajflt utime stime cutime cstime priority
// nice threads itrealvalue starttime …"
std::optional<Stat> stat_of(const std::string& text) {
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(name_end + 1));
  std::string state;
  int64_t skipped = 0, ticks = 0;
  Stat stat;
  words >> state >> skipped >> stat.group;
  for (int i = 0; i < 8; ++i) words >> skipped;
  int64_t sum = 0;
  for (int i = 0; i < 4; ++i) {
    words >> ticks;
    sum += ticks;
    if (i == 1) stat.own_seconds = static_cast<double>(sum) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }
  if (!words) return std::nullopt;
  stat.cpu_seconds = static_cast<double>(sum) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  for (int i = 0; i < 5; ++i) words >> ticks;
  if (words) stat.started_seconds = static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return stat;
}

int64_t anonymous_bytes(const std::string& status) {
  constexpr std::string_view kKey = "RssAnon:";
  const size_t at = status.find(kKey);
  return at == std::string::npos ? 0 : std::strtoll(status.c_str() + at + kKey.size(), nullptr, 10) * 1024;
}

}  // namespace

std::map<int, GroupUsage> usage_of_groups(const std::set<int>& leaders, const fs::path& root,
                                          const std::map<int, ControlGroupUsage>& control_groups) {
  std::map<int, GroupUsage> usages;
  if (leaders.empty()) return usages;
  std::map<int, int> leader_of;
  for (const auto& [leader, control_group] : control_groups) {
    for (const int pid : control_group.pids) leader_of[pid] = leader;
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    auto stat = stat_of(read_small_file(entry.path() / "stat").value_or(""));
    if (!stat) continue;
    if (const auto known = leader_of.find(std::atoi(name.c_str())); known != leader_of.end())
      stat->group = known->second;
    if (!leaders.contains(stat->group)) continue;
    GroupUsage& usage = usages[stat->group];
    if (name == std::to_string(stat->group)) usage.started_seconds = stat->started_seconds;
    usage.cpu_seconds += stat->cpu_seconds;
    usage.memory_bytes += anonymous_bytes(read_small_file(entry.path() / "status").value_or(""));
  }
  for (const auto& [leader, control_group] : control_groups) {
    const auto found = usages.find(leader);
    if (found != usages.end() && control_group.cpu_seconds) found->second.cpu_seconds = *control_group.cpu_seconds;
  }
  return usages;
}

std::optional<GroupUsage> usage_of_process(int pid, const fs::path& root) {
  const fs::path folder = root / "proc" / std::to_string(pid);
  const auto stat = stat_of(read_small_file(folder / "stat").value_or(""));
  if (!stat) return std::nullopt;
  return GroupUsage{.cpu_seconds = stat->own_seconds,
                    .memory_bytes = anonymous_bytes(read_small_file(folder / "status").value_or("")),
                    .started_seconds = stat->started_seconds};
}

void CpuRates::look(BootTime now, const std::map<int, GroupUsage>& usages) {
  if (now - newest_.at >= kLeast) before_ = std::move(newest_);
  newest_ = {.at = now, .cpu_seconds = {}};
  for (const auto& [pid, usage] : usages) newest_.cpu_seconds[pid] = usage.cpu_seconds;
}

std::optional<double> CpuRates::cores(int pid) const {
  const auto from = before_.cpu_seconds.find(pid), to = newest_.cpu_seconds.find(pid);
  if (from == before_.cpu_seconds.end() || to == newest_.cpu_seconds.end() || newest_.at <= before_.at)
    return std::nullopt;
  return std::max(0.0, to->second - from->second) / std::chrono::duration<double>(newest_.at - before_.at).count();
}

std::vector<protocol::HostUsage> HostUsage::take(BootTime now, const std::vector<Host>& hosts,
                                                 const std::map<int, GroupUsage>& groups) {
  std::vector<protocol::HostUsage> rows;
  std::map<int, Seen> seen;
  std::map<int, protocol::CallCount> counted;
  for (const Host& host : hosts) {
    const auto group = groups.find(host.pid);
    if (group == groups.end()) continue;
    const auto calls = calls_.find(host.pid);
    if (calls != calls_.end()) counted.insert(*calls);
    const protocol::CallCount count = calls == calls_.end() ? protocol::CallCount() : calls->second;
    const Seen here{
        .at = now, .cpu_seconds = group->second.cpu_seconds, .calls = count.calls(), .busy_ns = count.busy_ns()};
    const auto before = seen_.find(host.pid);
    seen[host.pid] = here;
    if (before == seen_.end() || now <= before->second.at) continue;
    const Seen& last = before->second;
    const double seconds = std::chrono::duration<double>(now - last.at).count();
    const uint64_t ended = here.calls - std::min(here.calls, last.calls);
    protocol::HostUsage& row = rows.emplace_back();
    row.set_actor_id(host.actor);
    row.set_cpu_cores(std::max(0.0, here.cpu_seconds - last.cpu_seconds) / seconds);
    row.set_memory_bytes(group->second.memory_bytes);
    row.set_calls_per_s(static_cast<double>(ended) / seconds);
    if (ended > 0)
      row.set_call_ms(static_cast<double>(here.busy_ns - std::min(here.busy_ns, last.busy_ns)) /
                      static_cast<double>(ended) / 1e6);
  }
  seen_ = std::move(seen);
  calls_ = std::move(counted);
  return rows;
}

}  // namespace volador::worker
