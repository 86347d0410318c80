// volador experiment create | list | describe | … : experiments of a cluster. The commands are those of Determined's `det
// experiment`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/experiment_command.h"
#include "cli/commands/query_commands.h"
#include "cli/experiment_calls.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"

namespace volador::cli {

// Adds the commands of a cluster's experiments to the group.
std::vector<std::unique_ptr<Command>> experiment_cluster_commands();

// What commands that create experiments share: code, overrides, and following the result.
class ExperimentCreation : public ExperimentConfigCommand {
 protected:
  void declare_creation(CLI::App& app);
  // Checks it at the head, sends the code, creates it and follows it where --follow asks for it.
  Outcome create(const Context& context, control::ClusterApi& api, v1::CreateExperimentRequest request,
                 const std::string& shown);
  // Replaces keys of a configuration as --set says.
  [[nodiscard]] tl::expected<std::string, Failure> with_overrides(const std::string& text,
                                                                  const std::string& name) const;
  bool has_overrides() const { return !overrides_.empty(); }

  std::string folder_;
  bool validate_ = false;

 private:
  std::vector<std::string> overrides_;
  bool follow_ = false, paused_ = false;
};

class ExperimentCreateCommand final : public ExperimentCreation {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;
};

// fork: a new experiment with the code of another one. continue: its newest trial goes on.
// fork: with the code of another experiment; continue: from its latest checkpoint; reproduce: the same again, with the
// same seed.
class ExperimentForkCommand final : public ExperimentCreation {
 public:
  enum class Kind : uint8_t { kFork, kContinue, kReproduce };
  explicit ExperimentForkCommand(Kind kind) : kind_(kind) {}
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  const Kind kind_;
  int64_t parent_ = 0;
  std::string config_;
};

// Fetches the code folder of an experiment.
class ExperimentDownloadCodeCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  int64_t id_ = 0;
  std::string target_;
};

class ExperimentListCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::vector<std::string> states_;
  std::string name_, label_, user_, workspace_, project_;
  bool all_ = false;
  int limit_ = 50;
};

class ExperimentDescribeCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  int64_t id_ = 0;
};

class ExperimentTrialsCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  int64_t id_ = 0, after_ = 0;
  std::vector<std::string> states_;
  int limit_ = 1000;
};

// The checkpoints of an experiment or of one of its trials. Also `volador checkpoint list`.
class ExperimentCheckpointsCommand final : public ClusterCommand {
 public:
  explicit ExperimentCheckpointsCommand(const char* name) : name_(name) {}
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  const char* const name_;
  int64_t id_ = 0, trial_ = 0;
  bool deleted_ = false;
  int limit_ = 1000;
};

// pause, activate, cancel, kill, archive, unarchive, delete.
class ExperimentChangeCommand final : public ClusterCommand {
 public:
  ExperimentChangeCommand(const char* name, const char* about) : name_(name), about_(about) {}
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  const char* const name_;
  const char* const about_;
  std::vector<int64_t> ids_;
};

class ExperimentWaitCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  int64_t id_ = 0;
};

class ExperimentLogsCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  int64_t id_ = 0, trial_ = 0;
  OutputOptions output_;
};

class ExperimentEditCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  CLI::App* app_ = nullptr;
  int64_t id_ = 0;
  std::string new_name_, description_, notes_, priority_;
  int experiment_best_ = 0, trial_best_ = 0, trial_latest_ = 0, max_slots_ = 0;
};

class ExperimentLabelCommand final : public CommandGroup {
 public:
  ExperimentLabelCommand();
  CLI::App* declare(CLI::App& root) override;

 private:
  class Change final : public ClusterCommand {
   public:
    explicit Change(bool adds) : adds_(adds) {}
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    const bool adds_;
    int64_t id_ = 0;
    std::vector<std::string> labels_;
  };
};

class ExperimentMoveCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  int64_t id_ = 0;
  std::string workspace_, project_;
};

// The metrics of a trial, or of all trials of an experiment.
class ExperimentMetricsCommand final : public ClusterCommand {
 public:
  explicit ExperimentMetricsCommand(bool of_trial) : of_trial_(of_trial) {}
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  const bool of_trial_;
  int64_t id_ = 0, from_ = 0, to_ = 0;
  std::string group_;
  std::vector<std::string> metrics_;
  int max_points_ = 0;
  bool csv_ = false;
};

}  // namespace volador::cli
