#include "runtime/actor/stream_source.h"

#include <utility>

#include "runtime/actor/type_name.h"

namespace volador::internal {

void volador_encode(Encoder& encoder, const StreamBatch& batch) { encode(encoder, batch.items); }
void volador_decode(Decoder& decoder, StreamBatch& batch) { decode(decoder, batch.items); }

uint64_t stream_fetch_method() {
  static const uint64_t method = names::fnv1a("volador::Stream::fetch");
  return method;
}

Result<void> StreamSource::push(std::string item) {
  std::unique_lock<std::mutex> hold(mutex_);
  room_.wait(hold, [this] { return cancelled_ || !full(); });
  if (cancelled_) return make_error(ErrorCode::kCancelled, "the stream's reader has stopped reading, or has ended");
  bytes_ += item.size();
  items_.push_back(std::move(item));
  DeferredCallbacks later = serve();
  hold.unlock();
  later.run();
  return {};
}

void StreamSource::finish(Result<std::string> result, std::shared_ptr<net::Responder> answer) {
  std::unique_lock<std::mutex> hold(mutex_);
  finished_ = true;
  result_ = std::move(result);
  answer_ = std::move(answer);
  DeferredCallbacks later = serve();
  hold.unlock();
  later.run();
}

void StreamSource::fetch(std::shared_ptr<net::Responder> reader) {
  std::unique_lock<std::mutex> hold(mutex_);
  if (reader_ && !reader_->cancelled()) {
    hold.unlock();
    return reader->reply(make_error(ErrorCode::kInvalidArgument, "stream: a fetch waits already"));
  }
  reader_ = std::move(reader);
  DeferredCallbacks later = serve();
  hold.unlock();
  later.run();
}

void StreamSource::cancel() {
  std::unique_lock<std::mutex> hold(mutex_);
  cancelled_ = true;
  items_.clear();
  bytes_ = 0;
  room_.notify_all();
  DeferredCallbacks later = serve();
  hold.unlock();
  later.run();
}

std::string StreamSource::take_batch() {
  StreamBatch batch;
  size_t bytes = 0;
  while (!items_.empty() && (batch.items.empty() || bytes + items_.front().size() <= kBytesAhead)) {
    bytes += items_.front().size();
    batch.items.push_back({std::move(items_.front())});
    items_.pop_front();
  }
  bytes_ -= bytes;
  return to_bytes(batch);
}

// Returns the messages to send after the lock is released. The last items are sent before the reply, on the same
// connection.
StreamSource::DeferredCallbacks StreamSource::serve() {
  DeferredCallbacks later;
  if (reader_ && (!items_.empty() || finished_ || cancelled_)) {
    later.reader = std::exchange(reader_, nullptr);
    later.batch = take_batch();
    room_.notify_one();
  }
  if (finished_ && items_.empty() && answer_) {
    later.answer = std::exchange(answer_, nullptr);
    later.result = std::move(result_);
    later.gone = std::exchange(gone_, nullptr);
  }
  return later;
}

void StreamSource::DeferredCallbacks::run() {
  if (reader) reader->reply(std::move(batch));
  if (answer) answer->reply(std::move(result));
  if (gone) gone();
}

}  // namespace volador::internal
