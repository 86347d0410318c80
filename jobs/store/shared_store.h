// Folders on a node's disk that are made once and shared by ranks and jobs: environments and copies of data.
//
//   <folder>/<key>.lock      shared while a job uses the entry, exclusive while it is built or removed
//   <folder>/<key>/<random>  the entry's folder, or what a killed build has left
//   <folder>/<key>/complete  names the folder that is complete, and its size; written by a rename
//   <folder>/<key>/used      time of the last use
//   <folder>/swept           time of the last removal
//
// The folder of an entry keeps its path, because the scripts of an environment contain it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/store/store_limits.h"
#include "runtime/clock.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::jobs {

// A folder of the store that a job may use until this object is destroyed.
class SharedFolder {
 public:
  SharedFolder() = default;
  SharedFolder(SharedFolder&&) = default;
  SharedFolder& operator=(SharedFolder&&) = default;
  // Notes the end of the use.
  ~SharedFolder();

  const std::filesystem::path& folder() const { return folder_; }

 private:
  friend class SharedStore;
  std::filesystem::path folder_;
  net::UniqueFd lock_;
  std::filesystem::path used_;
};

// What users read in the output of a job, and `note`, which describes the entry on the disk.
struct StoreWords {
  std::string begins;  // "building environment requirements.txt"
  std::string done;    // "the environment is built"
  std::string waits;   // "waiting for another job that builds …"
  std::string note;
};

// One thread shares and runs; cancel() may be called by others.
class SharedStore {
 public:
  // Fills the empty folder that it gets.
  using Build = std::function<Result<void>(const std::filesystem::path&)>;

  // `say` gets lines for the job's output, without the line break.
  SharedStore(std::filesystem::path folder, const StoreLimits& limits, const Clock& clock,
              std::function<void(const std::string&)> say);

  // Blocks until the entry of this key is complete; builds it where no job has before. kUnavailable: the disk failed.
  // kCancelled: after cancel(). Otherwise the error of `build`.
  Result<SharedFolder> share(const std::string& key, const StoreWords& words, const Build& build);
  // Runs a program to its end; its output goes to the file. Returns its exit code.
  Result<int> run(const std::vector<std::string>& words, const std::vector<std::string>& variables,
                  const std::filesystem::path& directory, const std::filesystem::path& output);
  // What a program printed. The message of an error has its last line.
  Result<std::string> output_of(const std::vector<std::string>& words, const std::vector<std::string>& variables);
  void say(const std::string& text) const;
  // Removes what the limits do not allow.
  void remove_unused();
  const std::filesystem::path& folder() const { return folder_; }

  // Ends a running build; every later call fails.
  void cancel();
  bool is_cancelled();

 private:
  Result<void> build_once(const std::filesystem::path& entry, const StoreWords& words, const Build& build);
  int64_t now_ms() const;

  const std::filesystem::path folder_;
  const StoreLimits limits_;
  const Clock& clock_;
  const std::function<void(const std::string&)> say_;
  std::mutex mutex_;
  pid_t pid_ = 0;  // Leads the process group of the running program; 0: none.
  bool cancelled_ = false;
};

std::vector<std::string> lines_in(std::string_view text);
// The end of a file, in whole lines: at most 6000 bytes.
std::string last_lines(const std::filesystem::path& file);

}  // namespace volador::jobs
