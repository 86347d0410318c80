#include "runtime/actor/stream.h"

#include "runtime/actor/call_context.h"
#include "runtime/actor/lending.h"
#include "runtime/actor/session.h"

namespace volador::internal {

std::shared_ptr<StreamReader> StreamReader::open(const ActorId& actor, uint64_t method, std::string arguments,
                                                 std::chrono::nanoseconds timeout, Claim claim,
                                                 std::shared_ptr<const void> pins) {
  if (const auto* context = CallContext::current()) timeout = context->shorten(timeout);
  auto session = Session::current();
  auto reader = std::make_shared<StreamReader>(session, actor, claim);
  const uint64_t call = session->call(
      actor, method, std::move(arguments), timeout,
      [reader, pins = std::move(pins)](Result<std::string> result) { reader->ended(std::move(result)); },
      Session::Repeat::kNever);
  {
    const std::lock_guard<std::mutex> hold(reader->mutex_);
    reader->call_ = call;
  }
  reader->fetch();
  return reader;
}

Result<std::optional<StreamReader::Item>> StreamReader::next() {
  std::optional<Item> item;
  bool more = false;
  {
    std::unique_lock<std::mutex> hold(mutex_);
    internal::wait_lending(changed_, hold, std::nullopt, [this] { return !items_.empty() || end_; });
    if (items_.empty()) {
      if (!*end_) return make_error(end_->error());
      return std::optional<Item>();
    }
    item = std::move(items_.front());
    items_.pop_front();
    bytes_ -= item->bytes.size();
    more = wants_more();
  }
  if (more) fetch();
  return item;
}

bool StreamReader::wait_until(const std::optional<std::chrono::steady_clock::time_point>& deadline) {
  std::unique_lock<std::mutex> hold(mutex_);
  return internal::wait_lending(changed_, hold, deadline, [this] { return !items_.empty() || end_; });
}

void StreamReader::fetch() {
  uint64_t call = 0;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (!wants_more()) return;
    fetching_ = true;
    call = call_;
  }
  session_->call(
      actor_, stream_fetch_method(), to_bytes<uint64_t>(call), std::chrono::nanoseconds(0),
      [self = shared_from_this()](Result<std::string> result) { self->fetched(std::move(result)); },
      Session::Repeat::kNever);
}

void StreamReader::fetched(Result<std::string> result) {
  auto batch = result ? from_bytes<StreamBatch>(*result) : Result<StreamBatch>(make_error(result.error()));
  if (!batch) {
    ended(make_error(std::move(batch).error()));
    return session_->cancel(actor_, call_);  // Cancels a running method.
  }
  bool more = false;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    fetching_ = false;
    for (Bytes& bytes : batch->items) {
      Item item{std::move(bytes.data), nullptr};
      if (codec::carries_references(item.bytes)) item.references = claim_(item.bytes);
      bytes_ += item.bytes.size();
      items_.push_back(std::move(item));
    }
    more = wants_more();
    changed_.notify_all();
  }
  if (more) fetch();
}

void StreamReader::ended(Result<std::string> result) {
  const std::lock_guard<std::mutex> hold(mutex_);
  fetching_ = false;
  if (end_) return;
  end_ = result ? Result<void>() : Result<void>(make_error(std::move(result).error()));
  changed_.notify_all();
}

void StreamReader::close() {
  uint64_t call = 0;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    items_.clear();
    bytes_ = 0;
    if (end_) return;
    end_ = Result<void>(make_error(ErrorCode::kCancelled, "the stream was closed by its reader"));
    call = call_;
  }
  session_->cancel(actor_, call);
}

}  // namespace volador::internal
