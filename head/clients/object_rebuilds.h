// Passes requests to rebuild lost objects to the clients that submitted their tasks, and the answers back. Keeps
// nothing.
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

  // A submitter that is disconnected for a moment gets no request: the asker asks again.
  void on_rebuild(const ClientRef& client, DriverId driver, const protocol::RebuildObject& message);
  void on_rebuilt(const protocol::ObjectRebuilt& message);

 private:
  // "program word_count (3f2a90c1)", "process 9c1e04aa of program …": of an actor.
  std::string owner_text(const protocol::ClientName& name) const;
  // None: it has ended, or was never there.
  std::optional<ClientRef> client_named(const protocol::ClientName& name) const;

  Context& context_;
  const ActorDirectory& actors_;
  const ClientTable& clients_;
};

}  // namespace volador::head
