// volador tune stop | pause | resume | add: what a program that runs an experiment is asked, through the experiment's
// directory or through the cluster.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cli/commands/query_commands.h"
#include "tune/execution/experiment_request.h"

namespace volador::cli {

// Stop and pause.
class TuneControlCommand : public ClusterCommand {
 public:
  explicit TuneControlCommand(tune::RequestAct act) : act_(act) {}
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 protected:
  struct Asked {
    std::string experiment, trial;  // Whole names; no trial: all of it.
  };
  // The argument itself where it is a directory, or the one run of the results folder that a program of this machine
  // drives and that has this name or starts so; none: a name that only a cluster may know.
  tl::expected<std::optional<std::filesystem::path>, Failure> directory() const;
  // Asks, and says what comes of it.
  Outcome ask(const std::optional<std::filesystem::path>& directory, const Context& context) const;

  std::string experiment_, trial_, config_;  // config_: of add, JSON; then trial_ is the one to be cloned.

 private:
  Result<std::filesystem::path> write_request(const std::filesystem::path& directory, std::optional<tune::TrialId> trial) const;
  // Through its directory, where its program looks for requests.
  tl::expected<Asked, Failure> ask_here(const std::filesystem::path& directory) const;
  tl::expected<Asked, Failure> ask_cluster(const Context& context) const;
  std::string outcome_text(const Asked& asked) const;

  tune::RequestAct act_;
};

// Of a run whose program has ended: starts it again. Else what was paused goes on.
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
