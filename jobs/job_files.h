// Archives of code folders, stored by content hash in a folder of the head.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"
#include "runtime/security/digest.h"

namespace volador::jobs {

struct JobFilesLimits {
  int64_t archive_bytes = int64_t{95} << 20;
  int64_t bytes = int64_t{8} << 30;  // In all; archives that no open job needs are removed first.
  size_t uploads = 16;               // At once.
};

// One thread, except path_of().
class JobFiles {
 public:
  // Removes unfinished uploads of the folder, which is created when needed.
  JobFiles(std::filesystem::path folder, const JobFilesLimits& limits = {});

  // Writes a part of an archive. `needed`: whether an open job needs the archive with this hash, in hex.
  // kInvalidArgument: the part does not follow the last one, the archive is too large or its hash differs;
  // kUnavailable: no room, or too many uploads.
  Result<v1::PutJobFilesReply> put(const v1::PutJobFilesRequest& part,
                                   const std::function<bool(const std::string& sha256)>& needed);
  // Size of an archive, by its hash in hex; nullopt: it is not stored.
  std::optional<int64_t> bytes_of(const std::string& sha256) const;
  // Path of an archive, by its hash as 32 raw bytes. Any thread.
  std::optional<std::filesystem::path> path_of(const std::string& raw_sha256) const;

 private:
  struct Upload {
    std::filesystem::path path;
    int64_t size = 0;
    int64_t written = 0;
    security::Sha256 hash;
  };
  Result<void> make_room(int64_t bytes, const std::function<bool(const std::string& sha256)>& needed);

  const std::filesystem::path folder_;
  const JobFilesLimits limits_;
  std::map<std::string, Upload> uploads_;  // By hash in hex.
};

}  // namespace volador::jobs
