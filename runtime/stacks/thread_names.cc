#include "runtime/stacks/thread_names.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/utf8.h"

namespace volador::stacks {
namespace {

namespace fs = std::filesystem;

constexpr size_t kThreadNameBytes = 32;

fs::path folder_of(int thread) { return fs::path("/proc/self/task") / std::to_string(thread); }

}  // namespace

std::string thread_name(int thread) {
  std::ifstream file(folder_of(thread) / "comm");
  std::string name;
  std::getline(file, name);
  return plain_text(name, kThreadNameBytes);
}

std::vector<ThreadRow> threads_of_this_process(size_t most) {
  std::vector<int> ids;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc/self/task", gone)) {
    ids.push_back(std::atoi(entry.path().filename().c_str()));
  }
  std::sort(ids.begin(), ids.end());
  ids.resize(std::min(ids.size(), most));
  std::vector<ThreadRow> rows;
  for (const int id : ids) {
    std::ifstream file(folder_of(id) / "status");
    ThreadRow row{.id = id};
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("Name:\t")) row.name = plain_text(std::string_view(line).substr(6), kThreadNameBytes);
      if (line.starts_with("State:\t") && line.size() > 7) row.state = line[7];
      if (line.starts_with("SigBlk:\t")) row.blocked_signals = std::strtoull(line.c_str() + 8, nullptr, 16);
    }
    if (!row.name.empty()) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace volador::stacks
