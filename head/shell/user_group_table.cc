#include "head/shell/user_group_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/nearest_word.h"
#include "runtime/security/user.h"

namespace volador::head {
namespace {

constexpr size_t kGroupNoteBytesMax = 256;

std::set<std::string> members_of(const v1::UserGroup& group) {
  return {group.members().begin(), group.members().end()};
}

Mutation row_of(const v1::UserGroup& group) {
  return {std::string(kUserGroupsTable), group.name(), group.SerializeAsString()};
}

}  // namespace

void UserGroupTable::set_members(v1::UserGroup& group, const std::set<std::string>& members) {
  for (const std::string& before : group.members()) {
    const auto found = groups_of_.find(before);
    if (found == groups_of_.end()) continue;
    found->second.erase(group.name());
    if (found->second.empty()) groups_of_.erase(found);
  }
  group.mutable_members()->Assign(members.begin(), members.end());
  for (const std::string& member : members) groups_of_[member].insert(group.name());
}

bool UserGroupTable::load(std::string_view key, std::string_view value) {
  v1::UserGroup group;
  if (!group.ParseFromArray(value.data(), static_cast<int>(value.size())) || group.name() != key) return false;
  const auto members = members_of(group);
  set_members(groups_[std::string(key)] = std::move(group), members);
  return true;
}

Result<UserGroupTable::Changed> UserGroupTable::create(const v1::UserGroup& group, WallTime now) {
  VOLADOR_TRY(security::check_group_name("group", group.name()));
  const bool plain =
      std::all_of(group.note().begin(), group.note().end(), [](char c) { return static_cast<uint8_t>(c) >= 0x20; });
  if (group.note().size() > kGroupNoteBytesMax || !plain) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("note: {} bytes; expected at most {}, without control characters",
                                  group.note().size(), kGroupNoteBytesMax));
  }
  if (groups_.contains(group.name())) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("group {0} exists; `volador group add {0} USER` adds a member", group.name()));
  }
  if (groups_.size() >= kGroupsMax) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the cluster has {} groups, the most it keeps; delete some first", kGroupsMax));
  }
  v1::UserGroup& created = groups_[group.name()];
  created.set_name(group.name());
  created.set_note(group.note());
  created.set_created_ms(std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count());
  set_members(created, members_of(group));
  return Changed{.group = created, .journal = {row_of(created)}};
}

Result<UserGroupTable::Changed> UserGroupTable::change(std::string_view name, const std::vector<std::string>& add,
                                                       const std::vector<std::string>& remove) {
  VOLADOR_TRY(check_known(name));
  v1::UserGroup& group = groups_.find(name)->second;
  std::set<std::string> members = members_of(group);
  members.insert(add.begin(), add.end());
  for (const std::string& user : remove) members.erase(user);
  set_members(group, members);
  return Changed{.group = group, .journal = {row_of(group)}};
}

Result<UserGroupTable::Changed> UserGroupTable::remove(std::string_view name) {
  VOLADOR_TRY(check_known(name));
  const auto found = groups_.find(name);
  set_members(found->second, {});
  Changed removed{.group = found->second,
                  .journal = {{std::string(kUserGroupsTable), std::string(name), std::nullopt}}};
  groups_.erase(found);
  return removed;
}

std::vector<Mutation> UserGroupTable::set_groups_of(const std::string& user, const std::set<std::string>& groups) {
  std::vector<Mutation> rows;
  for (auto& [name, group] : groups_) {
    std::set<std::string> members = members_of(group);
    const bool changed = groups.contains(name) ? members.insert(user).second : members.erase(user) > 0;
    if (!changed) continue;
    set_members(group, members);
    rows.push_back(row_of(group));
  }
  return rows;
}

const v1::UserGroup* UserGroupTable::find(std::string_view name) const {
  const auto found = groups_.find(name);
  return found == groups_.end() ? nullptr : &found->second;
}

Result<void> UserGroupTable::check_known(std::string_view name) const {
  if (groups_.contains(name)) return {};
  std::vector<std::string> names;
  for (const auto& [known, group] : groups_) names.push_back(known);
  return make_error(ErrorCode::kNotFound,
                    fmt::format("there is no group \"{}\"; `volador group list` shows the groups{}", name,
                                did_you_mean(name, names)));
}

std::vector<v1::UserGroup> UserGroupTable::list() const {
  std::vector<v1::UserGroup> all;
  for (const auto& [name, group] : groups_) all.push_back(group);
  return all;
}

std::vector<std::string> UserGroupTable::of(std::string_view user) const {
  const auto found = groups_of_.find(user);
  return found == groups_of_.end() ? std::vector<std::string>()
                                   : std::vector<std::string>(found->second.begin(), found->second.end());
}

}  // namespace volador::head
