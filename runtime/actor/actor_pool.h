// Load balancing over several equal actors.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/actor/handle.h"

namespace volador {

// Value type: copies refer to the same actors. Other calls on these actors are interleaved with those of the pool.
template <class T>
class ActorPool {
 public:
  explicit ActorPool(std::vector<ActorHandle<T>> actors) : actors_(std::move(actors)) {
    if (actors_.empty())
      throw Exception(Error{ErrorCode::kInvalidArgument, "ActorPool: expected at least one actor, got none"});
  }

  const std::vector<ActorHandle<T>>& actors() const { return actors_; }

  // Calls M(input) for each input on the next free actor, one call per actor at a time. Returns the results in input
  // order. Waits; on a failure, waits for the running calls and throws the error of the first failed call.
  template <auto M, class In>
  auto map(const std::vector<In>& inputs) const {
    using Out = typename Future<typename registration::Signature<decltype(M)>::Return>::Value;
    struct State {
      std::mutex mutex;
      std::condition_variable changed;
      std::vector<size_t> free;
      std::vector<std::optional<Out>> results;
      std::optional<Error> error;
    };
    const auto state = std::make_shared<State>();
    state->results.resize(inputs.size());
    for (size_t actor = actors_.size(); actor-- > 0;) state->free.push_back(actor);
    std::unique_lock<std::mutex> hold(state->mutex);
    for (size_t input = 0; input < inputs.size() && !state->error; ++input) {
      state->changed.wait(hold, [&] { return !state->free.empty(); });
      if (state->error) break;
      const size_t actor = state->free.back();
      state->free.pop_back();
      hold.unlock();
      actors_[actor].template call<M>(inputs[input]).then([state, input, actor](auto result) {
        const std::lock_guard<std::mutex> done(state->mutex);
        if (result) {
          state->results[input] = std::move(*result);
        } else if (!state->error) {
          state->error = std::move(result).error();
        }
        state->free.push_back(actor);
        state->changed.notify_all();
      });
      hold.lock();
    }
    state->changed.wait(hold, [&] { return state->free.size() == actors_.size(); });
    if (state->error) throw Exception(*state->error);
    std::vector<Out> out;
    out.reserve(inputs.size());
    for (auto& result : state->results) out.push_back(std::move(*result));
    return out;
  }

 private:
  std::vector<ActorHandle<T>> actors_;
};

}  // namespace volador
