#include <fmt/format.h>
#include <sys/epoll.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/log.h"
#include "runtime/net/caller_core.h"
#include "runtime/net/channel.h"
#include "runtime/net/socket.h"
#include "runtime/net/stream.h"
#include "runtime/net/stream_end.h"

namespace volador::net {
namespace {

constexpr size_t kWrittenCallsMin = 64;
constexpr auto kBusyRetry = std::chrono::milliseconds(5);

// Implementation of the connection; kept alive by the loop, its timers and the user's CallConnection.
class Caller final : public StreamEnd {
 public:
  Caller(IoLoop& loop, Endpoint endpoint, ConnectionOptions options, std::function<void(Error)> on_down)
      : StreamEnd(loop, State::kConnecting),
        endpoint_(std::move(endpoint)),
        name_(to_string(endpoint_)),
        options_(std::move(options)),
        on_down_(std::move(on_down)),
        core_({options_.waiting_calls_max, options_.waiting_bytes_max}, options_.caller, name_) {}

  void start();
  void call(CallRequest&& request, CallDone&& done, std::shared_ptr<ReplyRoom> room = {});
  void cancel(uint64_t request_id);
  void give_back();
  void close();

 private:
  using Finished = std::vector<CallerCore::Finished>;

  // Loop thread.
  void connect_next();
  void connected();
  void on_connecting() override;
  Result<bool> on_batch(FrameReader::Batch& batch) override;
  void end(Error why) override;
  std::span<char> room(uint64_t request_id, size_t payload_bytes) override {
    const std::lock_guard lock(mutex_);
    return core_.room(request_id, payload_bytes);
  }
  void on_deadline();
  void on_ping();
  void after(std::chrono::nanoseconds delay, IoLoop::TimerId& timer, void (Caller::*function)());
  void on_connect_timeout() {
    end({ErrorCode::kUnavailable,
         fmt::format("no answer for {} ms",
                     std::chrono::ceil<std::chrono::milliseconds>(options_.connect_timeout).count())});
  }

  // Any thread, with the mutex held.
  Outbox& outbox() override { return core_.outbox(); }
  // Number of sent and unanswered calls that keeps the peer busy; held calls are sent when their replies arrive.
  bool peer_has_work() override {
    return core_.sent_calls() >= kWrittenCallsMin + core_.outbox().bytes() / (kFrameHeaderBytes + kCallHeaderBytes);
  }
  void arm_deadline();
  void cancel_timers();

  static void run(Finished& finished) {
    for (auto& one : finished) one.done(std::move(one.result));
    finished.clear();
  }
  // Posts finished calls to the loop. Call with the mutex held.
  void post_finished() {
    if (!core_.has_finished()) return;
    auto batch = std::make_shared<Finished>();
    core_.take_finished(*batch);
    loop_.post([batch] { run(*batch); });
  }

  const Endpoint endpoint_;
  const std::string name_;
  const ConnectionOptions options_;

  // Loop thread only.
  std::function<void(Error)> on_down_;
  std::vector<SocketAddress> addresses_;
  size_t next_address_ = 0;
  Error address_error_;
  UniqueFd connecting_;
  Finished finished_;  // A batch of finished calls; reused to save allocations.
  uint64_t pings_ = 0;

  // Guarded by the mutex.
  CallerCore core_;
  bool closed_ = false;
  std::optional<BootTime> armed_;
  IoLoop::TimerId deadline_timer_ = 0;
  IoLoop::TimerId connect_timer_ = 0;
  IoLoop::TimerId retry_timer_ = 0;
  IoLoop::TimerId ping_timer_ = 0;
};

void Caller::start() {
  Error failed;
  if (const auto* local = std::get_if<UnixEndpoint>(&endpoint_)) {
    auto address = unix_address(local->path);
    if (address) {
      addresses_.push_back(*address);
    } else {
      failed = std::move(address).error();
    }
  } else {
    const auto& remote = std::get<TlsEndpoint>(endpoint_);
    auto addresses = resolve(remote.host, remote.port);
    if (!remote.tls) {
      failed = {ErrorCode::kInvalidArgument, "TLS: this process has no certificate; connect to a cluster first"};
    } else if (addresses) {
      addresses_ = *std::move(addresses);
    } else {
      failed = std::move(addresses).error();
    }
  }
  loop_.post([self = self_as<Caller>(), failed] {
    self->after(self->options_.connect_timeout, self->connect_timer_, &Caller::on_connect_timeout);
    if (failed.message.empty()) return self->connect_next();
    self->end(failed);
  });
}

void Caller::after(std::chrono::nanoseconds delay, IoLoop::TimerId& timer, void (Caller::*function)()) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kDown) return;
  timer = loop_.add_timer(loop_.now() + delay, [self = self_as<Caller>(), function] { (self.get()->*function)(); });
}

