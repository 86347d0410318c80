// volador job submit | list | show | logs | wait | exec | attach | forward | stop | delete | clone | priority | extend | queue |
// usage: commands in the cluster's queue.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/commands/query_commands.h"
#include "jobs/job_set.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"

namespace volador::cli {

struct JobFilter {
  std::string state, name, project = {}, batch = {};
  int limit = 0;
};
// Prints the jobs, the newest first.
Outcome list_jobs(control::ClusterApi& api, const JobFilter& filter, const Terminal& terminal);

class JobCommand final : public CommandGroup {
 public:
  JobCommand();
  CLI::App* declare(CLI::App& root) override;
};

class JobSubmitCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  tl::expected<jobs::JobSet, Failure> described() const;

  CLI::App* app_ = nullptr;
  std::string file_, memory_, duration_, debug_, graceful_, code_, request_;
  std::vector<std::string> command_, env_, secrets_, resources_, labels_;
  v1::JobSpec given_;
  std::string name_, setup_, mode_, priority_, directory_, project_, note_;
  std::vector<std::string> node_names_;
  std::vector<std::string> notify_;
  std::string nodes_, teardown_;
  int min_nodes_ = 0, servers_ = 0, restarts_ = 0, resumes_ = 0;
  std::vector<std::string> mounts_;
  std::string shm_, pool_, stop_signal_, output_, environment_, access_;
  std::vector<std::string> alternatives_;
  int array_ = 0;
  bool isolated_ = false, grow_ = false, share_nodes_ = false;
  double cpus_ = 0, gpus_ = 0;
  bool no_code_ = false, dry_run_ = false, follow_ = false;
};

class JobListCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string state_, name_, project_, batch_;
  int limit_ = 50;
};

class JobShowCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string job_;
};

// Prints the output of a job, of all ranks if `rank` is -1; `tail`: only so many of the last lines of each stream, 0: all.
// With `follow` until the job has ended: then kFailed with its exit code unless it has succeeded.
Outcome print_job_output(const Context& context, control::ClusterApi& api, const std::string& job, int rank, int tail,
                         bool follow, bool json);

class JobLogsCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string job_, node_;
  int rank_ = -1, tail_ = 0;
  bool follow_ = false;
};

class JobWaitCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string job_;
};

class JobExecCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string job_;
  int rank_ = 0;
  bool terminal_ = false, input_ = false, wait_ = false;
  std::vector<std::string> command_;
};

class JobAttachCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string job_;
  int rank_ = 0;
  bool wait_ = false;
};

class JobForwardCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string job_, ports_;
  int rank_ = 0;
  bool wait_ = false;
  std::vector<std::string> command_;
};

class JobStopCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::vector<std::string> jobs_;
  bool now_ = false;
};

class JobDeleteCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::vector<std::string> jobs_;
};

class JobCloneCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string job_, name_;
};

class JobPriorityCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string job_, priority_;
};

class JobExtendCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string job_, duration_;
};

// The program in which the ranks of jobs run; started by workers.
class JobHostCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;
};

}  // namespace volador::cli
