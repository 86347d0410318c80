// A cluster that the command line has started in a folder of its own, for the life of the object.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace volador::bench {

// A program of this build, beside this one.
std::filesystem::path program_beside(const std::string& name);

// Seconds until the command returned; negative when it failed. Its output is dropped.
double timed(const std::vector<std::string>& arguments, const std::filesystem::path& home);

// Proportional memory in MB (2^20 bytes); 0: there is no such process.
double pss_mb(pid_t pid);

// A folder for a home of Volador's, gone with the object. Short: sockets lie below it.
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
  // Further flags of `volador start --head`.
  explicit StartedCluster(const std::vector<std::string>& flags = {});
  ~StartedCluster();
  StartedCluster(const StartedCluster&) = delete;
  StartedCluster& operator=(const StartedCluster&) = delete;

  double seconds() const { return seconds_; }  // Until `start` returned.
  // The processes whose home is ours.
  std::vector<pid_t> pids() const;
  pid_t head_pid() const;
  std::string address() const;         // Of the head.
  std::string operator_token() const;  // A bearer token of its API as well.
  std::string join_token() const;
  int dashboard_port() const;

 private:
  std::filesystem::path folder() const { return home_.path() / "clusters/bench"; }

  TemporaryHome home_;
  double seconds_ = 0;
};

}  // namespace volador::bench
