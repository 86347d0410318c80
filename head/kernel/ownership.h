// Access control by owner: objects may be changed by clients with the token of their creator, and by operators.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"

namespace volador::head {

class ClientTable;
struct Actor;

// The owner recorded for objects that an authenticated client creates.
protocol::Owner owner_of(const security::Principal& by);
// The owner on whose behalf a client sends a request: the owner of the actor `creator` if one sent it, else of the
// driver. Empty: unknown.
protocol::Owner requester(const ClientTable& clients, DriverId driver, const Actor* creator);
// Sets the owner of a spec that a client sent, in place of what the client stated; an unknown owner leaves none.
template <class Spec>
void assign_owner(Spec& spec, protocol::Owner owner) {
  spec.clear_owner();
  if (!owner.token_id().empty()) *spec.mutable_owner() = std::move(owner);
}
// kPermissionDenied: `by` neither owns the object nor is an operator; the message names the rule. Examples: `action`
// "kill", `thing` "actor hits (3f2a90c1)". Objects without an owner, from journals of earlier versions, may be changed
// by everyone.
[[nodiscard]] Result<void> check_owner(const protocol::Owner& by, const protocol::Owner& owner, std::string_view action,
                                       std::string_view thing);

}  // namespace volador::head
