// volador tune stop | pause | resume | add: sends requests to the program that runs an experiment, through the
// experiment's directory or the cluster.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cli/commands/query_commands.h"
#include "tune/execution/experiment_request.h"

namespace volador::cli {

// The commands stop and pause.
class TuneControlCommand : public ClusterCommand {
 public:
  explicit TuneControlCommand(tune::RequestAct act) : act_(act) {}
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 protected:
  struct Asked {
    std::string experiment, trial;  // Full names; no trial: the whole experiment.
  };
  // Returns the argument if it is a directory, or the one run in the results folder that a program on this machine
  // drives and whose name is or starts with the argument; nullopt: possibly a name known only to a cluster.
  tl::expected<std::optional<std::filesystem::path>, Failure> directory() const;
  // Sends the request and prints its outcome.
  Outcome ask(const std::optional<std::filesystem::path>& directory, const Context& context) const;

  std::string experiment_, trial_, config_;  // config_: JSON, for add; then trial_ is the cloned trial.

 private:
  Result<std::filesystem::path> write_request(const std::filesystem::path& directory,
                                              std::optional<tune::TrialId> trial) const;
  // Through the experiment's directory, which its program polls.
  tl::expected<Asked, Failure> ask_here(const std::filesystem::path& directory) const;
  tl::expected<Asked, Failure> ask_cluster(const Context& context) const;
  std::string outcome_text(const Asked& asked) const;

  tune::RequestAct act_;
};

// Restarts a run whose program has ended; otherwise resumes what was paused.
class TuneResumeCommand final : public TuneControlCommand {
 public:
  TuneResumeCommand() : TuneControlCommand(tune::RequestAct::kResume) {}
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;
};

class TuneAddCommand final : public TuneControlCommand {
 public:
  TuneAddCommand() : TuneControlCommand(tune::RequestAct::kAdd) {}
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;
};

}  // namespace volador::cli
