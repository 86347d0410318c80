// A cluster started by the command line in its own folder, which ends with the object.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace volador::bench {

// Path of another program of this build.
std::filesystem::path program_beside(const std::string& name);

// Seconds until the command returned; negative if it failed. Its output is dropped.
double timed(const std::vector<std::string>& arguments, const std::filesystem::path& home);

// Proportional set size in MB (2^20 bytes); 0: no such process.
double pss_mb(pid_t pid);

// Temporary Volador home, removed with the object. The path is short because it contains sockets.
class TemporaryHome {
 public:
  TemporaryHome();
  ~TemporaryHome();
  TemporaryHome(const TemporaryHome&) = delete;
  TemporaryHome& operator=(const TemporaryHome&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A head with its worker.
class StartedCluster {
 public:
  // `flags`: further flags of `volador start --head`.
  explicit StartedCluster(const std::vector<std::string>& flags = {});
  ~StartedCluster();
  StartedCluster(const StartedCluster&) = delete;
  StartedCluster& operator=(const StartedCluster&) = delete;

  double seconds() const { return seconds_; }  // Duration of `start`.
  // The processes with this home.
  std::vector<pid_t> pids() const;
  pid_t head_pid() const;
  std::string address() const;         // Address of the head.
  std::string operator_token() const;  // Also valid as a bearer token of the API.
  std::string join_token() const;
  int dashboard_port() const;

 private:
  std::filesystem::path folder() const { return home_.path() / "clusters/bench"; }

  TemporaryHome home_;
  double seconds_ = 0;
};

}  // namespace volador::bench
