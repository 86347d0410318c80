#include "train/group/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "runtime/result.h"

namespace volador::train {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

std::vector<std::string> Rendezvous::wait_all(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  std::vector<std::string> values;
  for (const std::string& key : keys) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    values.push_back(wait(key, std::max(left, std::chrono::milliseconds(0))));
  }
  return values;
}

void LocalRendezvous::set(const std::string& key, const std::string& value) {
  const std::lock_guard<std::mutex> hold(mutex_);
  values_[key] = value;
  changed_.notify_all();
}

std::optional<std::string> LocalRendezvous::get(const std::string& key) {
  const std::lock_guard<std::mutex> hold(mutex_);
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

std::string LocalRendezvous::wait(const std::string& key, std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> hold(mutex_);
  if (!changed_.wait_for(hold, timeout, [&] { return values_.contains(key); })) {
    throw Exception(
        Error{ErrorCode::kTimeout, fmt::format("no rank has set \"{}\" within {} ms", key, timeout.count())});
  }
  return values_.at(key);
}

int64_t LocalRendezvous::add(const std::string& key, int64_t amount) {
  const std::lock_guard<std::mutex> hold(mutex_);
  std::string& value = values_[key];
  int64_t number = 0;
  const char* end = value.data() + value.size();
  if (const auto read = std::from_chars(value.data(), end, number);
      !value.empty() && (read.ec != std::errc() || read.ptr != end)) {
    throw Exception(
        Error{ErrorCode::kInvalidArgument, fmt::format("\"{}\" is not a number to which to add {}", key, amount)});
  }
  number += amount;
  value = std::to_string(number);
  changed_.notify_all();
  return number;
}

void LocalRendezvous::append(const std::string& key, const std::string& bytes) {
  const std::lock_guard<std::mutex> hold(mutex_);
  values_[key] += bytes;
  changed_.notify_all();
}

bool LocalRendezvous::remove(const std::string& key) {
  const std::lock_guard<std::mutex> hold(mutex_);
  return values_.erase(key) != 0;
}

size_t LocalRendezvous::remove_prefix(const std::string& prefix) {
  const std::lock_guard<std::mutex> hold(mutex_);
  return std::erase_if(values_, [&](const auto& entry) { return entry.first.starts_with(prefix); });
}

size_t LocalRendezvous::size() const {
  const std::lock_guard<std::mutex> hold(mutex_);
  return values_.size();
}

}  // namespace volador::train
