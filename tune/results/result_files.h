// The result files of one trial, as far as a resumed run looks at them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace volador::tune {

class ResultFiles {
 public:
  explicit ResultFiles(std::filesystem::path trial) : trial_(std::move(trial)) {}

  // Whole lines of result.json; -1 where the file is absent or ends in a torn one, or another file of results is absent.
  int64_t rows() const;
  // Records of histograms and images in the event files: the journal does not have them.
  std::string media() const;
  // result.json, progress.csv and the event files.
  void remove() const;

 private:
  std::filesystem::path trial_;
};

}  // namespace volador::tune
