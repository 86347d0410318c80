// The files of a run, as they lie on this machine: names that lead nowhere else, opened so that no link is followed. Blocking, a few
// microseconds a call; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dashboard/http_server.h"
#include "runtime/result.h"

namespace volador::dashboard {

class RunFiles {
 public:
  static constexpr size_t kFilesMax = 2000;  // Of one folder that are listed.

  explicit RunFiles(std::filesystem::path directory) : directory_(std::move(directory)) {}

  struct Entry {
    std::string name;
    std::string kind;  // "file", "checkpoint".
    int64_t bytes = 0;
    int64_t modified_ms = 0;
  };
  // Of the run (empty), or of one of its trials: regular files and complete checkpoints, by name. kNotFound, kPermissionDenied: what the
  // file system says.
  [[nodiscard]] Result<std::vector<Entry>> list(const std::string& trial) const;

  struct Opened {
    std::string file_name;  // To be saved under.
    std::string content_type;
    std::shared_ptr<BodySource> body;
  };
  // One of list(); a checkpoint comes as a tar file. kInvalidArgument: a name that is none of ours.
  [[nodiscard]] Result<Opened> open(const std::string& trial, const std::string& name) const;

 private:
  const std::filesystem::path directory_;
};

}  // namespace volador::dashboard
