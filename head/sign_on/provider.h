// What Volador reads from an OpenID Connect provider and sends to it: the discovery document, requests for
// authorization (RFC 6749 with PKCE of RFC 7636, RFC 8628), and the answers. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "head/sign_on/sign_on_options.h"
#include "runtime/outgoing/transfer.h"
#include "runtime/result.h"

namespace volador::head {

struct ProviderMetadata {
  std::string issuer;
  std::string authorization_url, token_url, keys_url;
  std::string device_url;     // Empty: it has no device grant.
  std::string user_info_url;  // Empty: it has none.
  bool takes_basic = true;    // The secret of the client in the head of a request; else in the form.
  bool names_itself = false;  // Its answers have "iss" (RFC 9207).
};

// https://, or http:// on this machine, without a query or fragment. kInvalidArgument: names `what`.
[[nodiscard]] Result<void> check_provider_url(std::string_view what, std::string_view url);
// The address of the discovery document.
std::string discovery_url(const std::string& issuer);
// kInvalidArgument: no such document, of another issuer, or an address in it is not as check_provider_url() wants it.
[[nodiscard]] Result<ProviderMetadata> parse_metadata(std::string_view json, const std::string& issuer);

// The address to which a browser goes to sign in.
struct AuthorizationRequest {
  std::string callback, state, nonce, verifier;
};
std::string authorization_url(const ProviderMetadata& provider, const SignOnOptions& options,
                              const AuthorizationRequest& request);
// The code challenge S256 of a verifier.
std::string code_challenge(const std::string& verifier);

// Exchanges a code of a browser, or that of a device, for tokens.
outgoing::Fetch code_request(const ProviderMetadata& provider, const SignOnOptions& options, const std::string& code,
                             const std::string& verifier, const std::string& callback);
outgoing::Fetch device_request(const ProviderMetadata& provider, const SignOnOptions& options);
outgoing::Fetch device_code_request(const ProviderMetadata& provider, const SignOnOptions& options,
                                    const std::string& device_code);

struct Tokens {
  std::string id_token;
  std::string access_token;  // For the user's info; may be empty.
};
// nullopt: a device's user has not signed in yet; `slower`: it asks for longer pauses.
// kPermissionDenied: the user or the provider refused, or the code is used or expired; kUnavailable: no usable answer.
// The texts have what the provider says, never a secret.
[[nodiscard]] Result<std::optional<Tokens>> parse_tokens(const outgoing::Answer& answer, bool& slower);

struct DeviceGrant {
  std::string device_code;  // Secret.
  std::string user_code, url;
  std::chrono::seconds valid{600};
  std::chrono::seconds interval{5};
};
[[nodiscard]] Result<DeviceGrant> parse_device_grant(const outgoing::Answer& answer);

// Printable text of others for a message: other characters become '?', and the end of long ones is left out.
std::string shown_text(std::string_view text);

}  // namespace volador::head
