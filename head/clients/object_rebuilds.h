// Forwards requests to rebuild lost objects to the clients that submitted their tasks, and the replies back. Stateless.
#pragma once

#include <optional>
#include <string>

#include "head/kernel/context.h"
#include "head/kernel/tables.h"

namespace volador::head {

class ObjectRebuilds {
 public:
  ObjectRebuilds(Context& context, const Tables& tables)
      : context_(context), actors_(tables.actors), clients_(tables.clients) {}

  // Requests to a disconnected submitter are dropped; the requester retries.
  void on_rebuild(const ClientRef& client, DriverId driver, const protocol::RebuildObject& message);
  void on_rebuilt(const protocol::ObjectRebuilt& message);

 private:
  // "program word_count (3f2a90c1)", or "process 9c1e04aa of program …" for an actor.
  std::string owner_text(const protocol::ClientName& name) const;
  // nullopt: it has ended or never existed.
  std::optional<ClientRef> client_named(const protocol::ClientName& name) const;

  Context& context_;
  const ActorDirectory& actors_;
  const ClientTable& clients_;
};

}  // namespace volador::head
