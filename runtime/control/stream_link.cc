#include "runtime/control/stream_link.h"

#include <fmt/format.h>
#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/clock.h"
#include "runtime/control/status.h"
#include "runtime/quantities.h"
#include "runtime/random.h"
#include "runtime/security/handshake.h"

namespace volador::control {
namespace {

enum class Tag : intptr_t { kStarted = 1, kRead, kWritten, kWritesDone, kFinished, kBackoffOver };

void* as_pointer(Tag tag) { return reinterpret_cast<void*>(static_cast<intptr_t>(tag)); }

std::string bytes_of(grpc::ByteBuffer& buffer) {
  std::string out;
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return out;
  out.reserve(buffer.Length());
  for (const auto& slice : slices) out.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return out;
}

// If gRPC gives no reason, a separate handshake determines it; not at every attempt, since it takes time on both sides.
constexpr std::chrono::milliseconds kDiagnosisTimeout{700};
constexpr int kDiagnoseEvery = 8;
constexpr size_t kTakenMax = 1024;  // Maximum number of messages per batch.

}  // namespace

// One connection attempt, with its own channel so that no state of an earlier one (back-off, a stale address, an old
// certificate) remains. Destroyed on the link's thread once no operation is outstanding.
struct Attempt {
  explicit Attempt(const LinkOptions& options)
      : channel(options.address, options.credentials, options.keepalive_time, options.keepalive_timeout),
        stub(channel.grpc()) {}

  Channel channel;
  grpc::GenericStub stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
  grpc::ByteBuffer incoming;
  grpc::Status status;
  int operations = 0;  // Outstanding operations on the completion queue.
  bool established = false;
  bool writing = false;
  bool writes_done = false;
  bool finishing = false;
  bool finished = false;
};

class StreamLink::Impl {
 public:
  Impl(std::string method, LinkOptions options, StreamLinkCallbacks callbacks)
      : method_(std::move(method)),
        options_(std::move(options)),
        callbacks_(std::move(callbacks)),
        backoff_(options_.backoff_min),
        thread_([this] { run(); }) {}

  void send(std::string message);
  void set_credentials(security::Credentials credentials);
  void close(std::chrono::milliseconds flush);

 private:
  // Called on the link's thread.
  void run();
  void connect();
  bool handle(Tag tag, bool ok);  // False: the link has ended.
  void on_started(bool ok);
  void on_read(bool ok);
  bool on_attempt_over();
  void finish_call();
  void announce(LinkState state, const Error& error);
  Error explain(Error error);

  // Called with mutex_ held, on any thread.
  void pump();
  void drop(Error reason);
  void enqueue(std::deque<std::string>& queue, std::string message);
  void forget_queue();
  std::string take_next();

  const std::string method_;
  LinkOptions options_;
  const StreamLinkCallbacks callbacks_;
  SystemRandom random_;
  SystemClock clock_;
  grpc::CompletionQueue completions_;
  grpc::Alarm alarm_;

  std::mutex mutex_;
  std::condition_variable ended_changed_;
  std::unique_ptr<Attempt> attempt_;
  std::deque<std::string> queue_;     // In sending order; not passed to gRPC yet.
  std::deque<std::string> deferred_;  // Messages of other threads while on_state(kConnected) runs.
  size_t queued_bytes_ = 0;           // Total of both queues.
  bool accepting_ = false;
  bool greeting_ = false;
  bool closing_ = false;
  bool flushing_ = false;
  bool ended_ = false;
  std::optional<Error> drop_reason_;

  std::chrono::milliseconds backoff_;
  int failed_attempts_ = 0;          // Since the last established one.
  std::optional<Error> last_error_;  // Last error reported by on_state(kLost); empty after kConnected.

