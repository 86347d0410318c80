#include "tune/results/result_files.h"

#include <algorithm>
#include <vector>

#include "runtime/files/durable_file.h"
#include "tune/results/tensorboard_events.h"

namespace volador::tune {

namespace fs = std::filesystem;

int64_t ResultFiles::rows() const {
  const auto text = read_file(trial_ / "result.json", SIZE_MAX);
  std::error_code code;
  if (!text) return fs::exists(trial_ / "params.json", code) && !fs::exists(trial_ / "result.json", code) ? 0 : -1;
  if (text->empty() || text->back() != '\n' || !fs::exists(trial_ / "progress.csv", code)) return -1;
  return std::count(text->begin(), text->end(), '\n');
}

std::string ResultFiles::media() const {
  std::vector<fs::path> found;
  std::error_code code;
  for (fs::directory_iterator entry(trial_, code), end; !code && entry != end; entry.increment(code)) {
    if (entry->path().filename().string().starts_with("events.out.tfevents.")) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  std::string records;
  for (const fs::path& path : found) {
    if (const auto bytes = read_file(path, SIZE_MAX)) records += media_events_of(*bytes);
  }
  return records;
}

void ResultFiles::remove() const {
  std::vector<fs::path> found;
  std::error_code code;
  for (fs::directory_iterator entry(trial_, code), end; !code && entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (name == "result.json" || name == "progress.csv" || name.starts_with("events.out.tfevents."))
      found.push_back(entry->path());
  }
  for (const fs::path& path : found) fs::remove(path, code);
}

}  // namespace volador::tune
