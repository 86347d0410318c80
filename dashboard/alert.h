// Alerts: the content for head events that matter to absent users. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace volador::v1 {
class Event;
}

namespace volador::dashboard {

// Whether alert_of() makes an alert of it; cheap enough for the head's loop.
bool is_alert(const v1::Event& event);

// The cluster named in alerts.
struct AlertContext {
  std::string cluster;
  std::string cluster_id;
  std::string page;  // The dashboard's URL; empty: none.
};
// The request body: {"id","event","text","cluster","time_ms","fields","url"}. `event` is experiment.finished, .stopped,
// .failed, .crashed or node.lost; `text` is a sentence for chat programs. `number` distinguishes alerts with equal
// times. nullopt: not an alert.
std::optional<std::string> alert_of(const v1::Event& event, const AlertContext& context, uint64_t number);

}  // namespace volador::dashboard
