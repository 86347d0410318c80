#include "cli/connection.h"

#include <fmt/format.h>

#include "cli/local_processes.h"
#include "runtime/access_file.h"
#include "runtime/clock.h"
#include "runtime/control/cluster_api.h"
#include "runtime/logins.h"
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

// Takes the token of the sign-in at the target's address, if none is set.
tl::expected<void, Failure> use_login(Target& target, const std::vector<Login>& logins) {
  if (!target.token.empty()) return {};
  const auto login = login_at(logins, target.address);
  if (!login) return {};
  if (login->expires_ms != 0 && unix_ms(SystemClock().wall()) >= login->expires_ms) {
    return fail(
        Error{ErrorCode::kUnauthenticated,
              fmt::format("the sign-in of {} at {} has expired: sign in again with `volador login --user={}`, or "
                          "forget it with `volador logout`",
                          login->user, login->address, login->user)});
  }
  target.token = login->token;
  return {};
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
  auto logins = load_logins(paths);
  if (!logins) return fail_here(logins.error());
  const bool cluster_named = is_cluster_named(config);
  if (config.is_set("address") && !cluster_named) {
    target.address = config.text("address");
    auto access = access_of_address(paths, target.address);
    if (access) target.local_cluster = access->cluster;
    if (auto used = use_login(target, *logins); !used) return tl::unexpected(used.error());
    if (target.token.empty() && access) target.token = access->token;
    if (target.token.empty())
      return fail(
          Error{ErrorCode::kUnauthenticated,
                fmt::format("no token for the cluster at {}: sign in with `volador login`, or set VOLADOR_TOKEN or "
                            "--token-file to one that `volador token create --role=operator` printed on the "
                            "head's machine",
                            target.address)});
    return target;
  }

  auto cluster = cluster_named ? Result<std::string>(config.text("cluster")) : load_current_cluster(paths);
  if (!cluster && cluster.error().code == ErrorCode::kNotFound && !logins->empty()) {
    target.address = logins->front().address;
    if (auto used = use_login(target, *logins); !used) return tl::unexpected(used.error());
    return target;
  }
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
  if (auto used = use_login(target, *logins); !used) return tl::unexpected(used.error());
  if (target.token.empty()) target.token = access->token;
  target.local_cluster = access->cluster;
  return target;
}

tl::expected<SignInPlace, Failure> find_sign_in_place(const Config& config, const Paths& paths) {
  auto logins = load_logins(paths);
  if (!logins) return fail_here(logins.error());
  SignInPlace place;
  std::optional<ClusterAccess> access;
  if (config.is_set("address") && !is_cluster_named(config)) {
    place.address = config.text("address");
    access = access_of_address(paths, place.address);
  } else {
    auto cluster = is_cluster_named(config) ? Result<std::string>(config.text("cluster")) : load_current_cluster(paths);
    auto found = cluster ? load_access(paths, *cluster) : make_error(cluster.error());
    if (found) {
      access = *found;
      place.address = access->address;
    } else if (const auto login = login_at(*logins, ""); login && !is_cluster_named(config)) {
      place.address = login->address;
    } else {
      return fail(Error{found.error().code, "no cluster is known here: name the head with --address=HOST:PORT (" +
                                                found.error().message + ")"});
    }
  }
  const auto login = login_at(*logins, place.address);
  place.fingerprint = access ? access->fingerprint : login ? login->fingerprint : "";
  return place;
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
