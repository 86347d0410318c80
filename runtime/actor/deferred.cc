#include "runtime/actor/deferred.h"

#include "runtime/net/channel.h"

namespace volador::internal {

DeferredAnswer::~DeferredAnswer() {
  if (responder_ && !answered_) {
    set(make_error(ErrorCode::kApplication,
                   "the actor dropped the volador::Deferred of this call without set() or fail()"));
  }
}

void DeferredAnswer::set(Result<std::string>&& answer) {
  std::shared_ptr<net::Responder> responder;
  std::function<void()> before;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (answered_) return;
    answered_ = true;
    if (!responder_) {
      early_ = std::move(answer);
      return;
    }
    responder = std::move(responder_);
    before = std::move(before_);
  }
  before();
  responder->reply(std::move(answer));
}

void DeferredAnswer::send_to(std::shared_ptr<net::Responder> responder, std::function<void()> before) {
  std::optional<Result<std::string>> early;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    early.swap(early_);
    if (!early) {
      responder_ = responder;
      before_ = std::move(before);
    }
  }
  if (!early) return responder->answer_later();
  before();
  responder->reply(std::move(*early));
}

bool DeferredAnswer::cancelled() const {
  const std::lock_guard<std::mutex> hold(mutex_);
  return responder_ && responder_->cancelled();
}

}  // namespace volador::internal
