// Users as text.
#pragma once

#include <string>

#include "cli/render/terminal.h"

namespace volador::v1 {
class ListUserGroupsReply;
class ListUsersReply;
class WhoAmIReply;
}  // namespace volador::v1

namespace volador::cli {

std::string users_text(const v1::ListUsersReply& reply, const Terminal& terminal);
std::string user_groups_text(const v1::ListUserGroupsReply& reply, const Terminal& terminal);
std::string who_text(const v1::WhoAmIReply& reply, const Terminal& terminal);

}  // namespace volador::cli
