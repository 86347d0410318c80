#include "runtime/actor/opening_calls.h"

#include <memory>
#include <utility>

namespace volador {
namespace {

// Responder before the creator has connected.
class UnheardResponder final : public net::Responder {
 public:
  explicit UnheardResponder(const net::CallerId& caller) { peer_.caller = caller; }
  void reply(Result<std::string>&& /*result*/) override {}
  bool cancelled() const override { return false; }
  bool lost() const override { return true; }
  void on_cancel(std::function<void()> /*function*/) override {}
  const net::Peer& peer() const override { return peer_; }

 private:
  net::Peer peer_;
};

}  // namespace

void run_opening(CallRunner& runner, const protocol::ActorSpec& spec, uint64_t epoch) {
  if (spec.opening().empty()) return;
  const auto responder = std::make_shared<UnheardResponder>(id_from_raw<net::CallerId>(spec.opening_caller()));
  for (const protocol::OpeningCall& call : spec.opening()) {
    net::CallRequest request;
    request.request_id = call.request_id();
    request.actor = id_from_raw<ActorId>(spec.actor_id());
    request.epoch = epoch;
    request.method = call.method();
    request.keep_answer = true;
    request.body = call.arguments();
    net::IncomingCall incoming{&request, responder};
    runner.on_calls({&incoming, 1});
  }
}

}  // namespace volador