void Caller::connect_next() {
  while (next_address_ < addresses_.size()) {
    auto begun = start_connect(addresses_[next_address_]);
    if (!begun) {
      address_error_ = std::move(begun).error();
      ++next_address_;
      continue;
    }
    if (begun->busy) return after(kBusyRetry, retry_timer_, &Caller::connect_next);
    connecting_ = std::move(begun->socket);
    if (!begun->in_progress) return connected();
    const std::lock_guard lock(mutex_);
    if (state_ == State::kDown) return;
    events_ = EPOLLOUT;
    if (auto watched = loop_.watch(connecting_.get(), events_, shared_from_this()); !watched) {
      address_error_ = std::move(watched).error();
      break;
    }
    return;
  }
  end(address_error_);
}

void Caller::connected() {
  Result<std::unique_ptr<Stream>> made;
  const int fd = connecting_.get();
  {
    const std::lock_guard lock(mutex_);
    loop_.unwatch(fd);  // The stream may close it.
    events_ = 0;
  }
  if (const auto* remote = std::get_if<TlsEndpoint>(&endpoint_)) {
    made = make_tls_client(std::move(connecting_), remote->tls, remote->server_name);
  } else {
    made = make_plain_stream(std::move(connecting_));
  }
  if (!made) return end(std::move(made).error());
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kDown) return;
    stream_ = *std::move(made);
    state_ = State::kHandshake;
  }
  begin();
}

void Caller::on_connecting() {
  const int error = take_socket_error(connecting_.get());
  if (error == 0) return connected();
  {
    const std::lock_guard lock(mutex_);
    loop_.unwatch(connecting_.get());
    events_ = 0;
  }
  address_error_ = {ErrorCode::kUnavailable, fmt::format("connect: {}", std::strerror(error))};
  ++next_address_;
  connect_next();
}

Result<bool> Caller::on_batch(FrameReader::Batch& batch) {
  Result<void> taken;
  bool greeted = false;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kOpen) return make_error(ErrorCode::kCancelled, "closed");
    const bool was_ready = core_.ready();
    const BootTime now = loop_.now();
    for (size_t i = 0; i < batch.count && taken; ++i) taken = core_.on_frame(now, std::move(batch.frames[i]));
    core_.take_finished(finished_);
    greeted = !was_ready && core_.ready();
    if (greeted) loop_.cancel_timer(std::exchange(connect_timer_, 0));
  }
  run(finished_);
  if (greeted && std::holds_alternative<TlsEndpoint>(endpoint_)) on_ping();
  if (!taken) return make_error(std::move(taken).error());
  return true;
}

// Also detects a dead peer: if nothing, including pongs, arrives for silence_max, the connection ends.
void Caller::on_ping() {
  const BootTime now = loop_.now();
  const auto silence = last_read_ == BootTime{} ? std::chrono::nanoseconds(0) : now - last_read_;
  if (silence >= options_.silence_max) {
    return end({ErrorCode::kUnavailable, fmt::format("the peer was silent for {} ms",
                                                     std::chrono::floor<std::chrono::milliseconds>(silence).count())});
  }
  if (silence >= options_.ping_every) {
    Lock lock(mutex_);
    if (state_ != State::kOpen) return;
    put_plain(core_.outbox().tail(), FrameKind::kPing, ++pings_);
    core_.outbox().added();
    flush(lock);
  }
  after(options_.ping_every, ping_timer_, &Caller::on_ping);
}

void Caller::arm_deadline() {
  const auto next = core_.next_deadline();
  if (!next || state_ == State::kDown || (armed_ && *armed_ <= *next)) return;
  loop_.cancel_timer(deadline_timer_);
  armed_ = next;
  deadline_timer_ = loop_.add_timer(*next, [self = self_as<Caller>()] { self->on_deadline(); });
}

void Caller::cancel_timers() {
  for (const auto timer : {deadline_timer_, connect_timer_, retry_timer_, ping_timer_}) loop_.cancel_timer(timer);
}

