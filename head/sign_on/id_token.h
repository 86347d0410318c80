// What an ID token must say before it is believed (OpenID Connect Core 1.0, section 3.1.3.7), and who it is about. Pure.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "head/sign_on/sign_on_options.h"
#include "runtime/clock.h"
#include "runtime/result.h"

namespace volador::head {

inline constexpr std::chrono::seconds kClockSkew{60};  // Between the provider's clock and ours.

struct IdTokenRules {
  std::string issuer;
  std::string client_id;
  std::string nonce;  // Empty: the request had none.
};

// The claims of a token whose signature is right. kUnauthenticated: of another issuer, for another client, expired, issued
// in the future, without the nonce of this sign-in, or no claims at all; the message names the claim.
[[nodiscard]] Result<nlohmann::json> check_id_token(std::string_view payload, const IdTokenRules& rules, WallTime now);

// Whether a claim that the options name is missing, so that the user's info is worth a request.
bool lacks_claims(const nlohmann::json& claims, const SignOnOptions& options);
// Adds what the user's info says. kUnauthenticated: it is about someone else.
[[nodiscard]] Result<void> add_user_info(nlohmann::json& claims, std::string_view info);

// The person. kPermissionDenied: the person's mail or groups are not among those that the options allow.
[[nodiscard]] Result<SignOnIdentity> identity_of(const nlohmann::json& claims, const SignOnOptions& options);

}  // namespace volador::head
