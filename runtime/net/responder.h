// Responder of a call from a connection of either kind. Private to the call server.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "runtime/net/call_errors.h"
#include "runtime/net/channel.h"

namespace volador::net {

// Owner: the connection, which provides reply(), on_cancel(), answer_later() and peer().
template <class Owner>
class ResponderOf final : public Responder, public std::enable_shared_from_this<ResponderOf<Owner>> {
 public:
  ResponderOf(std::shared_ptr<Owner> owner, uint64_t id) : owner_(std::move(owner)), request_id(id) {}
  ~ResponderOf() override {
    if (!replied.load()) reply(make_error(dropped_without_answer()));
  }

  void reply(Result<std::string>&& result) override {
    if (!replied.exchange(true)) owner_->reply(*this, std::move(result));
  }
  void reply_here(Result<std::string>&& result) override {
    if (replied.exchange(true)) return;
    if constexpr (requires { &Owner::reply_here; }) {
      owner_->reply_here(*this, std::move(result));
    } else {
      owner_->reply(*this, std::move(result));
    }
  }
  bool cancelled() const override { return is_cancelled.load(); }
  bool lost() const override { return is_lost.load(); }
  void on_cancel(std::function<void()> function) override { owner_->on_cancel(*this, std::move(function)); }
  void answer_later() override {
    if (!replied.load()) owner_->answer_later(*this);
  }
  const Peer& peer() const override { return owner_->peer(); }

  // Call with the owner's mutex held. Stores a cancel function after the existing ones; false: the call is already
  // cancelled.
  bool keep(std::function<void()>& function) {
    if (replied.load()) return true;  // It can no longer be cancelled.
    if (is_cancelled.load()) return false;
    if (cancel_function) {
      function = [first = std::move(cancel_function), then = std::move(function)] {
        first();
        then();
      };
    }
    cancel_function = std::move(function);
    return true;
  }

 private:
  const std::shared_ptr<Owner> owner_;

 public:  // For the owner.
  const uint64_t request_id;
  std::atomic<bool> replied{false};
  std::atomic<bool> is_cancelled{false};
  std::atomic<bool> is_lost{false};
  std::function<void()> cancel_function;  // Guarded by the owner's mutex.
};

}  // namespace volador::net
