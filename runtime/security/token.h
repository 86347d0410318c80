// What a node, driver or operator joins with: vt1.<base64url>. One text carries where it belongs (the authority's fingerprint)
// and what proves it (the secret), so a joiner can check the cluster before it says anything.
//
// Bytes: version 1 · role 1 · fingerprint 32 · id 6 · secret 20 · first 4 of sha256 over all before.
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

struct JoinToken {
  Fingerprint authority;
  std::string id;  // 12 hex digits; not secret, names the token in lists and logs.
  Secret secret;   // kTokenSecretBytes.
  TokenRole role = TokenRole::kJoin;  // A hint for messages: the head's record decides.
};

// A new id and secret from the kernel's generator.
JoinToken make_token(const Fingerprint& authority, TokenRole role);

// The text to print once. Secret as a whole.
Secret token_text(const JoinToken& token);

// kUnauthenticated: empty, not a token, truncated or mistyped (the checksum), of a newer version. The message never
// repeats the text. Spaces and line ends around it are ignored.
[[nodiscard]] Result<JoinToken> parse_token(std::string_view text);

// kPermissionDenied: a token of this role lets nobody join as `wanted`; the message names the role that does.
[[nodiscard]] Result<void> check_joins_as(std::string_view id, TokenRole token, Role wanted);

// What the head keeps of a token (32 raw bytes, TokenRecord.secret_sha256), and the check against it in constant time.
std::string secret_record(const Secret& secret);
bool secret_matches(std::string_view presented_secret, std::string_view secret_sha256);

}  // namespace volador::security
