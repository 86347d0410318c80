// Which files of a run's directory a copy of it in a storage lacks. Pure.
//
// The order keeps the copy usable at any time: data of checkpoints, then their manifests (checkpoint.json), then the
// journal as it was before the directory was looked at, then saved states of searchers and schedulers as they were before
// that. So the journal names only checkpoints that are in the copy, and a state includes no event that it lacks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace volador::tune {

struct SeenFile {
  std::string path;  // Relative to the run's directory.
  int64_t bytes = 0;
  int64_t changed_ns = 0;

  bool operator==(const SeenFile&) const = default;
};

// What is transferred, in this order.
struct MirrorBatch {
  std::vector<std::string> data;
  std::vector<std::string> marks;  // Make what is in `data` valid.
  bool journal = false;
  std::vector<std::string> states;
  std::vector<std::string> removed_marks, removed_data;

  bool empty() const {
    return data.empty() && marks.empty() && !journal && states.empty() && removed_marks.empty() && removed_data.empty();
  }
};

class MirrorPlan {
 public:
  // Whether a file belongs to the copy: not locks, requests, and writes in progress.
  static bool belongs(std::string_view path);
  // Whether it is the saved state of a searcher or scheduler, as of a Python program.
  static bool is_state(std::string_view path);

  // `seen`: the directory now. A file that is gone is removed from the copy in the second batch without it, since the journal
  // of the copy may still name it; with `last` at once.
  MirrorBatch next(const std::vector<SeenFile>& seen, bool last) const;
  // The batch of these files is in the storage.
  void stored(const std::vector<SeenFile>& seen, const MirrorBatch& batch);

 private:
  struct Copied {
    SeenFile file;
    bool gone = false;  // In the batch before.
  };
  std::map<std::string, Copied, std::less<>> copied_;
};

}  // namespace volador::tune
