// volador start: a head with a worker, or a worker that joins a cluster, as daemons on this machine.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/daemon.h"
#include "cli/roles.h"
#include "cli/settings_flags.h"

namespace volador::v1 {
class Node;
}

namespace volador::cli {

class StartCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  // The started processes, for the output.
  struct Started {
    std::string cluster;
    std::optional<HeadReady> head;
    std::string bind;
    std::string worker_node;  // Empty: it was running already.
    std::string worker_address;
    std::vector<pid_t> children;
  };

  Outcome start_head(const Context& context, const Config& config);
  Outcome start_node(const Context& context, const Config& config);
  [[nodiscard]] tl::expected<HeadSettings, Failure> plan_head(const Context& context, const Config& config) const;
  [[nodiscard]] tl::expected<void, Failure> bring_up_head(const Context& context, const HeadSettings& settings,
                                                          Started& started) const;
  [[nodiscard]] tl::expected<void, Failure> bring_up_worker(const Context& context, const WorkerSettings& settings,
                                                            Started& started) const;
  static void tidy_up(const Context& context, const std::string& cluster);
  Outcome finish(const Context& context, const Started& started) const;
  // nullopt if the head does not reply in time.
  static std::optional<v1::Node> node_as_the_head_sees_it(const Context& context, const Started& started);
  std::string report_text(const Started& started, const v1::Node* node) const;
  std::string report_json(const Started& started) const;
  Outcome stay(const Context& context, const Started& started) const;

  SettingsFlags settings_;
  bool head_ = false;
  bool block_ = false;
  bool quiet_ = false;
  bool force_store_ = false;
  bool no_dashboard_ = false;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace volador::cli
