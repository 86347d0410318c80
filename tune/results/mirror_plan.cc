#include "tune/results/mirror_plan.h"

#include <algorithm>
#include <set>

namespace volador::tune {
namespace {

constexpr std::string_view kJournalName = "journal.vlj";

// Whether the file is the manifest of a checkpoint: in the folder of a trial's, beside the folder of a training run's,
// as checkpoints/checkpoint_000010.json.
bool is_mark(std::string_view path) {
  constexpr std::string_view kCheckpoints = "checkpoints/";
  if (path.ends_with("/checkpoint.json")) return true;
  return path.starts_with(kCheckpoints) && path.ends_with(".json") && path.find('/', kCheckpoints.size()) == path.npos;
}

}  // namespace

bool MirrorPlan::belongs(std::string_view path) {
  if (path.starts_with("requests/") || path.ends_with(".partial")) return false;
  return !path.starts_with('.') && path.find("/.") == path.npos;
}

bool MirrorPlan::is_state(std::string_view path) {
  return path.ends_with(".state.json") && path.find('/') == path.npos;
}

MirrorBatch MirrorPlan::next(const std::vector<SeenFile>& seen, bool last) const {
  MirrorBatch batch;
  std::set<std::string_view> there;
  for (const SeenFile& file : seen) {
    there.insert(file.path);
    const auto known = copied_.find(file.path);
    if (known != copied_.end() && known->second.file == file) continue;
    if (file.path == kJournalName) {
      batch.journal = true;
    } else if (is_state(file.path)) {
      batch.states.push_back(file.path);
    } else if (is_mark(file.path)) {
      batch.marks.push_back(file.path);
    } else {
      batch.data.push_back(file.path);
    }
  }
  for (const auto& [path, copied] : copied_) {
    if (there.contains(path) || !(copied.gone || last)) continue;
    (is_mark(path) ? batch.removed_marks : batch.removed_data).push_back(path);
  }
  return batch;
}

void MirrorPlan::stored(const std::vector<SeenFile>& seen, const MirrorBatch& batch) {
  for (const auto* removed : {&batch.removed_marks, &batch.removed_data}) {
    for (const std::string& path : *removed) copied_.erase(path);
  }
  for (auto& [path, copied] : copied_) copied.gone = true;
  for (const SeenFile& file : seen) copied_[file.path] = {file, false};
}

}  // namespace volador::tune
