// Idempotency of requests with a client-chosen id: a repeated request gets the first answer. One thread or several:
// answers are given outside the lock.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/result.h"

namespace volador {

inline constexpr size_t kRequestsRemembered = 1000;  // The newest ones.
inline constexpr size_t kRequestIdBytesMax = 1024;

// Table of remembered requests and their answers.
template <class Answer>
class RequestMemory {
 public:
  using Respond = std::function<void(Answer)>;
  struct Kind {
    std::function<Answer(const Error&)> refusal;
    std::function<bool(const Answer&)> is_failure;
  };
  explicit RequestMemory(Kind kind) : state_(std::make_shared<State>(std::move(kind))) {}

  struct Asked {
    std::string by;    // Requester; ids are per requester.
    std::string id;    // Empty: no id; every request counts.
    std::string what;  // Contents of the request; must be equal each time.
  };
  // Returns the responder for a request that must be executed. Null: a repeated or rejected request, which is answered
  // now or together with the first one. Failed or unanswered requests are executed again.
  Respond once(const Asked& asked, const Respond& respond) {
    if (asked.id.empty()) return respond;
    if (asked.id.size() > kRequestIdBytesMax) {
      respond(refusal(fmt::format("request_id: {} bytes; at most {} are kept", asked.id.size(), kRequestIdBytesMax)));
      return nullptr;
    }
    const std::pair key(asked.by, asked.id);
    std::unique_lock hold(state_->mutex);
    if (const auto found = state_->known.find(key); found != state_->known.end()) {
      Known& known = *found->second;
      std::optional<Answer> answer;
      if (known.what != asked.what) {
        answer = refusal(fmt::format(
            "request_id: \"{}\" was another request: take a new one for each, and the same one only to repeat it",
            asked.id.substr(0, 80)));
      } else if (known.answer) {
        answer = known.answer;
      } else {
        known.waiting.push_back(respond);
      }
      hold.unlock();
      if (answer) respond(std::move(*answer));
      return nullptr;
    }
    const auto known = std::make_shared<Known>(asked.what);
    state_->known[key] = known;
    state_->order.push_back(key);
    if (state_->order.size() > kRequestsRemembered) {
      state_->known.erase(state_->order.front());
      state_->order.pop_front();
    }
    const auto turn = std::make_shared<Turn>(state_, key, known);
    return [turn, respond](Answer answer) {
      for (const Respond& one : turn->answered(answer)) one(answer);
      respond(std::move(answer));
    };
  }

 private:
  using Key = std::pair<std::string, std::string>;
  struct Known {
    explicit Known(std::string w) : what(std::move(w)) {}
    const std::string what;
    std::optional<Answer> answer;
    std::vector<Respond> waiting;
  };
  struct State {
    explicit State(Kind k) : kind(std::move(k)) {}
    const Kind kind;
    std::mutex mutex;
    std::map<Key, std::shared_ptr<Known>> known;
    std::deque<Key> order;
  };
  // The first of equal requests. If it is dropped without an answer (its server stops), waiting repetitions are dropped
  // with it.
  class Turn {
   public:
    Turn(std::shared_ptr<State> state, Key key, std::shared_ptr<Known> known)
        : state_(std::move(state)), key_(std::move(key)), known_(std::move(known)) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      std::vector<Respond> dropped;  // Destroyed outside the lock.
      const std::lock_guard hold(state_->mutex);
      if (!known_->answer) forget();
      dropped = std::exchange(known_->waiting, {});
    }
    std::vector<Respond> answered(const Answer& answer) {
      const std::lock_guard hold(state_->mutex);
      known_->answer = answer;
      if (state_->kind.is_failure(answer)) forget();
      return std::exchange(known_->waiting, {});
    }

   private:
    void forget() {
      const auto still = state_->known.find(key_);
      if (still == state_->known.end() || still->second != known_) return;
      state_->known.erase(still);
      std::erase(state_->order, key_);
    }
    const std::shared_ptr<State> state_;
    const Key key_;
    const std::shared_ptr<Known> known_;
  };

  Answer refusal(std::string message) const {
    return state_->kind.refusal({ErrorCode::kInvalidArgument, std::move(message)});
  }

  const std::shared_ptr<State> state_;
};

}  // namespace volador
