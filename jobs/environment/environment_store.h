// Environments of a node's jobs on its disk: builds them once, shares them between ranks and jobs, removes unused ones.
//
//   <folder>/<key>.lock      shared while a job uses the environment, exclusive while it is built or removed
//   <folder>/<key>/<random>  an environment, or what a killed build has left
//   <folder>/<key>/complete  names the folder that is complete, and its size; written by a rename
//   <folder>/<key>/used      time of the last use
//   <folder>/swept           time of the last removal
//
// The folder of an environment keeps its path, because its scripts contain it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "jobs/environment/environment.h"
#include "runtime/clock.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::jobs {

// An environment that a job may use until this object is destroyed.
struct PreparedEnvironment {
  EnvironmentChange change;
  std::filesystem::path folder;  // What an isolated job must be able to read; empty: nothing.
  std::filesystem::path root;    // Root file system of the job; empty: that of the node.

  PreparedEnvironment() = default;
  PreparedEnvironment(PreparedEnvironment&&) = default;
  PreparedEnvironment& operator=(PreparedEnvironment&&) = default;
  // Notes the end of the use.
  ~PreparedEnvironment();

 private:
  friend class EnvironmentStore;
  net::UniqueFd lock_;
  std::filesystem::path used_;
};

struct EnvironmentRequest {
  Environment environment;
  std::filesystem::path base;          // A relative path is below this folder.
  std::vector<std::string> variables;  // NAME=VALUE of the build's programs.
  std::string node;                    // Name for messages.
};

// One thread prepares; cancel() may be called by others.
class EnvironmentStore {
 public:
  // `say` gets lines for the job's output, without the line break.
  EnvironmentStore(std::filesystem::path folder, const EnvironmentLimits& limits, const Clock& clock,
                   std::function<void(const std::string&)> say);

  // Blocks until the environment can be used; builds it where no job has before. kInvalidArgument, kNotFound: the text
  // or its file is wrong, or the node lacks a program. kUnavailable: the build or the disk failed; the output of the
  // build was said. kCancelled: after cancel().
  Result<PreparedEnvironment> prepare(const EnvironmentRequest& request);
  // Ends a running build; every later prepare() fails.
  void cancel();

 private:
  Result<PreparedEnvironment> prepare_folder(const EnvironmentRequest& request) const;
  Result<PreparedEnvironment> prepare_built(const EnvironmentRequest& request);
  Result<PreparedEnvironment> prepare_image(const EnvironmentRequest& request);
  // The built environment of this key. `build` fills the folder that it gets; `note` describes it to people.
  Result<PreparedEnvironment> share(const std::string& key, const std::string& note,
                                    const std::function<Result<void>(const std::filesystem::path&)>& build);
  Result<void> build_once(const std::filesystem::path& entry, const std::string& note,
                          const std::function<Result<void>(const std::filesystem::path&)>& build);
  // Runs a program to its end; its output goes to the file. Returns its exit code.
  Result<int> run(const BuildStep& step, const std::vector<std::string>& variables,
                  const std::filesystem::path& directory, const std::filesystem::path& output);
  // What a program printed. The message of an error has its last line.
  Result<std::string> output_of(const std::vector<std::string>& words, const std::vector<std::string>& variables);
  BuildTools find_tools(const EnvironmentRequest& request);
  void remove_unused();
  bool is_cancelled();
  int64_t now_ms() const;

  const std::filesystem::path folder_;
  const EnvironmentLimits limits_;
  const Clock& clock_;
  const std::function<void(const std::string&)> say_;
  std::mutex mutex_;
  pid_t pid_ = 0;  // Leads the process group of the running program; 0: none.
  bool cancelled_ = false;
};

}  // namespace volador::jobs
