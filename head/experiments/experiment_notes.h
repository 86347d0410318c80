// What people say of experiments: tags, a note, whether one is put away. Kept by name, and only for the run that it was said of: a later one
// of the same name begins without. Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "head/journal/journal.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"

namespace volador::v1 {
class AnnotateExperimentRequest;
}

namespace volador::head {

inline constexpr std::string_view kExperimentNotesTable = "experiment_notes";  // ExperimentNoteRecord; key: the experiment's name.

class ExperimentNotes {
 public:
  static constexpr size_t kExperimentsMax = 10'000;
  static constexpr size_t kTagsMax = 32;        // Of one experiment.
  static constexpr size_t kTagBytesMax = 64;
  static constexpr size_t kNoteBytesMax = 16 << 10;

  // A row of the journal. False: it cannot be read and was left out.
  bool load(std::string_view key, std::string_view value);

  struct Change {
    std::optional<Mutation> journal;   // None: everything was so already.
    std::vector<std::string> in_words;  // "tag best", "untag slow", "note", "archived".
  };
  // kInvalidArgument: a tag or the note breaks a limit; names it, and nothing has changed. kUnavailable: kExperimentsMax have notes.
  [[nodiscard]] Result<Change> annotate(const std::string& name, const std::string& directory, const v1::AnnotateExperimentRequest& request);

  // Of a run; null: nothing was said of it.
  const protocol::ExperimentNoteRecord* find(const std::string& name, const std::string& directory) const;

 private:
  std::map<std::string, protocol::ExperimentNoteRecord> notes_;
};

}  // namespace volador::head
