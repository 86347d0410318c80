// Conversion between protocol::DeathCause and the Reason why an actor or placement group ended.
#pragma once

#include "runtime/language/reason.h"
#include "runtime/protocol/control.pb.h"

namespace volador {

inline protocol::DeathCause make_cause(protocol::DeathCause::Kind kind, const Reason& why) {
  protocol::DeathCause cause;
  cause.set_kind(kind);
  cause.set_message(why.text());
  cause.set_why(why.to_json());
  return cause;
}
// Returns the reason of a death cause. Peers of older versions send only text; the reason then holds the text.
inline Reason message_of(const protocol::DeathCause& cause) {
  auto known = cause.why().empty() ? std::nullopt : Reason::from_json(cause.why());
  return known ? std::move(*known) : Reason::said(cause.message());
}

}  // namespace volador
