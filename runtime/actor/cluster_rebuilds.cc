// ClusterSession: reconstruction of lost task objects, requested from and by other processes through the head, which
// stores no requests. Requests are resent until they are answered; an owner reconstructs an object once for all
// requesters.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/actor/cluster_session.h"
#include "runtime/actor/ref.h"
#include "runtime/log.h"
#include "runtime/protocol/error_info.h"
#include "runtime/quantities.h"
#include "runtime/store/object_store.h"

namespace volador {
namespace {

constexpr std::chrono::seconds kAskAgain{2};

void answer(protocol::ClientMessage& message, const Error& error) {
  fill(*message.mutable_rebuilt()->mutable_error(), error);
}

}  // namespace

std::string ClusterSession::name_as_owner() {
  std::string host = options_.own_host;
  if (options_.asking_host) {
    host = options_.asking_host();
    if (host.empty()) return {};  // The thread belongs to no actor.
  }
  return raw(options_.driver) + host;
}

void ClusterSession::rebuild(const std::string& owner, const ObjectKey& object, int depth,
                             std::function<void(Result<std::string>)> done) {
  constexpr size_t kIdBytes = 16;
  protocol::ClientMessage message;
  protocol::RebuildObject& asked = *message.mutable_rebuild();
  asked.set_request_id(raw(new_id<RequestId>(*options_.random)));
  asked.mutable_owner()->set_driver_id(owner.substr(0, kIdBytes));
  if (owner.size() > kIdBytes) asked.mutable_owner()->set_host_id(owner.substr(kIdBytes));
  asked.set_node_id(raw(object.node));
  asked.set_writer(object.writer);
  asked.set_number(object.number);
  asked.set_depth(depth);
  std::optional<Error> refusal;
  bool first = false;
  {
    const std::lock_guard hold(mutex_);
    if (closed_) {
      refusal = *closed_;
    } else if (rebuilds_.size() >= options_.asks_max) {
      refusal = Error{
          ErrorCode::kObjectLost,
          fmt::format("{}, its limit", counted(rebuilds_.size(), "lost object of this process waits for its owner",
                                               "lost objects of this process wait for their owners"))};
    } else {
      first = !std::exchange(asks_rebuilds_, true);
      rebuilds_.add(asked, std::move(done));
    }
  }
  if (refusal) return done(make_error(*refusal));
  options_.send(std::move(message));
  if (first) ask_rebuilds_again();
}

// Resends requests: the head, the owner or its connection may have been down.
void ClusterSession::ask_rebuilds_again() {
  options_.loop->add_timer(options_.clock->now() + kAskAgain, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    std::vector<protocol::RebuildObject> asked;
    {
      const std::lock_guard hold(self->mutex_);
      asked = self->rebuilds_.messages();
      self->asks_rebuilds_ = !asked.empty();
    }
    if (asked.empty()) return;
    for (auto& one : asked) {
      protocol::ClientMessage message;
      *message.mutable_rebuild() = std::move(one);
      self->options_.send(std::move(message));
    }
    self->ask_rebuilds_again();
  });
}

void ClusterSession::on_rebuild(const protocol::RebuildObject& message) {
  const ObjectKey key{id_from_raw<NodeId>(message.node_id()), message.writer(), message.number()};
  protocol::ClientMessage reply;
  reply.mutable_rebuilt()->set_request_id(message.request_id());
  *reply.mutable_rebuilt()->mutable_asker() = message.asker();
  const auto origin = known_origin(key);
  if (!origin.made_by || origin.made_by->is_borrowed()) {
    answer(reply, {ErrorCode::kObjectLost,
                   "who submitted the task that brought it knows nothing of that task any more, or volador::free gave "
                   "the object up"});
    return options_.send(std::move(reply));
  }
  log::info("objects", "another process asks for a lost object", {{"object", to_string(key)}});
  origin.made_by->rebuild(origin.index, std::max(1, message.depth()),
                          [weak = weak_from_this(), reply](Result<std::shared_ptr<const StoredObject>> made) mutable {
                            const auto self = weak.lock();
                            if (!self) return;
                            if (!made) {
                              answer(reply, made.error());
                            } else if (const auto store = self->objects()) {
                              Encoder encoder;
                              volador_encode(encoder, AnyRef(*made));
                              store->lend(*newest(*made));  // Until the asker has accepted it.
                              reply.mutable_rebuilt()->set_reference(encoder.take());
                            } else {
                              return;
                            }
                            self->options_.send(std::move(reply));
                          });
}

}  // namespace volador
