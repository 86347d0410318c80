#include "head/clients/object_rebuilds.h"

#include <fmt/format.h>

#include "runtime/protocol/error_info.h"

namespace volador::head {
namespace {

// Whether the client that client_named() returned is a disconnected program.
bool is_away(const ClientRef& client) { return client.host.is_nil() && client.session == ClientSession{}; }

}  // namespace

std::optional<ClientRef> ObjectRebuilds::client_named(const protocol::ClientName& name) const {
  if (!name.host_id().empty()) {
    const ClientRef host{.session = {}, .host = id_from_raw<HostId>(name.host_id())};
    const Actor* actor = actors_.find_host(host.host);
    return actor != nullptr && !actor->is_dead() ? std::optional(host) : std::nullopt;
  }
  const Driver* driver = clients_.find(id_from_raw<DriverId>(name.driver_id()));
  if (driver == nullptr) return std::nullopt;
  return ClientRef{.session = driver->session.value_or(ClientSession{}), .host = {}};
}

std::string ObjectRebuilds::owner_text(const protocol::ClientName& name) const {
  const auto id = id_from_raw<DriverId>(name.driver_id());
  const Driver* driver = clients_.find(id);
  const std::string program = driver == nullptr ? fmt::format("program {}", short_id(id))
                                                : fmt::format("program {} ({})", driver->name, short_id(id));
  return name.host_id().empty()
             ? program
             : fmt::format("process {} of {}", short_id(id_from_raw<HostId>(name.host_id())), program);
}

void ObjectRebuilds::on_rebuild(const ClientRef& client, DriverId driver, const protocol::RebuildObject& message) {
  const auto owner = client_named(message.owner());
  if (!owner) {
    protocol::HeadMessage answer;
    answer.mutable_rebuilt()->set_request_id(message.request_id());
    fill(*answer.mutable_rebuilt()->mutable_error(),
         {ErrorCode::kObjectLost,
          fmt::format("{}, which submitted the task that brought it, has ended, and nobody else can run that again",
                      owner_text(message.owner()))});
    return context_.send(client, std::move(answer));
  }
  protocol::HeadMessage question;
  *question.mutable_rebuild() = message;
  auto& asker = *question.mutable_rebuild()->mutable_asker();
  asker.Clear();
  if (client.host.is_nil()) {
    asker.set_driver_id(raw(driver));
  } else {
    asker.set_host_id(raw(client.host));
  }
  if (!is_away(*owner)) context_.send(*owner, std::move(question));
}

void ObjectRebuilds::on_rebuilt(const protocol::ObjectRebuilt& message) {
  const auto asker = client_named(message.asker());
  if (!asker || is_away(*asker)) return;
  protocol::HeadMessage answer;
  *answer.mutable_rebuilt() = message;
  context_.send(*asker, std::move(answer));
}

}  // namespace volador::head
