#include "cli/connection.h"

#include <fmt/format.h>

#include "cli/local_processes.h"
#include "runtime/access_file.h"
#include "runtime/clock.h"
#include "runtime/control/cluster_api.h"
#include "runtime/security/token.h"
#include "runtime/settings.h"

namespace volador::cli {

namespace {

bool head_runs_here(const Paths& paths, const std::string& cluster) {
  return running_process(paths.cluster(cluster).head().pid()).has_value();
}

// Returns the access data that the head of that address left on this machine, if it runs here.
std::optional<ClusterAccess> access_of_address(const Paths& paths, const std::string& address) {
  for (const std::string& cluster : local_clusters(paths)) {
    auto access = load_access(paths, cluster);
    if (access && access->address == address) return *access;
  }
  return std::nullopt;
}

}  // namespace

const std::vector<std::string>& connection_settings() {
  static const std::vector<std::string> keys{"address", "token", "token_file", "cluster"};
  return keys;
}

tl::expected<std::string, Failure> token_of(const Config& config) {
  auto token = token_setting(config);
  if (!token) return fail(ExitCode::kConfig, token.error());
  return *token;
}

tl::expected<Target, Failure> find_target(const Config& config, const Paths& paths) {
  auto token = token_of(config);
  if (!token) return tl::unexpected(token.error());
  Target target{.token = *token};
  const bool cluster_named = is_cluster_named(config);
  if (config.is_set("address") && !cluster_named) {
    target.address = config.text("address");
    auto access = access_of_address(paths, target.address);
    if (access) target.local_cluster = access->cluster;
    if (target.token.empty() && access) target.token = access->token;
    if (target.token.empty())
      return fail(Error{ErrorCode::kUnauthenticated,
                        fmt::format("no token for the cluster at {}: set VOLADOR_TOKEN or --token-file to one that "
                                    "`volador token create --role=operator` printed on the head's machine",
                                    target.address)});
    return target;
  }

  auto cluster = cluster_named ? Result<std::string>(config.text("cluster")) : load_current_cluster(paths);
  if (!cluster && cluster.error().code == ErrorCode::kNotFound)
    return fail(ExitCode::kUnreachable,
                Error{ErrorCode::kUnavailable,
                      "no cluster is known here: start one with `volador start --head`, or name one by "
                      "--address and --token (VOLADOR_ADDRESS, VOLADOR_TOKEN)"});
  if (!cluster) return fail_here(cluster.error());
  auto access = load_access(paths, *cluster);
  if (!access && access.error().code == ErrorCode::kNotFound &&
      std::filesystem::exists(paths.cluster(*cluster).nodes()))
    return fail(
        {ErrorCode::kNotFound,
         fmt::format(
             "this machine only has a worker of cluster {}: ask on its head's machine, or set VOLADOR_ADDRESS and "
             "VOLADOR_TOKEN to what `volador token create --role=operator` prints there",
             *cluster)});
  if (!access) return fail(access.error());
  target.address = access->address;
  if (target.token.empty()) target.token = access->token;
  target.local_cluster = access->cluster;
  return target;
}

tl::expected<std::unique_ptr<control::ClusterApi>, Failure> connect(const Target& target, const Paths& paths,
                                                                    std::chrono::milliseconds timeout) {
  if (!target.local_cluster.empty() && !head_runs_here(paths, target.local_cluster))
    return fail(
        ExitCode::kUnreachable,
        Error{ErrorCode::kUnavailable,
              fmt::format("the head of cluster {} ({}) does not run; start it again: volador start --head --cluster={}",
                          target.local_cluster, target.address, target.local_cluster)});
  auto token = security::parse_token(target.token);
  if (!token) return fail(ExitCode::kAccess, token.error());
  const SystemClock clock;
  auto api = control::ClusterApi::connect(target.address, *token, timeout, clock);
  if (!api) {
    // Every failure to reach it counts as unreachable, including a timeout.
    if (api.error().code == ErrorCode::kTimeout) return fail(ExitCode::kUnreachable, api.error());
    return fail(api.error());
  }
  return std::move(*api);
}

}  // namespace volador::cli
