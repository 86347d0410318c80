// The cluster's tokens with role, expiry and user. Stores hashes of the secrets. Pure: no clock, no I/O.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "head/journal/journal.h"
#include "runtime/clock.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"
#include "runtime/security/token.h"

namespace volador::head {

inline constexpr std::string_view kTokensTable = "tokens";  // TokenRecord; key: its id.

// Whose token it is.
struct TokenOwner {
  std::string user = {};  // Empty: it has no user.
  bool sign_in = false;   // Made by a sign-in.
};

class TokenTable {
 public:
  static constexpr size_t kTokensMax = 10'000;
  static constexpr size_t kSignInsMax = 100;  // A user's, at once; beyond it the oldest is revoked.

  // Loads a journal row. Returns false and skips it if it cannot be read.
  bool load(std::string_view key, std::string_view value);

  struct Created {
    security::JoinToken token;
    protocol::TokenRecord record;
    std::vector<Mutation> journal;  // Also removes records that expired long ago.
    std::string revoked = {};       // Id of the user's oldest sign-in, if it made room.
  };
  // valid_for 0: unlimited. kInvalidArgument: negative, or a note above 256 bytes. kUnavailable: kTokensMax exist.
  [[nodiscard]] Result<Created> create(const security::Fingerprint& authority, security::TokenRole role,
                                       std::chrono::milliseconds valid_for, std::string note, WallTime now,
                                       const TokenOwner& owner = {});

  // By id, or by a prefix of at least four digits. Idempotent: no mutation on repeated calls. kNotFound;
  // kInvalidArgument: several match, or the prefix is too short.
  struct Revoked {
    std::string id;
    std::vector<Mutation> journal;
  };
  [[nodiscard]] Result<Revoked> revoke(std::string_view id);

  // Returns the role of the secret's token. kUnauthenticated: unknown or wrong (the same message for both), revoked, or
  // expired; the message says what to do.
  [[nodiscard]] Result<security::TokenRole> check(const std::string& id, std::string_view secret, WallTime now,
                                                  security::TokenRole wanted = security::TokenRole::kOperator) const;

  // Whether the token is known, not revoked and not expired.
  bool counts(std::string_view id, WallTime now) const;

  // Null: there is none.
  const protocol::TokenRecord* find(std::string_view id) const;
  // The tokens of a user that are not revoked; only those of sign-ins: with `sign_ins`.
  std::vector<std::string> of_user(std::string_view user, bool sign_ins) const;
  // Oldest first.
  std::vector<protocol::TokenRecord> list() const;

 private:
  std::map<std::string, protocol::TokenRecord, std::less<>> tokens_;
};

}  // namespace volador::head
