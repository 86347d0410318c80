// Reads what the health rules need from /proc, /sys and the file systems.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/protocol/control.pb.h"
#include "worker/resources/health_rules.h"

namespace volador::worker {

// Name of the network card that has the numeric address; empty: none.
[[nodiscard]] std::string card_with_address(const std::string& address);

// A network file system may block it indefinitely, so it runs on its own thread (MachineWatch). One thread.
class HealthReader {
 public:
  // Watches the cards that carry a default route now, and `card` (empty: none), if they are up. `root` contains proc/
  // and sys/ ("/" except in tests).
  explicit HealthReader(const std::string& card, std::filesystem::path root = "/");

  // Without GPUs. `usage`: the newest measurement of the machine.
  HealthSample read(const protocol::MachineUsage& usage) const;

 private:
  bool is_up(const std::string& card) const;

  const std::filesystem::path root_;
  std::vector<std::string> cards_;
};

}  // namespace volador::worker
