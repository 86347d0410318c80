// The cluster's groups of users. Pure: no clock, no I/O. Whether the members are users is the caller's to check.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "head/journal/journal.h"
#include "runtime/clock.h"
#include "runtime/protocol/volador/v1/users.pb.h"
#include "runtime/result.h"

namespace volador::head {

inline constexpr std::string_view kUserGroupsTable = "user_groups";  // v1::UserGroup; key: the name.

class UserGroupTable {
 public:
  static constexpr size_t kGroupsMax = 1000;

  // Loads a journal row. Returns false and skips it if it cannot be read.
  bool load(std::string_view key, std::string_view value);

  struct Changed {
    v1::UserGroup group;
    std::vector<Mutation> journal;
  };
  // kInvalidArgument: the name or the note breaks its rule, or the group exists. kUnavailable: kGroupsMax exist.
  [[nodiscard]] Result<Changed> create(const v1::UserGroup& group, WallTime now);
  // Adds and removes members; a user in both lists is no member afterwards. kNotFound.
  [[nodiscard]] Result<Changed> change(std::string_view name, const std::vector<std::string>& add,
                                       const std::vector<std::string>& remove);
  // kNotFound.
  [[nodiscard]] Result<Changed> remove(std::string_view name);
  // Makes the user a member of those of the groups that exist, and of no others.
  [[nodiscard]] std::vector<Mutation> set_groups_of(const std::string& user, const std::set<std::string>& groups);

  // Null: there is none.
  const v1::UserGroup* find(std::string_view name) const;
  // kNotFound, with a similar name.
  [[nodiscard]] Result<void> check_known(std::string_view name) const;
  // By name.
  std::vector<v1::UserGroup> list() const;
  // The names of the groups that the user is a member of.
  std::vector<std::string> of(std::string_view user) const;

 private:
  void set_members(v1::UserGroup& group, const std::set<std::string>& members);

  std::map<std::string, v1::UserGroup, std::less<>> groups_;
  std::map<std::string, std::set<std::string>, std::less<>> groups_of_;  // By user.
};

}  // namespace volador::head
