#include "train/trainer/rendezvous_actor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "train/group/group.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

using namespace std::chrono_literals;

constexpr auto kCallTimeout = 10s;
constexpr auto kWaitSlice = 50ms;  // Time after which a waiting rank looks whether the group is still wanted.

}  // namespace

void RendezvousActor::set(std::string key, std::string value) {
  values_.insert_or_assign(std::move(key), std::move(value));
  wake();
}

std::vector<std::string> RendezvousActor::get(std::string key) {
  const auto found = values_.find(key);
  return found == values_.end() ? std::vector<std::string>{} : std::vector<std::string>{found->second};
}

Deferred<std::vector<std::string>> RendezvousActor::wait(std::vector<std::string> keys) {
  Waiter waiter{.keys = std::move(keys), .reply = {}};
  auto reply = waiter.reply;
  waiters_.push_back(std::move(waiter));
  wake();
  return reply;
}

int64_t RendezvousActor::add(std::string key, int64_t amount) {
  std::string& value = values_[key];
  try {
    amount += value.empty() ? 0 : std::stoll(value);
  } catch (const std::exception&) {
    tune::throw_refusal(fmt::format("add: the value of {} is not a number", key));
  }
  value = std::to_string(amount);
  wake();
  return amount;
}

void RendezvousActor::append(std::string key, std::string bytes) {
  values_[std::move(key)] += bytes;
  wake();
}

bool RendezvousActor::remove(std::string key) { return values_.erase(key) > 0; }

void RendezvousActor::wake() {
  std::erase_if(waiters_, [this](const Waiter& waiter) {
    if (waiter.reply.is_cancelled()) return true;
    std::vector<std::string> values;
    for (const std::string& key : waiter.keys) {
      const auto found = values_.find(key);
      if (found == values_.end()) return false;
      values.push_back(found->second);
    }
    waiter.reply.set(values);
    return true;
  });
}

void ActorRendezvous::set(const std::string& key, const std::string& value) {
  actor_.call_for<&RendezvousActor::set>(kCallTimeout, key, value).get();
}

std::optional<std::string> ActorRendezvous::get(const std::string& key) {
  auto value = actor_.call_for<&RendezvousActor::get>(kCallTimeout, key).get();
  if (value.empty()) return std::nullopt;
  return std::move(value.front());
}

std::string ActorRendezvous::wait(const std::string& key, std::chrono::milliseconds timeout) {
  return wait_all({key}, timeout).front();
}

int64_t ActorRendezvous::add(const std::string& key, int64_t amount) {
  return actor_.call_for<&RendezvousActor::add>(kCallTimeout, key, amount).get();
}

void ActorRendezvous::append(const std::string& key, const std::string& bytes) {
  actor_.call_for<&RendezvousActor::append>(kCallTimeout, key, bytes).get();
}

bool ActorRendezvous::remove(const std::string& key) {
  return actor_.call_for<&RendezvousActor::remove>(kCallTimeout, key).get();
}

std::vector<std::string> ActorRendezvous::wait_all(const std::vector<std::string>& keys,
                                                   std::chrono::milliseconds timeout) {
  const auto values = actor_.call_for<&RendezvousActor::wait>(timeout, keys);
  while (!values.wait_for(kWaitSlice)) {
    if (!cancelled_.load()) continue;
    values.cancel();
    throw GroupAborted("the group is formed anew");
  }
  auto result = values.result();
  if (!result && result.error().code == ErrorCode::kTimeout) {
    throw Exception(
        Error{ErrorCode::kTimeout, fmt::format("{} was not set within {} ms", fmt::join(keys, ", "), timeout.count())});
  }
  return tune::unwrap(std::move(result));
}

}  // namespace volador::train
