// Connection to the cluster that a command refers to.
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

// Settings read by connect(): address, token, token_file, cluster.
const std::vector<std::string>& connection_settings();

// Address and token of the cluster: those of the settings; by default the address that the head of the last named or
// started cluster left on this machine, or that of the newest sign-in. The token is by default that of the sign-in at
// the address (`volador login`), else the one that the head left here.
struct Target {
  std::string address;
  std::string token;
  std::string local_cluster;  // Name of the cluster if its head was started on this machine.
};
// The cluster that a sign-in is for, before there is a token.
struct SignInPlace {
  std::string address;
  std::string fingerprint;  // As far as it is known here: of an earlier sign-in, or left by the head; else empty.
};
[[nodiscard]] tl::expected<SignInPlace, Failure> find_sign_in_place(const Config& config, const Paths& paths);

[[nodiscard]] tl::expected<Target, Failure> find_target(const Config& config, const Paths& paths);

// kUnreachable: names the attempts and, if the head was started on this machine and has ended, the command to restart
// it.
[[nodiscard]] tl::expected<std::unique_ptr<control::ClusterApi>, Failure> connect(const Target& target,
                                                                                  const Paths& paths,
                                                                                  std::chrono::milliseconds timeout);

// Returns the token from --token, VOLADOR_TOKEN or the file; empty if none is set. kConfig: the file cannot be read.
[[nodiscard]] tl::expected<std::string, Failure> token_of(const Config& config);

}  // namespace volador::cli
