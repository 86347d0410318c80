#include "runtime/security/token.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <optional>

#include "runtime/text.h"

namespace volador::security {
namespace {

constexpr std::string_view kPrefix = "vt1.";
constexpr uint8_t kTokenVersion = 1;
constexpr size_t kChecksumBytes = 4;
constexpr size_t kBodyBytes = 1 + 1 + 32 + kTokenIdBytes + kTokenSecretBytes;
constexpr size_t kTextMax = 4096;  // Longer texts are rejected without parsing.
constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::string_view kCopyAgain =
    "Copy the whole token that `volador start --head` or `volador token create` printed.";

std::string base64url(std::string_view bytes) {
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : bytes) {
    bits = (bits << 8) | static_cast<uint8_t>(c);
    for (have += 8; have >= 6; have -= 6) out += kAlphabet[(bits >> (have - 6)) & 63];
  }
  if (have > 0) out += kAlphabet[(bits << (6 - have)) & 63];
  return out;
}

std::optional<std::string> from_base64url(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6) | static_cast<uint32_t>(value);
    have += 6;
    if (have >= 8) {
      have -= 8;
      out += static_cast<char>((bits >> have) & 255);
    }
  }
  if ((bits & ((1U << have) - 1)) != 0) return std::nullopt;  // Canonical encoding only.
  return out;
}

std::string hex_bytes(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return out;
}

std::string bytes_of_hex(std::string_view digits) {
  std::string out;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    const auto nibble = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    out += static_cast<char>(nibble(digits[i]) << 4 | nibble(digits[i + 1]));
  }
  return out;
}

tl::unexpected<Error> bad(std::string_view why) {
  return make_error(ErrorCode::kUnauthenticated, fmt::format("token: {}. {}", why, kCopyAgain));
}

// "vt2." and so on: a token of a later version of Volador.
bool is_other_version(std::string_view text) {
  const size_t dot = text.find('.');
  return text.starts_with("vt") && dot != std::string_view::npos && dot > 2 && dot < 6 &&
         std::all_of(text.begin() + 2, text.begin() + static_cast<std::ptrdiff_t>(dot),
                     [](char c) { return c >= '0' && c <= '9'; });
}

tl::unexpected<Error> newer_version() {
  return make_error(ErrorCode::kUnauthenticated,
                    "token: it was made by another version of Volador. Install the version that the head runs.");
}

std::string checksum(std::string_view body) { return raw(sha256(body)).substr(0, kChecksumBytes); }

}  // namespace

JoinToken make_token(const Fingerprint& authority, TokenRole role) {
  return {.authority = authority,
          .id = hex_bytes(Secret::random(kTokenIdBytes).reveal()),
          .secret = Secret::random(kTokenSecretBytes),
          .role = role};
}

Secret token_text(const JoinToken& token) {
  std::string body;
  body.reserve(kBodyBytes + kChecksumBytes);
  body += static_cast<char>(kTokenVersion);
  body += static_cast<char>(token.role);
  body += raw(token.authority.digest);
  body += bytes_of_hex(token.id);
  body += token.secret.reveal();
  VOLADOR_CHECK(body.size() == kBodyBytes, fmt::format("{} bytes", body.size()));
  body += checksum(body);
  Secret text(std::string(kPrefix) + base64url(body));
  OPENSSL_cleanse(body.data(), body.size());
  return text;
}

Result<JoinToken> parse_token(std::string_view given) {
  const std::string_view text = trimmed(given);
  if (text.empty()) return bad("it is empty");
  if (text.size() > kTextMax) return bad(fmt::format("{} characters are too many", text.size()));
  if (!text.starts_with(kPrefix)) {
    if (is_other_version(text)) return newer_version();
    return bad("expected a text that begins with \"vt1.\"");
  }
  auto bytes = from_base64url(text.substr(kPrefix.size()));
  constexpr size_t kAllBytes = kBodyBytes + kChecksumBytes;
  if (text.size() < kPrefix.size() + (kAllBytes * 8 + 5) / 6) return bad("it is cut short");
  if (!bytes) return bad("this is no token of a cluster, or it was mistyped (it has characters that no token has)");
  if (bytes->size() > kAllBytes) return bad("it is too long");
  const Secret wiped_at_the_end(std::move(*bytes));
  const std::string_view body = std::string_view(wiped_at_the_end.reveal()).substr(0, kBodyBytes);
  if (!constant_time_equal(checksum(body), std::string_view(wiped_at_the_end.reveal()).substr(kBodyBytes))) {
    return bad("this is no token of a cluster, or it was mistyped (its checksum does not fit)");
  }
  // Its checksum is valid: it is a token.
  if (static_cast<uint8_t>(body.front()) != kTokenVersion) return newer_version();
  const auto role = static_cast<TokenRole>(static_cast<uint8_t>(body[1]));
  if (role != TokenRole::kJoin && role != TokenRole::kDriver && role != TokenRole::kOperator &&
      role != TokenRole::kViewer)
    return newer_version();
  JoinToken out{.role = role};
  std::copy_n(body.begin() + 2, 32, out.authority.digest.begin());
  out.id = hex_bytes(body.substr(34, kTokenIdBytes));
  out.secret = Secret(std::string(body.substr(34 + kTokenIdBytes)));
  return out;
}

Result<void> check_joins_as(std::string_view id, TokenRole token, Role wanted) {
  if (may_join_as(token, wanted)) return {};
  return make_error(ErrorCode::kPermissionDenied,
                    fmt::format("token {} has role {}: it cannot join as {}. Create one with `volador token create "
                                "--role={}` on the head's machine.",
                                id, to_string(token), to_string(wanted), to_string(token_role_for(wanted))));
}

std::string secret_record(const Secret& secret) { return raw(sha256(secret.reveal())); }

bool secret_matches(std::string_view presented_secret, std::string_view secret_sha256) {
  return constant_time_equal(raw(sha256(presented_secret)), secret_sha256);
}

}  // namespace volador::security
