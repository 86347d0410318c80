#include "head/kernel/ownership.h"

#include <fmt/format.h>

#include "head/actors/actor_directory.h"
#include "head/clients/client_table.h"

namespace volador::head {

protocol::Owner owner_of(const security::Principal& by) {
  protocol::Owner owner;
  owner.set_token_id(by.token_id);
  owner.set_operates(!by.token_id.empty() && by.role == security::Role::kOperator);
  return owner;
}

protocol::Owner requester(const ClientTable& clients, DriverId driver, const Actor* creator) {
  if (creator != nullptr) return creator->spec.owner();
  const Driver* known = clients.find(driver);
  return known == nullptr ? protocol::Owner() : known->owner;
}

Result<void> check_owner(const protocol::Owner& by, const protocol::Owner& owner, std::string_view action,
                         std::string_view thing) {
  if (by.operates() || owner.token_id().empty() || owner.token_id() == by.token_id()) return {};
  return make_error(ErrorCode::kPermissionDenied,
                    fmt::format("{} belongs to token {}; a program may {} what programs of its own token {} created, "
                                "and operators may {} everything. Use a program with "
                                "the token {}, or one of role operator.",
                                thing, owner.token_id(), action, by.token_id().empty() ? "(unknown)" : by.token_id(),
                                action, owner.token_id()));
}

}  // namespace volador::head
