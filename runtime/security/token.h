// Join token of a node, driver or operator: vt1.<base64url>. It contains the authority's fingerprint and the secret, so
// that the joiner can verify the cluster before it sends anything.
//
// Bytes: version 1 · role 1 · fingerprint 32 · id 6 · secret 20 · first 4 of sha256 over everything before.
#pragma once

#include <string>
#include <string_view>

#include "runtime/result.h"
#include "runtime/security/digest.h"
#include "runtime/security/role.h"
#include "runtime/security/secret.h"

namespace volador::security {

inline constexpr size_t kTokenSecretBytes = 20;
inline constexpr size_t kTokenIdBytes = 6;

// A parsed join token.
struct JoinToken {
  Fingerprint authority;
  std::string id;                     // 12 hex digits; not secret, identifies the token in lists and logs.
  Secret secret;                      // kTokenSecretBytes.
  TokenRole role = TokenRole::kJoin;  // Informational: the head's record decides.
};

// Creates id and secret with the kernel's random generator.
JoinToken make_token(const Fingerprint& authority, TokenRole role);

// Returns the text to show once. Secret as a whole.
Secret token_text(const JoinToken& token);

// kUnauthenticated: empty, not a token, truncated or mistyped (by the checksum), or of a newer version. The message
// never contains the text. Surrounding whitespace is ignored.
[[nodiscard]] Result<JoinToken> parse_token(std::string_view text);

// kPermissionDenied: tokens of this role do not allow joining as `wanted`; the message names the role that does.
[[nodiscard]] Result<void> check_joins_as(std::string_view id, TokenRole token, Role wanted);

// The head's record of a token (32 raw bytes, TokenRecord.secret_sha256), and the constant-time check against it.
std::string secret_record(const Secret& secret);
bool secret_matches(std::string_view presented_secret, std::string_view secret_sha256);

}  // namespace volador::security
