// Connection to the cluster that a command refers to.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "cli/outcome.h"
#include "runtime/cluster_target.h"
#include "runtime/config.h"
#include "runtime/paths.h"

namespace volador::control {
class ClusterApi;
}

namespace volador::cli {

// Settings read by connect(): address, token, token_file, cluster.
const std::vector<std::string>& connection_settings();

// The cluster that a sign-in is for, before there is a token.
struct SignInPlace {
  std::string address;
  std::string fingerprint;  // As far as it is known here: of an earlier sign-in, or left by the head; else empty.
};
[[nodiscard]] tl::expected<SignInPlace, Failure> find_sign_in_place(const Config& config, const Paths& paths);

// See find_cluster(). kConfig: the file of the token cannot be read.
[[nodiscard]] tl::expected<ClusterTarget, Failure> find_target(const Config& config, const Paths& paths);

// kUnreachable: names the attempts and, if the head was started on this machine and has ended, the command to restart
// it.
[[nodiscard]] tl::expected<std::unique_ptr<control::ClusterApi>, Failure> connect(const ClusterTarget& target,
                                                                                  const Paths& paths,
                                                                                  std::chrono::milliseconds timeout);

// Returns the token from --token, VOLADOR_TOKEN or the file; empty if none is set. kConfig: the file cannot be read.
[[nodiscard]] tl::expected<std::string, Failure> token_of(const Config& config);

}  // namespace volador::cli
