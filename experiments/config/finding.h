// What a check of an experiment configuration finds: errors and warnings, each with its place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/yaml/value.h"

namespace volador::experiments {

struct Finding {
  std::string path;  // "searcher.max_trials", "bind_mounts[0].host_path"; empty: the whole configuration.
  std::string message;
  yaml::Place place;  // Unknown where the value is missing altogether.

  // "searcher.max_trials: expected a whole number, got "ten" (distributed.yaml:14:15)".
  std::string text() const;
  bool operator==(const Finding& other) const { return path == other.path && message == other.message; }
};

// Findings of one check, in the order in which they were found; a repeated one is kept once.
class Findings {
 public:
  static constexpr size_t kFindingsMax = 100;  // For errors and for warnings; further ones are counted.

  void error(std::string_view path, const yaml::Place& place, std::string message);
  void warning(std::string_view path, const yaml::Place& place, std::string message);

  // Whether this path or an item of its list has an error; what follows from it need not be reported again.
  bool has_error_at(std::string_view path) const;

  const std::vector<Finding>& errors() const { return errors_; }
  const std::vector<Finding>& warnings() const { return warnings_; }
  size_t errors_left_out() const { return errors_left_out_; }
  size_t warnings_left_out() const { return warnings_left_out_; }

 private:
  std::vector<Finding> errors_, warnings_;
  size_t errors_left_out_ = 0, warnings_left_out_ = 0;
};

// "searcher" and "name" give "searcher.name"; an empty parent gives the key.
std::string path_below(std::string_view parent, std::string_view key);
std::string path_of_item(std::string_view parent, size_t index);

}  // namespace volador::experiments
