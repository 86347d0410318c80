// volador experiment validate | config | preview-search: experiment configurations in the form of Determined AI, without a
// cluster. The commands of a cluster's experiments are in experiment_run_command.h.
#pragma once

#include <cstdint>
#include <string>

#include "cli/commands/query_commands.h"
#include "experiments/config/config_reader.h"

namespace volador::cli {

class ExperimentCommand final : public CommandGroup {
 public:
  ExperimentCommand();
  CLI::App* declare(CLI::App& root) override;
};

// A command that reads an experiment configuration, with a template below it.
class ExperimentConfigCommand : public ClusterCommand {
 protected:
  // Declares CONFIG and --template. The flags of the output and of the cluster are the caller's.
  void declare_config(CLI::App& app);
  // Without files that can be read: the failure.
  [[nodiscard]] tl::expected<experiments::ConfigReading, Failure> read_config() const;
  // Prints the errors and warnings to stderr, one a line, each with file, line and column.
  static void print_findings(const Context& context, const experiments::Findings& findings);
  // The failure of a command whose configuration has errors, which have been printed.
  Outcome refuse(const Context& context, const experiments::Findings& findings) const;
  const std::string& file() const { return file_; }
  const std::string& template_file() const { return template_; }

 private:
  std::string file_;
  std::string template_;
};

// All errors and warnings of a configuration at once.
class ExperimentValidateCommand final : public ExperimentConfigCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;
};

// The complete configuration of a file or of an experiment: merged, with defaults, without secrets.
class ExperimentShowConfigCommand final : public ExperimentConfigCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  Outcome show_of_experiment(const Context& context, int64_t id) const;

  bool original_ = false;
};

// The trials of a configuration's search and their lengths, without running anything.
class ExperimentPreviewCommand final : public ExperimentConfigCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  uint32_t seed_ = 0;
};

}  // namespace volador::cli
