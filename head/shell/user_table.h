// The cluster's users. Pure: no clock, no I/O.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "head/journal/journal.h"
#include "runtime/clock.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"
#include "runtime/security/user.h"

namespace volador::v1 {
class User;
}

namespace volador::head {

inline constexpr std::string_view kUsersTable = "users";  // UserRecord; key: the name.

class UserTable {
 public:
  static constexpr size_t kUsersMax = 10'000;

  // Loads a journal row. Returns false and skips it if it cannot be read.
  bool load(std::string_view key, std::string_view value);

  struct Changed {
    protocol::UserRecord record;
    std::vector<Mutation> journal;
    bool created = false;
  };
  // Adds the user, or changes the one of this name. `password_hash`: empty leaves the present one. kInvalidArgument: a
  // field breaks its rule, or another user has this subject. kUnavailable: kUsersMax exist.
  [[nodiscard]] Result<Changed> put(const v1::User& user, const std::string& password_hash, WallTime now);
  // Checks what put() checks, before its password is hashed.
  [[nodiscard]] Result<void> check(const v1::User& user) const;
  // kNotFound.
  [[nodiscard]] Result<Changed> set_password(std::string_view name, const std::string& password_hash);
  [[nodiscard]] Result<Changed> remove(std::string_view name);

  // kNotFound, with a similar name.
  [[nodiscard]] Result<void> check_known(std::string_view name) const;
  // Null: there is none.
  const protocol::UserRecord* find(std::string_view name) const;
  const protocol::UserRecord* find_subject(std::string_view subject) const;
  // By name.
  std::vector<protocol::UserRecord> list() const;

 private:
  Result<protocol::UserRecord*> known(std::string_view name);

  std::map<std::string, protocol::UserRecord, std::less<>> users_;
};

// The role of a record that load() or put() took.
security::UserRole role_of(const protocol::UserRecord& user);
v1::User to_api(const protocol::UserRecord& user);

}  // namespace volador::head
