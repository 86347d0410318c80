// One bidirectional gRPC stream of the head: reads the next message after the last one was handled, and writes from a
// bounded queue. Include from .cc files only: it includes gRPC.
#pragma once

#include <fmt/format.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "head/shell/core_runner.h"
#include "runtime/control/status.h"
#include "runtime/log.h"
#include "runtime/protocol/batch.h"

namespace volador::head {

// Limits of the write queue.
struct StreamLimits {
  size_t queue_bytes = size_t{64} << 20;  // Not yet written; beyond either limit the stream is cut.
  size_t queue_messages = 100'000;
};

// Owns itself from start() until gRPC releases it; senders also hold references.
template <class In, class Out>
class StreamReactor final : public grpc::ServerBidiReactor<In, Out>,
                            public Outbox<Out>,
                            public std::enable_shared_from_this<StreamReactor<In, Out>> {
 public:
  struct Hooks {
    std::function<void(In message, std::function<void()> handled)> on_message;
    std::function<void()> on_end;  // Called once; nothing is sent or received afterwards.
  };

  StreamReactor(grpc::CallbackServerContext* context, std::string peer, const StreamLimits& limits)
      : context_(context), peer_(std::move(peer)), limits_(limits) {}

  // Returns the reactor to pass to gRPC.
  grpc::ServerBidiReactor<In, Out>* start(Hooks hooks) {
    hooks_ = std::move(hooks);
    self_ = this->shared_from_this();
    this->StartSendInitialMetadata();
    read_next();
    return this;
  }

  void send(Out message) override {
    std::lock_guard lock(mutex_);
    if (ended_ || closing_) return;
    const size_t bytes = message.ByteSizeLong();
    if (queue_bytes_ + bytes > limits_.queue_bytes || queue_.size() >= limits_.queue_messages) {
      log::warn("head", "stream cut: its peer reads too slowly",
                {{"peer", peer_}, {"queued_bytes", queue_bytes_}, {"queued", queue_.size()}});
      closing_ = true;
      status_ = control::to_status(
          {ErrorCode::kUnavailable, fmt::format("{} bytes wait to be read by this peer; connect again", queue_bytes_)});
      context_->TryCancel();
      return;
    }
    queue_bytes_ += bytes;
    queue_.push_back(std::move(message));
    write_next();
  }

  void close(const Error& why) override {
    std::lock_guard lock(mutex_);
    if (ended_ || closing_) return;
    closing_ = true;
    status_ = control::to_status(why);
    finish_when_written();
  }

 private:
  void read_next() {
    std::lock_guard lock(mutex_);
    if (finished_ || cancelled_) return;
    in_.Clear();
    this->StartRead(&in_);
  }

  // Requires the lock.
  void write_next() {
    if (writing_ || queue_.empty() || cancelled_ || finished_) return;
    writing_ = true;
    if constexpr (requires(Out & message) { message.batch(); }) join_waiting();
    this->StartWrite(&queue_.front());
  }
  // Joins the queued messages into one batch.
  void join_waiting() {
    if (queue_.size() == 1) return;
    Out batch;
    size_t bytes = 0;
    while (!queue_.empty() && static_cast<size_t>(batch.batch_size()) < kBatchMessagesMax) {
      const size_t next = queue_.front().ByteSizeLong();
      if (bytes + next > kBatchBytesMax) break;
      bytes += next;
      batch.add_batch(queue_.front().SerializeAsString());
      queue_.pop_front();
    }
    if (batch.batch_size() == 0) return;  // The first message is large.
    queue_bytes_ = queue_bytes_ - std::min(queue_bytes_, bytes) + batch.ByteSizeLong();
    queue_.push_front(std::move(batch));
  }
  void finish_when_written() {
    if (finished_ || writing_ || (!queue_.empty() && !cancelled_)) return;
    finished_ = true;
    this->Finish(status_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      std::lock_guard lock(mutex_);
      closing_ = true;
      finish_when_written();
      return;
    }
    hooks_.on_message(std::move(in_), [self = this->weak_from_this()] {
      if (auto alive = self.lock()) alive->read_next();
    });
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    writing_ = false;
    queue_bytes_ -= std::min(queue_bytes_, queue_.front().ByteSizeLong());
    queue_.pop_front();
    if (!ok) cancelled_ = true;
    if (cancelled_) closing_ = true;
    write_next();
    if (closing_) finish_when_written();
  }

  void OnCancel() override {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    closing_ = true;
    finish_when_written();
  }

  void OnDone() override {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
      queue_.clear();
    }
    hooks_.on_end();
    hooks_ = {};
    auto last = std::move(self_);
  }

  grpc::CallbackServerContext* context_;
  const std::string peer_;
  const StreamLimits limits_;
  Hooks hooks_;
  std::shared_ptr<StreamReactor> self_;
  In in_;

  std::mutex mutex_;
  std::deque<Out> queue_;  // The first message is being written while writing_ is true.
  size_t queue_bytes_ = 0;
  bool writing_ = false;
  bool closing_ = false;    // Accepts no more messages; finish once the queue is empty.
  bool cancelled_ = false;  // Nothing can be written any more.
  bool finished_ = false;
  bool ended_ = false;
  grpc::Status status_;
};

}  // namespace volador::head
