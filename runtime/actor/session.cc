#include "runtime/actor/session.h"

#include <mutex>

namespace volador {
namespace {

std::mutex current_mutex;
std::shared_ptr<Session>& slot() {
  static auto* session = new std::shared_ptr<Session>();  // Leaked: late threads may still ask.
  return *session;
}

}  // namespace

std::string_view to_string(ActorState state) {
  switch (state) {
    case ActorState::kPending: return "pending";
    case ActorState::kStarting: return "starting";
    case ActorState::kAlive: return "alive";
    case ActorState::kRestarting: return "restarting";
    case ActorState::kDead: return "dead";
  }
  return "?";
}

std::shared_ptr<Session> Session::current() {
  const std::lock_guard<std::mutex> hold(current_mutex);
  if (!slot()) throw Exception(Error{ErrorCode::kUnavailable, "this process is not connected to a cluster: call volador::init(argc, argv) first in main, and keep what it returns"});
  return slot();
}

bool Session::has_current() {
  const std::lock_guard<std::mutex> hold(current_mutex);
  return slot() != nullptr;
}

void Session::set_current(std::shared_ptr<Session> session) {
  const std::lock_guard<std::mutex> hold(current_mutex);
  slot() = std::move(session);
}

}  // namespace volador
