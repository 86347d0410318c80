// Combines queued messages of a stream into one batch: the per-message cost of gRPC exceeds the cost of a small
// payload. Include from .cc files only: it brings protobuf.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

namespace volador {

inline constexpr size_t kBatchMessagesMax = 256;
inline constexpr size_t kBatchBytesMax = 64 << 10;  // No message is added to a batch beyond this size.

// Returns the serialized first message of `waiting`, batched with the following ones that fit. Removes them from
// `waiting`.
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

// Calls `handle` for the message, or in order for each message of its batch. Returns false if one cannot be parsed;
// that one and the messages after it are skipped.
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
