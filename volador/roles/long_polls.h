// Requests that wait until something changes, or until their time is over. Confined to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "runtime/clock.h"

namespace volador {

class LongPolls {
 public:
  // What a request waits for: an experiment or a trial of it.
  struct Key {
    bool is_trial = false;
    int64_t id = 0;

    auto operator<=>(const Key&) const = default;
  };
  // Returns whether the request has been answered; it must be if `last`.
  using Try = std::function<bool(bool last)>;

  void add(Key key, BootTime until, Try attempt) {
    const uint64_t number = ++last_;
    by_key_.emplace(key, number);
    by_time_.emplace(until, number);
    waits_.emplace(number, Wait{.key = key, .until = until, .attempt = std::move(attempt)});
  }
  size_t size() const { return waits_.size(); }
  // When the next request has waited long enough.
  std::optional<BootTime> deadline() const {
    return by_time_.empty() ? std::nullopt : std::optional(by_time_.begin()->first);
  }
  void on_changed(Key key) {
    const auto [begin, end] = by_key_.equal_range(key);
    std::set<uint64_t> numbers;
    for (auto at = begin; at != end; ++at) numbers.insert(at->second);
    for (const uint64_t number : numbers) {
      if (waits_.at(number).attempt(false)) remove(number);
    }
  }
  void on_time(BootTime now) {
    while (!by_time_.empty() && by_time_.begin()->first <= now) {
      const uint64_t number = by_time_.begin()->second;
      waits_.at(number).attempt(true);
      remove(number);
    }
  }

 private:
  struct Wait {
    Key key;
    BootTime until;
    Try attempt;
  };
  void remove(uint64_t number) {
    const auto found = waits_.find(number);
    const auto erase = [number](auto& index, const auto& key) {
      const auto [begin, end] = index.equal_range(key);
      for (auto at = begin; at != end; ++at) {
        if (at->second != number) continue;
        index.erase(at);
        return;
      }
    };
    erase(by_key_, found->second.key);
    erase(by_time_, found->second.until);
    waits_.erase(found);
  }

  uint64_t last_ = 0;
  std::map<uint64_t, Wait> waits_;
  std::multimap<Key, uint64_t> by_key_;
  std::multimap<BootTime, uint64_t> by_time_;
};

}  // namespace volador
