// Result files of one trial, as used by a resumed run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace volador::tune {

class ResultFiles {
 public:
  explicit ResultFiles(std::filesystem::path trial) : trial_(std::move(trial)) {}

  // Complete lines of result.json; -1 if the file is absent or ends in a partial line, or another result file is
  // absent.
  int64_t rows() const;
  // Histogram and image records of the event files, which the journal does not contain.
  std::string media() const;
  // Removes result.json, progress.csv and the event files.
  void remove() const;

 private:
  std::filesystem::path trial_;
};

}  // namespace volador::tune
