#include "head/experiments/experiment_notes.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::head {
namespace {

using Record = protocol::ExperimentNoteRecord;

Result<void> check_tag(const std::string& tag) {
  const bool plain =
      std::none_of(tag.begin(), tag.end(), [](unsigned char c) { return c <= ' ' || c == ',' || c == 0x7F; });
  if (!tag.empty() && tag.size() <= ExperimentNotes::kTagBytesMax && plain) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("tag \"{}\": expected 1 to {} bytes without a space, comma or control character",
                                tag.substr(0, ExperimentNotes::kTagBytesMax), ExperimentNotes::kTagBytesMax));
}

bool says_nothing(const Record& record) { return record.tags().empty() && record.note().empty() && !record.archived(); }

// Sorted by name.
void set_tags(Record& record, std::vector<std::string> tags) {
  std::sort(tags.begin(), tags.end());
  record.clear_tags();
  for (std::string& tag : tags) record.add_tags(std::move(tag));
}

}  // namespace

bool ExperimentNotes::load(std::string_view key, std::string_view value) {
  Record record;
  if (key.empty() || !record.ParseFromArray(value.data(), static_cast<int>(value.size()))) return false;
  notes_[std::string(key)] = std::move(record);
  return true;
}

const Record* ExperimentNotes::find(const std::string& name, const std::string& directory) const {
  const auto found = notes_.find(name);
  return found == notes_.end() || found->second.directory() != directory ? nullptr : &found->second;
}

Result<ExperimentNotes::Change> ExperimentNotes::annotate(const std::string& name, const std::string& directory,
                                                          const v1::AnnotateExperimentRequest& request) {
  if (request.note().size() > kNoteBytesMax) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("note: expected at most {} bytes, got {}", kNoteBytesMax, request.note().size()));
  }
  const Record* const known = find(name, directory);
  Record record = known == nullptr ? Record() : *known;
  record.set_directory(directory);
  Change change;
  std::vector<std::string> tags(record.tags().begin(), record.tags().end());
  for (const std::string& tag : request.remove_tags()) {
    if (std::erase(tags, tag) > 0) change.in_words.push_back("untag " + tag);
  }
  for (const std::string& tag : request.add_tags()) {
    VOLADOR_TRY(check_tag(tag));
    if (std::find(tags.begin(), tags.end(), tag) != tags.end()) continue;
    tags.push_back(tag);
    change.in_words.push_back("tag " + tag);
  }
  if (tags.size() > kTagsMax) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("tags of experiment \"{}\": expected at most {}, it would have {}; remove some", name,
                                  kTagsMax, tags.size()));
  }
  set_tags(record, std::move(tags));
  if (request.has_note() && request.note() != record.note()) {
    record.set_note(request.note());
    change.in_words.push_back(request.note().empty() ? "note removed" : "note");
  }
  if (request.has_archived() && request.archived() != record.archived()) {
    record.set_archived(request.archived());
    change.in_words.push_back(request.archived() ? "archived" : "back from the archive");
  }
  if (change.in_words.empty()) return change;
  if (!notes_.contains(name) && notes_.size() >= kExperimentsMax) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("{} experiments have tags or notes, the limit; remove those of old ones", kExperimentsMax));
  }
  change.journal = Mutation{.table = std::string(kExperimentNotesTable), .key = name, .value = std::nullopt};
  if (says_nothing(record)) {
    notes_.erase(name);
  } else {
    change.journal->value = record.SerializeAsString();
    notes_[name] = std::move(record);
  }
  return change;
}

}  // namespace volador::head
