// Private memory of a process, as accounted by the kernel.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace volador::bench {

// Resident anonymous bytes; pid 0: this process.
inline int64_t memory_of_process(int pid) {
  std::ifstream status(pid == 0 ? std::string("/proc/self/status") : "/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("RssAnon:")) continue;
    std::istringstream words(line.substr(8));
    int64_t kilobytes = 0;
    words >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

}  // namespace volador::bench
