// What no longer counts although its certificate is still valid: tokens that were revoked, and single certificates.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "runtime/result.h"
#include "runtime/security/peer_identity.h"

namespace volador::security {

// Thread safe. Grows by what people revoke; an entry may go once the longest certificate made before it has expired.
class Revocations {
 public:
  void revoke_token(std::string token_id);
  void revoke_serial(std::string serial);
  bool token_revoked(const std::string& token_id) const;

  // kUnauthenticated: this certificate, or the token behind it, was revoked; the message says which and what to do.
  [[nodiscard]] Result<void> check(const PeerIdentity& peer) const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string, std::less<>> tokens_;
  std::set<std::string, std::less<>> serials_;
};

}  // namespace volador::security
