// Reads YAML, and JSON as a subset of it, into values that have their places.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "runtime/yaml/value.h"

namespace volador::yaml {

// What a text may cost: an alias counts as the values and the bytes that it stands for.
struct Limits {
  size_t bytes = 1 << 20;           // Length of the file.
  size_t depth = 100;               // Lists and maps in each other.
  size_t values = 200'000;          // Values after aliases and merge keys have been replaced.
  size_t expanded_bytes = 8 << 20;  // Bytes of texts and keys, likewise.
};

struct Problem {
  Place place;  // Unknown: the file as a whole.
  std::string what;

  // "not valid YAML: … (distributed.yaml:14:15)".
  std::string text() const;
};

struct Document {
  Value root;                     // Null for an empty file.
  std::vector<Problem> problems;  // Keys that a map has twice; the first one counts.
};

// Scalars without quotes are read as in YAML 1.2, with _ between digits: `yes` and `on` are texts. Anchors, aliases and
// the merge key << are replaced.
//
// The problem: no YAML, several documents, a tag other than the standard ones, a number that JSON cannot express (.inf,
// .nan), invalid UTF-8, or a limit is exceeded.
[[nodiscard]] tl::expected<Document, Problem> read(std::string_view text, std::string_view name,
                                                   const Limits& limits = {});

// As read(), for a file of several documents, which lines of --- separate. The limits are those of the whole file; an empty
// document is null.
[[nodiscard]] tl::expected<std::vector<Document>, Problem> read_documents(std::string_view text, std::string_view name,
                                                                          const Limits& limits = {});

// Kind and value of a scalar without quotes; the place is unknown. NaN and infinity are texts.
Value plain_scalar(std::string_view text);

}  // namespace volador::yaml
