// User notes on experiments: tags, a note, and the archive flag. Stored by name, but only for one run: a later run with
// the same name starts without them. Pure: no clock, thread, I/O or randomness.
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

inline constexpr std::string_view kExperimentNotesTable =
    "experiment_notes";  // ExperimentNoteRecord; key: the experiment's name.

class ExperimentNotes {
 public:
  static constexpr size_t kExperimentsMax = 10'000;
  static constexpr size_t kTagsMax = 32;  // Per experiment.
  static constexpr size_t kTagBytesMax = 64;
  static constexpr size_t kNoteBytesMax = 16 << 10;

  // Loads a journal row. Returns false and skips it if it cannot be read.
  bool load(std::string_view key, std::string_view value);

  struct Change {
    std::optional<Mutation> journal;    // nullopt: nothing changed.
    std::vector<std::string> in_words;  // "tag best", "untag slow", "note", "archived".
  };
  // kInvalidArgument: a tag or the note exceeds a limit; the message names it and nothing has changed. kUnavailable:
  // kExperimentsMax experiments have notes.
  [[nodiscard]] Result<Change> annotate(const std::string& name, const std::string& directory,
                                        const v1::AnnotateExperimentRequest& request);

  // The notes of a run; null: none.
  const protocol::ExperimentNoteRecord* find(const std::string& name, const std::string& directory) const;

 private:
  std::map<std::string, protocol::ExperimentNoteRecord> notes_;
};

}  // namespace volador::head
