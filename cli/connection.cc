#include "cli/connection.h"

#include <fmt/format.h>

#include "runtime/access_file.h"
#include "runtime/clock.h"
#include "runtime/control/cluster_api.h"
#include "runtime/logins.h"
#include "runtime/process_file.h"
#include "runtime/security/token.h"
#include "runtime/settings.h"

namespace volador::cli {

namespace {

bool head_runs_here(const Paths& paths, const std::string& cluster) {
  return running_process(paths.cluster(cluster).head().pid()).has_value();
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

tl::expected<ClusterTarget, Failure> find_target(const Config& config, const Paths& paths) {
  auto given = with_settings({}, config);
  if (!given) return fail(ExitCode::kConfig, given.error());
  auto target = find_cluster(*given, paths, unix_ms(SystemClock().wall()));
  if (target) return std::move(*target);
  // A damaged file is no error of the command line.
  if (target.error().code == ErrorCode::kInvalidArgument) return fail_here(target.error());
  return fail(target.error());
}

tl::expected<SignInPlace, Failure> find_sign_in_place(const Config& config, const Paths& paths) {
  auto logins = load_logins(paths);
  if (!logins) return fail_here(logins.error());
  SignInPlace place;
  std::optional<ClusterAccess> access;
  if (config.is_set("address") && !is_cluster_named(config)) {
    place.address = config.text("address");
    access = access_at(paths, place.address);
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

tl::expected<std::unique_ptr<control::ClusterApi>, Failure> connect(const ClusterTarget& target, const Paths& paths,
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
