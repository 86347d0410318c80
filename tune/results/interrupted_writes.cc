#include "tune/results/interrupted_writes.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "tune/results/experiment_journal.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;

bool is_interrupted_write(std::string_view file) {
  return (file.starts_with(".checkpoint_") && (file.ends_with(".partial") || file.ends_with(".removed"))) ||
         file.starts_with(".artifacts_");
}

void each_entry(const fs::path& folder, const std::function<void(const fs::directory_entry&)>& visit) {
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) visit(*entry);
}

size_t clean_trial(const fs::path& trial) {
  std::vector<fs::path> left;
  each_entry(trial, [&](const fs::directory_entry& entry) {
    if (is_interrupted_write(entry.path().filename().native())) left.push_back(entry.path());
  });
  size_t removed = 0;
  for (const fs::path& path : left) {
    std::error_code code;
    fs::remove_all(path, code);
    if (!code) ++removed;
  }
  return removed;
}

}  // namespace

size_t remove_interrupted_writes(const fs::path& storage_path, const std::string& name, const fs::path& own,
                                 size_t runs_max) {
  std::vector<fs::path> runs;
  each_entry(storage_path, [&](const fs::directory_entry& entry) {
    std::error_code code;
    const bool is_run = entry.path().filename().native().starts_with(name + "_") && entry.path() != own &&
                        fs::is_directory(entry.symlink_status(code)) && fs::exists(journal_path(entry.path()), code);
    if (is_run) runs.push_back(entry.path());
  });
  std::ranges::sort(runs, std::greater());  // The name ends with the start time.
  if (runs.size() > runs_max) runs.resize(runs_max);
  size_t removed = 0;
  for (const fs::path& run : runs) {
    if (is_driven(run)) continue;
    each_entry(run, [&](const fs::directory_entry& entry) {
      std::error_code code;
      if (fs::is_directory(entry.symlink_status(code))) removed += clean_trial(entry.path());
    });
  }
  return removed;
}

}  // namespace volador::tune
