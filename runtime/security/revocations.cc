#include "runtime/security/revocations.h"

#include <fmt/format.h>

namespace volador::security {

void Revocations::revoke_token(std::string token_id) {
  const std::scoped_lock lock(mutex_);
  tokens_.insert(std::move(token_id));
}

void Revocations::revoke_serial(std::string serial) {
  const std::scoped_lock lock(mutex_);
  serials_.insert(std::move(serial));
}

bool Revocations::token_revoked(const std::string& token_id) const {
  const std::scoped_lock lock(mutex_);
  return tokens_.contains(token_id);
}

Result<void> Revocations::check(const PeerIdentity& peer) const {
  const std::scoped_lock lock(mutex_);
  if (!peer.token_id.empty() && tokens_.contains(peer.token_id)) {
    return make_error(
        ErrorCode::kUnauthenticated,
        fmt::format("token {}, which {} \"{}\" joined with, was revoked. Join again with a new one "
                    "(`volador token create --role={}` where the head runs).",
                    peer.token_id, to_string(peer.role), peer.name, to_string(token_role_for(peer.role))));
  }
  if (serials_.contains(peer.serial)) {
    return make_error(ErrorCode::kUnauthenticated, fmt::format("certificate {} of {} \"{}\" was revoked. Join again.",
                                                               peer.serial, to_string(peer.role), peer.name));
  }
  return {};
}

}  // namespace volador::security
