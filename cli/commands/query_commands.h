// Subcommands that query a cluster: status, list, logs, explain, drain, kill.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/settings_flags.h"

namespace volador::control {
class ClusterApi;
}

namespace volador::v1 {
class KatibResource;
}

namespace volador::cli {

// A command that connects to a cluster.
class ClusterCommand : public Command {
 protected:
  // Declares --json, --timeout and the flags that select the cluster.
  void declare_connection(CLI::App& app, const std::string& timeout = "5s");
  [[nodiscard]] tl::expected<std::unique_ptr<control::ClusterApi>, Failure> connect(const Context& context) const;
  // The settings of these flags; notes their warnings.
  [[nodiscard]] tl::expected<Config, Failure> settings(const Context& context) const;
  [[nodiscard]] tl::expected<std::chrono::milliseconds, Failure> timeout() const;

 private:
  SettingsFlags settings_;
  std::string timeout_ = "5s";
};

class StatusCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;
};

class ListCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  // Lists of the live service: queue, experiments, events, studies.
  Outcome list_rows(control::ClusterApi& api, const Terminal& terminal) const;
  Outcome list_tasks(control::ClusterApi& api, const Terminal& terminal) const;
  Outcome list_audit(control::ClusterApi& api, const Terminal& terminal) const;
  Outcome list_processes(control::ClusterApi& api, const Terminal& terminal) const;
  Outcome list_actors(control::ClusterApi& api, const Terminal& terminal) const;

  std::string kind_;
  std::string filter_;
  std::string state_;
  std::vector<std::string> tags_;
  int limit_ = 1000;
};

// Users of the object stores.
class MemoryCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  int limit_ = 100;
};

class LogsCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  Outcome print_output_of(const Context& context, control::ClusterApi& api, const v1::KatibResource& resource) const;

  std::string id_;
  std::string node_;
  std::string namespace_ = "default";
  bool follow_ = false;
  int tail_ = 0;  // 0: 100 lines, of a resource all.
};

class ExplainCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string id_;
};

class DrainCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string node_;
  bool undo_ = false;
};

class KillCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string actor_;
  bool restart_ = false;
};

}  // namespace volador::cli
