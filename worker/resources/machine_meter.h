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

// A folder whose file system the worker depends on, and what it keeps there ("logs"); an empty use: the file system is shown all the same.
struct UsedFolder {
  std::string use;
  std::filesystem::path path;
};

// Reads /proc and /sys, about 0.2 ms a reading; a file system of another machine may block it for as long as it likes, so it belongs on a
// thread of its own (MachineWatch). What the machine does not tell stays absent. One thread.
class MachineMeter {
 public:
  // Below `root` lie proc/ and sys/ ("/" but for tests), and the folders. Looks for sensors once.
  explicit MachineMeter(std::vector<UsedFolder> folders, std::filesystem::path root = "/");

  // Rates and power are means since the reading before; the first reading has none.
  protocol::MachineUsage read(BootTime now);

 private:
  using Counters = std::map<std::string, std::array<uint64_t, 2>>;  // By device: read and written, or received and sent.

  void read_file_systems(protocol::MachineUsage& usage) const;
  Counters disks() const;
  Counters networks() const;
  std::optional<double> temperature() const;
  std::map<std::filesystem::path, uint64_t> energies() const;  // Microjoules by zone.

  const std::vector<UsedFolder> folders_;
  const std::filesystem::path root_;
  std::vector<std::filesystem::path> temperatures_;                // Files with millidegrees.
  std::map<std::filesystem::path, uint64_t> energy_zones_;         // Folders, and where their counter begins anew.
  std::optional<BootTime> last_;
  Counters last_disks_, last_networks_;
  std::map<std::filesystem::path, uint64_t> last_energies_;
};

}  // namespace volador::worker
