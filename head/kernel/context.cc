#include "head/kernel/context.h"

#include "runtime/protocol/error_info.h"

namespace volador::head {

void Context::event(log::Level level, std::string text, std::vector<std::pair<std::string, std::string>> fields,
                    Reason why, std::string_view kind) {
  actions.events.push_back({level, std::move(text), std::move(fields), std::move(why), kind});
}

void Context::journal(std::string_view table, std::string key, std::optional<std::string> value) {
  actions.journal.push_back({std::string(table), std::move(key), std::move(value)});
}

void Context::send(NodeSession session, protocol::HeadToWorker message) {
  actions.to_nodes.push_back({session, std::move(message)});
}

void Context::send(const ClientRef& client, protocol::HeadMessage message) {
  if (client.host.is_nil()) {
    actions.to_clients.push_back({client.session, std::move(message)});
    return;
  }
  const auto session = session_of(client.host);
  if (!session) return;
  protocol::HeadToWorker wrapped;
  wrapped.mutable_relayed()->set_host_id(raw(client.host));
  *wrapped.mutable_relayed()->mutable_message() = std::move(message);
  send(*session, std::move(wrapped));
}

void Context::reply_error(const ClientRef& client, const std::string& request_id, const Error& error) {
  protocol::HeadMessage message;
  message.mutable_reply()->set_request_id(request_id);
  fill(*message.mutable_reply()->mutable_error(), error);
  send(client, std::move(message));
}

}  // namespace volador::head
