#include "worker/resources/machine_meter.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "worker/hosts/cgroup.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSectorBytes = 512;  // Unit of /proc/diskstats, regardless of the disk's sector size.
constexpr double kCelsiusMax = 150;     // Sensors without a reading report 0 or impossible values.

struct Mount {
  fs::path point;
  std::string type;
};

// Decodes mountinfo escapes: "\040" is a space.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 3)), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// "27 1 254:0 / /mount rw shared:1 - ext4 /dev/vda rw"
std::vector<Mount> mounts(const fs::path& root) {
  std::vector<Mount> found;
  std::istringstream lines(read_small_file(root / "proc/self/mountinfo").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash)), after(line.substr(dash + 3));
    std::string skipped, point, type;
    before >> skipped >> skipped >> skipped >> skipped >> point;
    after >> type;
    if (!point.empty() && !type.empty()) found.push_back({unescaped(point), type});
  }
  return found;
}

bool lies_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

// Returns the mount of a path. If several are mounted on one point, the last one counts.
const Mount* mount_of(const std::vector<Mount>& all, const fs::path& path) {
  const Mount* deepest = nullptr;
  for (const Mount& mount : all) {
    if (!lies_below(path, mount.point)) continue;
    if (deepest == nullptr || mount.point.native().size() >= deepest->point.native().size()) deepest = &mount;
  }
  return deepest;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    paths.push_back(entry->path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Returns sensor files of the processor: of its package if named so, otherwise of its cores.
std::vector<fs::path> processor_temperatures(const fs::path& root) {
  constexpr std::array<std::string_view, 5> kDrivers{"coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal"};
  std::vector<fs::path> packages, all;
  for (const fs::path& monitor : entries_of(root / "sys/class/hwmon")) {
    const std::string name = read_small_file(monitor / "name").value_or("");
    if (std::find(kDrivers.begin(), kDrivers.end(), name) == kDrivers.end()) continue;
    for (const fs::path& file : entries_of(monitor)) {
      const std::string sensor = file.filename();
      if (!sensor.starts_with("temp") || !sensor.ends_with("_input")) continue;
      all.push_back(file);
      const std::string label = read_small_file(monitor / (sensor.substr(0, sensor.size() - 5) + "label")).value_or("");
      if (label.starts_with("Package") || label == "Tctl" || label == "Tdie") packages.push_back(file);
    }
  }
  if (!packages.empty()) return packages;
  if (!all.empty()) return all;
  for (const fs::path& zone : entries_of(root / "sys/class/thermal")) {
    const std::string type = read_small_file(zone / "type").value_or("");
    if (type == "x86_pkg_temp" || type.starts_with("cpu")) all.push_back(zone / "temp");
  }
  return all;
}

// Returns RAPL's "package-0" zones without their subzones.
std::map<fs::path, uint64_t> package_zones(const fs::path& root) {
  std::map<fs::path, uint64_t> zones;
  for (const fs::path& zone : entries_of(root / "sys/class/powercap")) {
    if (!read_small_file(zone / "name").value_or("").starts_with("package")) continue;
    if (!read_number(zone / "energy_uj")) continue;  // Readable only by root on most kernels.
    zones[zone] = static_cast<uint64_t>(read_number(zone / "max_energy_range_uj").value_or(0));
  }
  return zones;
}

using Pair = std::array<double, 2>;

// Sums the growth of devices present before; a decreased counter belongs to another device.
template <class Counters>
Pair grown(const Counters& before, const Counters& now) {
  Pair sums{};
  for (const auto& [name, counters] : now) {
    const auto old = before.find(name);
    if (old == before.end()) continue;
    for (size_t i = 0; i < sums.size(); ++i) {
      if (counters[i] >= old->second[i]) sums[i] += static_cast<double>(counters[i] - old->second[i]);
    }
  }
  return sums;
}

}  // namespace

MachineMeter::MachineMeter(std::vector<UsedFolder> folders, fs::path root)
    : folders_(std::move(folders)),
      root_(std::move(root)),
      temperatures_(processor_temperatures(root_)),
      energy_zones_(package_zones(root_)) {}

void MachineMeter::read_file_systems(protocol::MachineUsage& usage) const {
  const std::vector<Mount> all = mounts(root_);
  std::map<fs::path, protocol::FileSystemUsage*> rows;
  for (const UsedFolder& folder : folders_) {
    const Mount* mount = mount_of(all, folder.path);
    if (mount == nullptr) continue;
    protocol::FileSystemUsage*& row = rows[mount->point];
    if (row == nullptr) {
      struct statvfs space {};
      if (::statvfs((root_ / mount->point.relative_path()).c_str(), &space) != 0 || space.f_blocks == 0) continue;
      row = usage.add_file_systems();
      row->set_path(mount->point);
      row->set_type(mount->type);
      row->set_total_bytes(static_cast<int64_t>(space.f_blocks * space.f_frsize));
      row->set_free_bytes(static_cast<int64_t>(space.f_bavail * space.f_frsize));
    }
    if (!folder.use.empty()) row->add_uses(folder.use);
  }
}

// Physical disks only: partitions and stacked devices (dm, md, loop) would count twice.
MachineMeter::Counters MachineMeter::disks() const {
  Counters found;
  std::istringstream lines(read_small_file(root_ / "proc/diskstats").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skipped, name;
    uint64_t sectors_read = 0, sectors_written = 0;
    words >> skipped >> skipped >> name >> skipped >> skipped >> sectors_read >> skipped >> skipped >> skipped >>
        sectors_written;
    std::error_code error;
    if (words && fs::exists(root_ / "sys/block" / name / "device", error))
      found[name] = {sectors_read * kSectorBytes, sectors_written * kSectorBytes};
  }
  return found;
}

// Network cards: bridges and tunnels would count bytes twice. A container has no card but its end of a veth pair.
MachineMeter::Counters MachineMeter::networks() const {
  Counters cards, others;
  std::istringstream lines(read_small_file(root_ / "proc/net/dev").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string name = line.substr(line.find_first_not_of(' '), colon - line.find_first_not_of(' '));
    if (name == "lo") continue;
    std::istringstream words(line.substr(colon + 1));
    std::array<uint64_t, 9> numbers{};
    for (uint64_t& number : numbers) words >> number;
    if (!words) continue;
    std::error_code error;
    (fs::exists(root_ / "sys/class/net" / name / "device", error) ? cards : others)[name] = {numbers[0], numbers[8]};
  }
  return cards.empty() ? others : cards;
}

std::optional<double> MachineMeter::temperature() const {
  std::optional<double> hottest;
  for (const fs::path& file : temperatures_) {
    const auto found = read_number(file);
    const double celsius = static_cast<double>(found.value_or(0)) / 1000;
    if (celsius > 0 && celsius < kCelsiusMax) hottest = std::max(hottest.value_or(0), celsius);
  }
  return hottest;
}

std::map<fs::path, uint64_t> MachineMeter::energies() const {
  std::map<fs::path, uint64_t> found;
  for (const auto& [zone, range] : energy_zones_) {
    if (const auto energy = read_number(zone / "energy_uj")) found[zone] = static_cast<uint64_t>(*energy);
  }
  return found;
}

protocol::MachineUsage MachineMeter::read(BootTime now) {
  protocol::MachineUsage usage;
  read_file_systems(usage);
  if (const auto celsius = temperature()) usage.set_cpu_temperature_celsius(*celsius);
  Counters disks_now = disks(), networks_now = networks();
  auto energies_now = energies();
  if (last_ && now > *last_) {
    const double seconds = std::chrono::duration<double>(now - *last_).count();
    if (!disks_now.empty()) {
      const Pair bytes = grown(last_disks_, disks_now);
      usage.set_disk_read_bytes_per_s(bytes[0] / seconds);
      usage.set_disk_write_bytes_per_s(bytes[1] / seconds);
    }
    if (!networks_now.empty()) {
      const Pair bytes = grown(last_networks_, networks_now);
      usage.set_network_receive_bytes_per_s(bytes[0] / seconds);
      usage.set_network_send_bytes_per_s(bytes[1] / seconds);
    }
    double joules = 0;
    for (const auto& [zone, energy] : energies_now) {
      const auto old = last_energies_.find(zone);
      if (old == last_energies_.end()) continue;
      const uint64_t wrapped = energy < old->second ? energy_zones_.at(zone) : 0;
      joules += static_cast<double>(energy + wrapped - old->second) / 1e6;
    }
    if (!energies_now.empty()) usage.set_cpu_power_watts(joules / seconds);
  }
  last_ = now;
  last_disks_ = std::move(disks_now);
  last_networks_ = std::move(networks_now);
  last_energies_ = std::move(energies_now);
  return usage;
}

}  // namespace volador::worker
