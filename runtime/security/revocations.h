// Revoked tokens and certificates.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "runtime/result.h"
#include "runtime/security/peer_identity.h"

namespace volador::security {

// Thread safe. Grows with each revocation; an entry could be removed once the longest-lived certificate issued before
// it has expired.
class Revocations {
 public:
  void revoke_token(std::string token_id);
  void revoke_serial(std::string serial);
  bool token_revoked(const std::string& token_id) const;

  // kUnauthenticated: this certificate or its token was revoked; the message names which and the remedy.
  [[nodiscard]] Result<void> check(const PeerIdentity& peer) const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string, std::less<>> tokens_;
  std::set<std::string, std::less<>> serials_;
};

}  // namespace volador::security
