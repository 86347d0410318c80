// Members of a row, read from its text without building the rest of it: so 10,000 rows are filtered and sorted within
// milliseconds. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace volador::dashboard {

class RowScan {
 public:
  static constexpr size_t kPathsMax = 32;

  // Members by their dotted paths ("metrics.loss"); a name that has dots itself counts too, before what a dot leads
  // into. At most kPathsMax; further ones are found nowhere.
  explicit RowScan(std::vector<std::string> paths) : paths_(std::move(paths)) {}

  // The JSON of each path's value; empty where there is none. `row` is a JSON object, into which the views point; of
  // anything else they are unspecified parts.
  void read(std::string_view row, std::vector<std::string_view>& values) const;

 private:
  std::vector<std::string> paths_;
};

// The text that a JSON string stands for; a part of `json` or of `storage`.
std::string_view text_of_json(std::string_view json, std::string& storage);

}  // namespace volador::dashboard
