// Environments of a node's jobs: builds them once, shares them between ranks and jobs (jobs/store/shared_store.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "jobs/environment/environment.h"
#include "jobs/store/shared_store.h"
#include "runtime/result.h"

namespace volador::jobs {

// Limits of a node's environments if the environment variables VOLADOR_ENVIRONMENT_DAYS and VOLADOR_ENVIRONMENT_SIZE
// do not set them.
inline constexpr StoreLimits kEnvironmentLimits{.unused_ms = int64_t{14} * 24 * 3'600'000,
                                                .bytes_max = int64_t{64} << 30};

// An environment that a job may use until this object is destroyed.
struct PreparedEnvironment {
  EnvironmentChange change;
  std::filesystem::path folder;  // What an isolated job must be able to read; empty: nothing.
  std::filesystem::path root;    // Root file system of the job; empty: that of the node.
  SharedFolder hold;             // Keeps what was built.
};

struct EnvironmentRequest {
  Environment environment;
  std::filesystem::path base;          // A relative path is below this folder.
  std::vector<std::string> variables;  // NAME=VALUE of the build's programs.
  std::string node;                    // Name for messages.
};

// One thread prepares; cancel() of the store may be called by others.
class EnvironmentStore {
 public:
  explicit EnvironmentStore(SharedStore& store) : store_(store) {}

  // Blocks until the environment can be used; builds it where no job has before. kInvalidArgument, kNotFound: the text
  // or its file is wrong, or the node lacks a program. kUnavailable: the build or the disk failed; the output of the
  // build was said. kCancelled: the store was cancelled.
  Result<PreparedEnvironment> prepare(const EnvironmentRequest& request);

 private:
  Result<PreparedEnvironment> prepare_folder(const EnvironmentRequest& request) const;
  Result<PreparedEnvironment> prepare_built(const EnvironmentRequest& request);
  Result<PreparedEnvironment> prepare_image(const EnvironmentRequest& request);
  BuildTools find_tools(const EnvironmentRequest& request);

  SharedStore& store_;
};

}  // namespace volador::jobs
