// Signatures of JSON Web Tokens (RFC 7515, 7517, 7518, 7519), checked by the public keys of their issuer. What the claims say is
// the caller's to check. Pure.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::security {

// A JSON Web Key Set: the public keys of an issuer.
class WebKeys {
 public:
  static constexpr size_t kKeysMax = 100;

  // Keeps the RSA keys from 2048 bits on and the keys on P-256 and P-384 that are for signatures; others are skipped.
  // kInvalidArgument: it is no key set.
  [[nodiscard]] static Result<WebKeys> parse(std::string_view json);
  size_t size() const { return keys_.size(); }

  // The payload of a token in the compact form whose signature one of the keys has made, by RS256, RS384, RS512, ES256
  // or ES384. A symmetric or missing signature is never accepted, whatever the header of the token says.
  // kNotFound: no key has the id that the token names; the issuer may have changed its keys.
  // kUnauthenticated: it is no such token, or the signature is wrong.
  [[nodiscard]] Result<std::string> payload_of(std::string_view token) const;

 private:
  struct Key;
  std::vector<std::shared_ptr<const Key>> keys_;
};

}  // namespace volador::security
