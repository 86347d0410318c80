// The cluster's tokens: who may join, until when. Secrets are kept as hashes. Pure: no clock, no I/O.
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

class TokenTable {
 public:
  static constexpr size_t kTokensMax = 10'000;

  // A row of the journal. False: it cannot be read and was left out.
  bool load(std::string_view key, std::string_view value);

  struct Created {
    security::JoinToken token;
    protocol::TokenRecord record;
    std::vector<Mutation> journal;  // With it, records that expired long ago are forgotten.
  };
  // valid_for 0: without end. kInvalidArgument: negative, or a note above 256 bytes. kUnavailable: kTokensMax are there.
  [[nodiscard]] Result<Created> create(const security::Fingerprint& authority, security::TokenRole role, std::chrono::milliseconds valid_for,
                                       std::string note, WallTime now);

  // By id or the first digits of one, at least four. Repeated: no effect, no mutation. kNotFound; kInvalidArgument: several match, or fewer digits.
  struct Revoked {
    std::string id;
    std::vector<Mutation> journal;
  };
  [[nodiscard]] Result<Revoked> revoke(std::string_view id);

  // Who holds this secret. kUnauthenticated: unknown or wrong (one answer for both), revoked, or expired, with the next step.
  [[nodiscard]] Result<security::TokenRole> check(const std::string& id, std::string_view secret, WallTime now,
                                                  security::TokenRole wanted = security::TokenRole::kOperator) const;

  // Known, not revoked and not expired.
  bool counts(std::string_view id, WallTime now) const;

  // Oldest first.
  std::vector<protocol::TokenRecord> list() const;

 private:
  std::map<std::string, protocol::TokenRecord, std::less<>> tokens_;
};

}  // namespace volador::head
