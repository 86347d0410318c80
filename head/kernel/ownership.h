// Access by owner: what a client created is changed by clients of the same token, and by operators.
#pragma once

#include <string>
#include <string_view>

#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"

namespace volador::head {

class ClientTable;
struct Actor;

// What an authenticated client creates belongs to this.
protocol::Owner owner_of(const security::Principal& by);
// The owner for whom a client makes a request: that of the actor `creator` which sent it, else of its driver. Empty: not known.
protocol::Owner requester(const ClientTable& clients, DriverId driver, const Actor* creator);
// kPermissionDenied: `by` neither owns it nor is an operator; names the rule. `action`: "kill"; `thing`: "actor hits (3f2a90c1)". Objects
// without an owner, which journals of earlier versions have, may be changed by everybody.
[[nodiscard]] Result<void> check_owner(const protocol::Owner& by, const protocol::Owner& owner, std::string_view action, std::string_view thing);

}  // namespace volador::head
