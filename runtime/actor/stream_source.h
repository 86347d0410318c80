// Host side of a stream: items that a method with a Sink has produced and the reader has not fetched.
//
//   method's thread ─ push ─▶ [ queue ] ◀─ fetch ─ reader, over the call channel: a fetch waits for items
//
// A slow reader blocks the method; if the reader is gone, the next push fails. The stream's own call is answered when
// the reader has all items.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/net/channel.h"
#include "runtime/result.h"
#include "runtime/serialize/codec.h"

namespace volador::internal {

// Result of one fetch.
struct StreamBatch {
  std::vector<Bytes> items;
};
void volador_encode(Encoder& encoder, const StreamBatch& batch);
void volador_decode(Decoder& decoder, StreamBatch& batch);

// Method id of a fetch; its argument is the number of the stream's call.
uint64_t stream_fetch_method();

// Queue of a stream's unread items. Thread safe.
class StreamSource {
 public:
  static constexpr size_t kBytesAhead = size_t{1} << 20;  // Unread items; a single larger item is queued alone.
  static constexpr size_t kItemsAhead = 10'000;

  // `gone` runs once, when the method has returned and its reply is sent.
  explicit StreamSource(std::function<void()> gone) : gone_(std::move(gone)) {}

  // Called on the method's thread; waits while the reader is behind. kCancelled: the reader is gone.
  Result<void> push(std::string item);
  // The method has returned: `answer` is sent after its items.
  void finish(Result<std::string> result, std::shared_ptr<net::Responder> answer);

  // Requests current or future items. A second concurrent fetch is rejected.
  void fetch(std::shared_ptr<net::Responder> reader);
  // The reader has cancelled or is gone.
  void cancel();

 private:
  struct DeferredCallbacks {
    std::shared_ptr<net::Responder> reader, answer;
    std::string batch;
    Result<std::string> result;
    std::function<void()> gone;
    void run();
  };
  DeferredCallbacks serve();
  std::string take_batch();
  bool full() const { return !items_.empty() && (bytes_ >= kBytesAhead || items_.size() >= kItemsAhead); }

  std::mutex mutex_;
  std::condition_variable room_;
  std::function<void()> gone_;
  std::deque<std::string> items_;
  size_t bytes_ = 0;
  bool cancelled_ = false;
  bool finished_ = false;
  Result<std::string> result_;
  std::shared_ptr<net::Responder> answer_;
  std::shared_ptr<net::Responder> reader_;
};

}  // namespace volador::internal
