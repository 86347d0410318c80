#include "cli/render/user_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/render/table.h"
#include "runtime/protocol/volador/v1/users.pb.h"

namespace volador::cli {

std::string users_text(const v1::ListUsersReply& reply, const Terminal& terminal) {
  if (reply.users().empty()) return terminal.tr("no users; `volador user add NAME` adds one") + "\n";
  Table table({{.title = terminal.tr("user")},
               {.title = terminal.tr("role")},
               {.title = terminal.tr("state")},
               {.title = terminal.tr("name"), .rank = 2, .width_max = 40, .width_min = 10},
               {.title = terminal.tr("mail"), .rank = 1, .width_max = 40, .width_min = 10},
               {.title = terminal.tr("groups"), .rank = 3, .width_max = 40, .width_min = 10}});
  for (const v1::User& user : reply.users()) {
    const std::string state = user.disabled() ? terminal.paint(Colour::kRed, terminal.tr("disabled"))
                              : !user.password_set() && user.subject().empty()
                                  ? terminal.paint(Colour::kYellow, terminal.tr("no password"))
                                  : terminal.paint(Colour::kGreen, terminal.tr("active"));
    table.add({printable(user.name()), printable(user.role()), state, printable(user.full_name()),
               printable(user.mail()), printable(fmt::format("{}", fmt::join(user.groups(), ", ")))});
  }
  return fitted(table, terminal);
}

std::string user_groups_text(const v1::ListUserGroupsReply& reply, const Terminal& terminal) {
  if (reply.groups().empty()) return terminal.tr("no groups; `volador group create NAME` creates one") + "\n";
  Table table({{.title = terminal.tr("group name")},
               {.title = terminal.tr("members"), .rank = 1, .width_max = 80, .width_min = 20},
               {.title = terminal.tr("note"), .rank = 2, .width_max = 40, .width_min = 10}});
  for (const v1::UserGroup& group : reply.groups()) {
    table.add({printable(group.name()), printable(fmt::format("{}", fmt::join(group.members(), ", "))),
               printable(group.note())});
  }
  return fitted(table, terminal);
}

std::string who_text(const v1::WhoAmIReply& reply, const Terminal& terminal) {
  std::string out =
      reply.user().empty()
          ? terminal.fill("token {} of role {}, without a user", reply.token_id(), reply.role())
          : terminal.fill("user {}, with token {} of role {}", reply.user(), reply.token_id(), reply.role());
  if (!reply.groups().empty())
    out += "\n" + terminal.fill("in the groups {}", printable(fmt::format("{}", fmt::join(reply.groups(), ", "))));
  if (!reply.projects().empty())
    out += "\n" + terminal.fill("member of {}", printable(fmt::format("{}", fmt::join(reply.projects(), ", "))));
  return out + "\n";
}

}  // namespace volador::cli
