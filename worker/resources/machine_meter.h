// Disks, network, temperature and power of this machine.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/protocol/control.pb.h"

namespace volador::worker {

// A folder whose file system the worker depends on, and its use ("logs"); with an empty use the file system is reported
// anyway.
struct UsedFolder {
  std::string use;
  std::filesystem::path path;
};

// Reads /proc and /sys, about 0.2 ms per reading; a network file system may block it indefinitely, so it runs on its
// own thread (MachineWatch). Unavailable values stay absent. One thread.
class MachineMeter {
 public:
  // `root` contains proc/, sys/ ("/" except in tests) and the folders. Searches for sensors once.
  explicit MachineMeter(std::vector<UsedFolder> folders, std::filesystem::path root = "/");

  // Rates and power are means since the previous reading; the first reading has none.
  protocol::MachineUsage read(BootTime now);

 private:
  using Counters = std::map<std::string, std::array<uint64_t, 2>>;  // By device: read, written or received, sent.

  void read_file_systems(protocol::MachineUsage& usage) const;
  Counters disks() const;
  Counters networks() const;
  std::optional<double> temperature() const;
  std::map<std::filesystem::path, uint64_t> energies() const;  // Microjoules by zone.

  const std::vector<UsedFolder> folders_;
  const std::filesystem::path root_;
  std::vector<std::filesystem::path> temperatures_;         // Files with millidegrees.
  std::map<std::filesystem::path, uint64_t> energy_zones_;  // Folders, and where their counter wraps around.
  std::optional<BootTime> last_;
  Counters last_disks_, last_networks_;
  std::map<std::filesystem::path, uint64_t> last_energies_;
};

}  // namespace volador::worker
