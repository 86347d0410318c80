// Reaching the cluster that a command is about.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "cli/outcome.h"
#include "runtime/config.h"
#include "runtime/paths.h"

namespace volador::control {
class ClusterApi;
}

namespace volador::cli {

// Keys of the settings that connect reads: address, token, token_file, cluster.
const std::vector<std::string>& connection_settings();

// The address and token to use: those of the settings; else, of the cluster named or started last, what its head left
// on this machine.
struct Target {
  std::string address;
  std::string token;
  std::string local_cluster;  // Its name where its head was started here.
};
[[nodiscard]] tl::expected<Target, Failure> find_target(const Config& config, const Paths& paths);

// kUnreachable says what was tried, and where the head was started here and has ended, how to start it again.
[[nodiscard]] tl::expected<std::unique_ptr<control::ClusterApi>, Failure> connect(const Target& target,
                                                                                  const Paths& paths,
                                                                                  std::chrono::milliseconds timeout);

// The token of --token, VOLADOR_TOKEN or the file; empty where none is set. kConfig: the file cannot be read.
[[nodiscard]] tl::expected<std::string, Failure> token_of(const Config& config);

}  // namespace volador::cli
