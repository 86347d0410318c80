#include "head/actors/handle_module.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "head/actors/actor_life.h"
#include "head/kernel/wire.h"
#include "runtime/light_id.h"

namespace volador::head {
namespace {

constexpr std::chrono::milliseconds kUnheldGrace{
    5000};  // Time for the destructor of an actor that ends with its last handle.

}  // namespace

Holder HandleModule::holder_of(const ClientRef& client, DriverId driver) {
  if (client.host.is_nil()) return {.driver = driver, .host = {}};
  return {.driver = {}, .host = client.host};
}

void HandleModule::on_holds(const Holder& holder, const protocol::HoldActors& message) {
  if (!handles_.is_later(holder, message.sequence())) return;
  if (message.all()) handles_.release_all(context_.now, holder);
  for (const std::string& raw_id : message.lent()) {
    const auto actor = id_from_raw<ActorId>(raw_id);
    if (track_nested_actor(actor)) handles_.lend(context_.now, actor);
  }
  for (const std::string& raw_id : message.claimed()) {
    const auto actor = id_from_raw<ActorId>(raw_id);
    if (!track_nested_actor(actor)) continue;
    handles_.hold(actor, holder);
    handles_.claim(context_.now, actor);
  }
  for (const std::string& raw_id : message.held()) {
    const auto actor = id_from_raw<ActorId>(raw_id);
    if (track_nested_actor(actor)) handles_.hold(actor, holder);
  }
  for (const std::string& raw_id : message.passed_on()) {
    const auto light = id_from_raw<ActorId>(raw_id);
    if (!is_light(light) || !track_nested_actor(light)) continue;
    handles_.hold(light, holder);
    handles_.pass_on(light);
  }
  for (const std::string& actor : message.released())
    handles_.release(context_.now, id_from_raw<ActorId>(actor), holder);
}

bool HandleModule::track_nested_actor(ActorId actor) {
  if (!is_light(actor)) return true;
  const Actor* home = actors_.find(home_of(actor));
  if (home == nullptr || home->is_dead()) return false;
  if (handles_.track_nested_actor(std::max(context_.now, context_.window_end), actor)) return true;
  if (!std::exchange(said_lights_, true)) {
    context_.event(
        log::Level::kWarn, "light actors that are passed on live until their creator ends",
        {{"why", fmt::format("handles on {} are counted, the limit", context_.options.limits.passed_on_lights)}});
  }
  return false;
}

void HandleModule::on_tick() {
  if (context_.now < context_.window_end) return;
  std::vector<ActorId> unheld = handles_.unheld(context_.now);
  if (unheld.empty()) return;
  BootTime heard = context_.now;  // Everything that a node knew at this time has arrived.
  for (const auto& [id, node] : nodes_.all()) {
    if (node.is_member()) heard = std::min(heard, node.session ? node.heard_before : BootTime{});
  }
  for (const auto& [id, driver] : clients_.all()) {
    if (!driver.session) heard = BootTime{};
  }
  for (const ActorId id : unheld) {
    if (*handles_.unheld_since(id) > heard) continue;
    if (is_light(id)) {
      end_light(id);
      continue;
    }
    life_.die(id, make_cause(protocol::DeathCause::KILLED, reason("cause.no_handle")), kUnheldGrace);
  }
}

void HandleModule::end_light(ActorId light) {
  const Actor* home = actors_.find(home_of(light));
  if (home != nullptr && !home->is_dead()) {
    if (!home->incarnation) return;  // Not started yet; retried later.
    protocol::HeadMessage message;
    message.mutable_end_lights()->add_actors(raw(light));
    context_.send({.session = {}, .host = home->incarnation->host}, std::move(message));
  }
  handles_.forget(light);
}

}  // namespace volador::head
