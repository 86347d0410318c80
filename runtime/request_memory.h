// Requests with an id of their client's choice, answered once: one that comes again gets the answer of the first time.
// One thread, or several: answers are given outside the lock.
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

inline constexpr size_t kRequestsRemembered = 1000;  // The newest.
inline constexpr size_t kRequestIdBytesMax = 1024;

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
    std::string by;    // Who asks: an id is theirs alone.
    std::string id;    // Empty: none, and each time counts.
    std::string what;  // They ask for: the same each time.
  };
  // What to answer a request with that is to be carried out; null: it came before, or is refused, and is answered, now or together with the
  // first. What failed, or was never answered, is carried out anew.
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
        answer = refusal(fmt::format("request_id: \"{}\" was another request: take a new one for each, and the same one only to repeat it", asked.id.substr(0, 80)));
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
  // Of the first one. Where it goes without an answer (its server stops), those that wait go with it.
  class Turn {
   public:
    Turn(std::shared_ptr<State> state, Key key, std::shared_ptr<Known> known) : state_(std::move(state)), key_(std::move(key)), known_(std::move(known)) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      std::vector<Respond> dropped;  // Outside the lock.
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

  Answer refusal(std::string message) const { return state_->kind.refusal({ErrorCode::kInvalidArgument, std::move(message)}); }

  const std::shared_ptr<State> state_;
};

}  // namespace volador
