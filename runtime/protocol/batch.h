// Messages that wait for their stream, put into one: a message of gRPC costs more than what is in it. Include from .cc
// files only: it brings protobuf.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

namespace volador {

inline constexpr size_t kBatchMessagesMax = 256;
inline constexpr size_t kBatchBytesMax = 64 << 10;  // Beyond it nothing more joins a batch.

// The first of `waiting`, as bytes, together with those that fit into one message with it; they leave `waiting`.
template <class Message>
std::string take_batch(std::deque<std::string>& waiting) {
  if (waiting.size() == 1 || waiting.front().size() > kBatchBytesMax) {
    std::string alone = std::move(waiting.front());
    waiting.pop_front();
    return alone;
  }
  Message batch;
  size_t bytes = 0;
  while (!waiting.empty() && static_cast<size_t>(batch.batch_size()) < kBatchMessagesMax &&
         bytes + waiting.front().size() <= kBatchBytesMax) {
    bytes += waiting.front().size();
    batch.add_batch(std::move(waiting.front()));
    waiting.pop_front();
  }
  return batch.SerializeAsString();
}

// Calls `handle` for the message, or for each of its batch in order. False: one of those cannot be read; it and those
// after it are left out.
template <class Message, class Handle>
bool for_each_in_batch(const Message& message, Handle&& handle) {
  if (message.batch().empty()) {
    handle(message);
    return true;
  }
  Message one;
  for (const std::string& bytes : message.batch()) {
    if (!one.ParseFromString(bytes) || !one.batch().empty()) return false;
    handle(one);
  }
  return true;
}

}  // namespace volador