  std::thread::id link_thread_;
  std::mutex join_mutex_;
  std::thread thread_;
};

void StreamLink::Impl::run() {
  {
    const std::scoped_lock lock(mutex_);
    link_thread_ = std::this_thread::get_id();
  }
  connect();
  void* tag = nullptr;
  bool ok = false;
  while (completions_.Next(&tag, &ok)) {
    if (!handle(static_cast<Tag>(reinterpret_cast<intptr_t>(tag)), ok)) break;
  }
  completions_.Shutdown();
  while (completions_.Next(&tag, &ok)) {
  }
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  ended_changed_.notify_all();
}

void StreamLink::Impl::connect() {
  LinkOptions options;
  {
    const std::scoped_lock lock(mutex_);
    options = options_;
  }
  auto attempt = std::make_unique<Attempt>(options);
  attempt->call = attempt->stub.PrepareCall(&attempt->context, method_, &completions_);
  const std::scoped_lock lock(mutex_);
  attempt_ = std::move(attempt);
  drop_reason_.reset();
  ++attempt_->operations;
  attempt_->call->StartCall(as_pointer(Tag::kStarted));
  if (closing_) attempt_->context.TryCancel();
}

bool StreamLink::Impl::handle(Tag tag, bool ok) {
  if (tag == Tag::kBackoffOver) {
    {
      const std::scoped_lock lock(mutex_);
      if (closing_) return false;
    }
    connect();
    return true;
  }
  {
    const std::scoped_lock lock(mutex_);
    --attempt_->operations;
  }
  switch (tag) {
    case Tag::kStarted:
      on_started(ok);
      break;
    case Tag::kRead:
      on_read(ok);
      break;
    case Tag::kWritten: {
      const std::scoped_lock lock(mutex_);
      attempt_->writing = false;
      if (ok) {
        pump();
      } else {
        accepting_ = false;  // The read fails as well and ends the attempt.
        forget_queue();
      }
      break;
    }
    case Tag::kFinished: {
      const std::scoped_lock lock(mutex_);
      attempt_->finished = true;
      break;
    }
    case Tag::kWritesDone:
    case Tag::kBackoffOver:
      break;
  }
  bool over = false;
  {
    const std::scoped_lock lock(mutex_);
    over = attempt_->finished && attempt_->operations == 0;
  }
  return over ? on_attempt_over() : true;
}

void StreamLink::Impl::on_started(bool ok) {
  if (!ok) return finish_call();
  {
    const std::scoped_lock lock(mutex_);
    attempt_->established = true;
    ++attempt_->operations;
    attempt_->call->Read(&attempt_->incoming, as_pointer(Tag::kRead));
    if (closing_) return;
    accepting_ = true;
    greeting_ = true;
  }
  announce(LinkState::kConnected, {});
  const std::scoped_lock lock(mutex_);
  greeting_ = false;
  std::move(deferred_.begin(), deferred_.end(), std::back_inserter(queue_));
  deferred_.clear();
  pump();
}

void StreamLink::Impl::on_read(bool ok) {
  if (!ok) return finish_call();
  std::string bytes = bytes_of(attempt_->incoming);
  attempt_->incoming.Clear();
  backoff_ = options_.backoff_min;  // The head accepted the connection.
  callbacks_.on_message(std::move(bytes));
  const std::scoped_lock lock(mutex_);
  ++attempt_->operations;
  attempt_->call->Read(&attempt_->incoming, as_pointer(Tag::kRead));
}

void StreamLink::Impl::finish_call() {
  const std::scoped_lock lock(mutex_);
  accepting_ = false;
  forget_queue();
  if (std::exchange(attempt_->finishing, true)) return;
  ++attempt_->operations;
  attempt_->call->Finish(&attempt_->status, as_pointer(Tag::kFinished));
}

bool StreamLink::Impl::on_attempt_over() {
  std::unique_ptr<Attempt> attempt;
  std::optional<Error> dropped;
  {
    const std::scoped_lock lock(mutex_);
    attempt = std::move(attempt_);
    dropped = drop_reason_;
    if (closing_) return false;
  }
  Error error;
  if (dropped) {
    error = *dropped;
  } else if (attempt->status.ok()) {
    error = {ErrorCode::kUnavailable, fmt::format("{} ended the stream.", options_.address)};
  } else {
    error = from_status(attempt->status, options_.address);
  }
  const bool established = attempt->established;
  const bool is_clear = !dropped && nobody_listens(attempt->status);
  attempt.reset();
  if (!established && !is_clear) error = explain(std::move(error));
  failed_attempts_ = established ? 0 : failed_attempts_ + 1;
  if (established || error != last_error_) announce(LinkState::kLost, error);

  const std::scoped_lock lock(mutex_);
  if (closing_) return false;
  // Between half and the full back-off, so that the clients of a restarted head do not reconnect at once.
  const auto wait =
      backoff_ / 2 + std::chrono::milliseconds(random_.below(static_cast<uint64_t>(backoff_.count()) / 2 + 1));
  backoff_ = std::min(backoff_ * 2, options_.backoff_max);
  alarm_.Set(&completions_, std::chrono::system_clock::now() + wait, as_pointer(Tag::kBackoffOver));
  return true;
}

void StreamLink::Impl::announce(LinkState state, const Error& error) {
  last_error_ = state == LinkState::kLost ? std::optional(error) : std::nullopt;
  if (callbacks_.on_state) callbacks_.on_state(state, error);
}

Error StreamLink::Impl::explain(Error error) {
  if (error.code != ErrorCode::kUnavailable) return error;
  if (failed_attempts_ % kDiagnoseEvery != 0) return last_error_.value_or(std::move(error));
  security::Credentials credentials;
  {
    const std::scoped_lock lock(mutex_);
    if (closing_) return error;
    credentials = options_.credentials;
  }
  auto checked = security::check_connection(options_.address, credentials, kDiagnosisTimeout, clock_);
  return checked ? error : std::move(checked).error();
}

void StreamLink::Impl::send(std::string message) {
  const std::scoped_lock lock(mutex_);
  if (!accepting_) return;
  const bool wait_for_greeting = greeting_ && std::this_thread::get_id() != link_thread_;
  enqueue(wait_for_greeting ? deferred_ : queue_, std::move(message));
  pump();
}

void StreamLink::Impl::enqueue(std::deque<std::string>& queue, std::string message) {
  const size_t messages = queue_.size() + deferred_.size() + 1;
  if (queued_bytes_ + message.size() > options_.queue_bytes_max || messages > options_.queue_messages_max) {
    return drop(
        {ErrorCode::kUnavailable,
         fmt::format("the connection to {} was given up: it takes messages too slowly; {} with {} "
                     "waited, at most {} and {} may.",
                     options_.address, counted(messages, "message"), counted(queued_bytes_ + message.size(), "byte"),
                     options_.queue_messages_max, options_.queue_bytes_max)});
  }
  queued_bytes_ += message.size();
  queue.push_back(std::move(message));
}

void StreamLink::Impl::drop(Error reason) {
  accepting_ = false;
  forget_queue();
  drop_reason_ = std::move(reason);
  attempt_->context.TryCancel();
}

void StreamLink::Impl::forget_queue() {
  queue_.clear();
  deferred_.clear();
  queued_bytes_ = 0;
}

std::string StreamLink::Impl::take_next() {
  if (!callbacks_.take_next) {
    std::string next = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= next.size();
    return next;
  }
  std::vector<size_t> sizes;  // Sizes of the messages to send.
  for (size_t at = 0; at < std::min(queue_.size(), kTakenMax); ++at) sizes.push_back(queue_[at].size());
  const size_t before = queue_.size();
  std::string next = callbacks_.take_next(queue_);
  for (size_t at = 0; at < before - queue_.size(); ++at) queued_bytes_ -= sizes[at];
  return next;
}

void StreamLink::Impl::pump() {
  if (!attempt_ || !attempt_->established || attempt_->writing || attempt_->finishing || attempt_->writes_done) return;
  if (!queue_.empty()) {
    const std::string message = take_next();
    const grpc::Slice slice(message);
    grpc::ByteBuffer buffer(&slice, 1);
    attempt_->writing = true;
    ++attempt_->operations;
    grpc::WriteOptions how;
    if (!queue_.empty()) how.set_buffer_hint();  // One system call for several messages.
    attempt_->call->Write(buffer, how, as_pointer(Tag::kWritten));
  } else if (flushing_ && !greeting_) {  // Messages of other threads sent during the greeting are still queued.
    attempt_->writes_done = true;
    ++attempt_->operations;
    attempt_->call->WritesDone(as_pointer(Tag::kWritesDone));
  }
}

void StreamLink::Impl::set_credentials(security::Credentials credentials) {
  const std::scoped_lock lock(mutex_);
  options_.credentials = std::move(credentials);
}

void StreamLink::Impl::close(std::chrono::milliseconds flush) {
  {
    std::unique_lock lock(mutex_);
    VOLADOR_CHECK(std::this_thread::get_id() != link_thread_, "close() from a callback");
    const bool first = !std::exchange(closing_, true);
    accepting_ = false;
    if (first) {
      if (flush.count() > 0 && attempt_ && attempt_->established) {
        flushing_ = true;
        pump();
        ended_changed_.wait_for(lock, flush, [&] { return ended_; });
      }
      if (attempt_) attempt_->context.TryCancel();
      alarm_.Cancel();
    }
  }
  const std::scoped_lock joining(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

StreamLink::StreamLink(std::string method, LinkOptions options, StreamLinkCallbacks callbacks)
    : impl_(std::make_unique<Impl>(std::move(method), std::move(options), std::move(callbacks))) {}

StreamLink::~StreamLink() { close(); }

void StreamLink::send(std::string message) { impl_->send(std::move(message)); }
void StreamLink::set_credentials(security::Credentials credentials) { impl_->set_credentials(std::move(credentials)); }
void StreamLink::close(std::chrono::milliseconds flush) { impl_->close(flush); }

}  // namespace volador::control