void Caller::on_deadline() {
  Finished finished;
  {
    Lock lock(mutex_);
    armed_.reset();
    core_.on_tick(loop_.now());
    arm_deadline();
    core_.take_finished(finished);
    if (state_ == State::kOpen) flush(lock);
  }
  run(finished);
}

void Caller::call(CallRequest&& request, CallDone&& done, std::shared_ptr<ReplyRoom> room) {
  if (room) {  // Valid until `done` has run on the loop, whose thread may write there until then.
    done = [room, done = std::move(done)](Result<std::string>&& result) mutable { done(std::move(result)); };
  }
  Lock lock(mutex_);
  const bool timed = request.timeout.count() > 0;
  core_.on_call(timed ? loop_.now() : BootTime{}, std::move(request), std::move(done), std::move(room));
  if (timed) arm_deadline();
  post_finished();
  flush_as_fits(lock, core_.sent_calls(), core_.sent_calls() >= kHeldCallsMin);
}

void Caller::cancel(uint64_t request_id) {
  const std::lock_guard lock(mutex_);
  core_.on_cancel(loop_.now(), request_id);
  if (state_ == State::kOpen) flush_soon();
  post_finished();
}

void Caller::give_back() {
  const std::lock_guard lock(mutex_);
  core_.on_give_back();
  if (state_ == State::kOpen) flush_soon();
  post_finished();
}

// Loop thread.
void Caller::end(Error why) {
  Finished finished;
  std::function<void(Error)> on_down;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kDown) return;
    state_ = State::kDown;
    core_.on_lost(why.message);
    core_.take_finished(finished);
    cancel_timers();
    if (stream_) {
      unwatch();
    } else if (connecting_) {
      loop_.unwatch(connecting_.get());
      connecting_.reset();  // The connection object may live on for a while.
    }
    on_down = std::exchange(on_down_, {});
  }
  log::write(why.code == ErrorCode::kInvalidArgument ? log::Level::kWarn : log::Level::kDebug, "net",
             "call connection down", {{"peer", name_}, {"reason", why.message}, {"calls", finished.size()}});
  run(finished);
  why.message = fmt::format("connection to {}: {}", name_, why.message);
  if (on_down) on_down(std::move(why));
}

void Caller::close() {
  Lock lock(mutex_);
  if (closed_) return;
  closed_ = true;
  core_.on_close();
  post_finished();
  // Before the goodbye: the peer answers it by closing, which must not count as a lost connection.
  const State before = std::exchange(state_, State::kDown);
  if (before == State::kDown) return;
  if (before == State::kOpen) {
    put_goodbye(core_.outbox().tail(), "the caller is done");
    core_.outbox().added();
    flush(lock);
  }
  cancel_timers();
  if (stream_) unwatch();
  loop_.post([self = self_as<Caller>()] {  // State that only the loop's thread may touch.
    self->on_down_ = {};
    if (self->connecting_) {
      self->loop_.unwatch(self->connecting_.get());
      self->connecting_.reset();
    }
  });
}

class Connection final : public CallConnection {
 public:
  explicit Connection(std::shared_ptr<Caller> caller) : caller_(std::move(caller)) {}
  ~Connection() override { caller_->close(); }
  void call(CallRequest&& request, CallDone&& done) override { caller_->call(std::move(request), std::move(done)); }
  void call_into(CallRequest&& request, std::shared_ptr<ReplyRoom> room, CallDone&& done) override {
    caller_->call(std::move(request), std::move(done), std::move(room));
  }
  void cancel(uint64_t request_id) override { caller_->cancel(request_id); }
  void give_back() override { caller_->give_back(); }
  void close() override { caller_->close(); }

 private:
  const std::shared_ptr<Caller> caller_;
};

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  if (const auto* local = std::get_if<UnixEndpoint>(&endpoint)) return "unix:" + local->path;
  const auto& remote = std::get<TlsEndpoint>(endpoint);
  const bool v6 = remote.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{} ({})", v6 ? "[" : "", remote.host, v6 ? "]" : "", remote.port,
                     remote.server_name.substr(0, 8));
}

std::shared_ptr<CallConnection> CallConnection::connect(IoLoop& loop, Endpoint endpoint, ConnectionOptions options,
                                                        std::function<void(Error)> on_down) {
  auto caller = std::make_shared<Caller>(loop, std::move(endpoint), std::move(options), std::move(on_down));
  caller->start();
  return std::make_shared<Connection>(std::move(caller));
}

}  // namespace volador::net
