#include "runtime/cluster_target.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "runtime/access_file.h"
#include "runtime/cluster_processes.h"
#include "runtime/logins.h"
#include "runtime/settings.h"

namespace volador {
namespace {

// What a head left on this machine for the target; nothing: no head here has the address, or no cluster is known here.
Result<std::optional<ClusterAccess>> local_access(const GivenTarget& given, const Paths& paths, bool is_signed_in) {
  if (!given.address.empty()) return access_at(paths, given.address);
  const auto name = given.cluster.empty() ? load_current_cluster(paths) : Result<std::string>(given.cluster);
  if (!name && name.error().code == ErrorCode::kNotFound) return std::nullopt;
  if (!name) return make_error(name.error());
  auto access = load_access(paths, *name);
  if (access) return std::optional(std::move(*access));
  if (access.error().code != ErrorCode::kNotFound) return make_error(access.error());
  if (is_signed_in && given.cluster.empty()) return std::nullopt;
  if (std::filesystem::exists(paths.cluster(*name).nodes())) {
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("this machine only has a worker of cluster {}: ask on its head's machine, sign in with `volador "
                    "login`, or set VOLADOR_ADDRESS and VOLADOR_TOKEN to what `volador token create --role=operator` "
                    "prints there",
                    *name));
  }
  return make_error(access.error());
}

}  // namespace

Result<GivenTarget> with_settings(GivenTarget given, const Config& config) {
  if (given.address.empty() && given.cluster.empty()) {
    if (is_cluster_named(config)) {
      given.cluster = config.text("cluster");
    } else if (config.is_set("address")) {
      given.address = config.text("address");
    }
  }
  if (given.token.empty()) {
    auto token = token_setting(config);
    if (!token) return make_error(std::move(token).error());
    given.token = std::move(*token);
  }
  return given;
}

Result<ClusterTarget> find_cluster(const GivenTarget& given, const Paths& paths, int64_t now_ms) {
  const auto logins = load_logins(paths);
  if (!logins) return make_error(logins.error());
  const auto access = local_access(given, paths, !logins->empty());
  if (!access) return make_error(access.error());
  ClusterTarget target{.address = given.address, .token = given.token};
  if (*access) {
    target.address = (*access)->address;
    target.local_cluster = (*access)->cluster;
  } else if (target.address.empty() && !logins->empty()) {
    target.address = logins->front().address;
  }
  if (target.address.empty()) {
    return make_error(ErrorCode::kUnavailable,
                      "no cluster is known here: start one with `volador start --head`, sign in at one with `volador "
                      "login`, or name one by VOLADOR_ADDRESS and VOLADOR_TOKEN (--address and --token)");
  }
  if (!target.token.empty()) return target;

  auto login = login_at(*logins, target.address);
  if (login && *access && login->fingerprint != (*access)->fingerprint) login.reset();
  if (login) {
    if (login->expires_ms != 0 && now_ms >= login->expires_ms) {
      return make_error(
          ErrorCode::kUnauthenticated,
          fmt::format("the sign-in of {0} at {1} has expired: sign in again with `volador login --user={0}`, or "
                      "forget it with `volador logout`",
                      login->user, login->address));
    }
    target.token = login->token;
    target.user = login->user;
  } else if (*access) {
    target.token = (*access)->token;
  } else {
    return make_error(ErrorCode::kUnauthenticated,
                      fmt::format("no token for the cluster at {}: sign in with `volador login`, or set VOLADOR_TOKEN "
                                  "(or --token-file of commands) to one that `volador token create --role=operator` "
                                  "printed on the head's machine; --role=driver is enough for programs",
                                  target.address));
  }
  return target;
}

Error with_sign_in(Error error, const ClusterTarget& target) {
  const bool is_refused = error.code == ErrorCode::kUnauthenticated || error.code == ErrorCode::kPermissionDenied;
  if (target.user.empty() || !is_refused) return error;
  error.message += fmt::format(
      "; the token is from the sign-in of {0} at {1}: sign in again with `volador login --user={0}`, or set "
      "VOLADOR_TOKEN to another one",
      target.user, target.address);
  error.why.clear();
  return error;
}

}  // namespace volador
