// Files in which a trial writes metrics, read as they grow.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/katib/event_reader.h"
#include "experiments/katib/metric_point.h"
#include "runtime/net/unique_fd.h"

namespace volador::cli {

// A file that a program appends to, replaces (as logs are rotated) or truncates. It may not exist yet.
class GrowingFile {
 public:
  // skip: what the file has now does not count.
  explicit GrowingFile(std::filesystem::path path, bool skip);

  // Passes on what was written since the last call.
  void read(const std::function<void(std::string_view bytes)>& found);
  // Is called where another file begins, so that a line does not go on in it.
  std::function<void()> on_new;

 private:
  void read_rest(const std::function<void(std::string_view)>& found);

  const std::filesystem::path path_;
  net::UniqueFd file_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  int64_t offset_ = 0;
};

// A folder of TensorBoard's event files, with its subfolders.
class EventFolder {
 public:
  using Found = std::function<void(std::vector<experiments::katib::MetricPoint> points)>;

  // skip: files that it has now do not count.
  EventFolder(std::filesystem::path folder, std::vector<std::string> metrics, bool as_katib, bool skip);

  // Passes on the points that were written since the last call, each by itself. Returns what is wrong with files, once
  // for each.
  std::vector<std::string> read(const Found& found);

 private:
  struct File {
    std::unique_ptr<GrowingFile> bytes;  // Null: does not count.
    experiments::katib::EventReader events;
    bool is_broken = false;
  };
  std::vector<std::filesystem::path> files() const;

  const std::filesystem::path folder_;
  const std::vector<std::string> metrics_;
  const bool as_katib_;
  std::map<std::filesystem::path, File> files_;
};

}  // namespace volador::cli
