#include "runtime/control/call_relay.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/control/channel.h"
#include "runtime/control/relay_protocol.h"
#include "runtime/control/unary.h"
#include "runtime/net/channel.h"
#include "runtime/operations/catalogue.h"
#include "runtime/security/authority.h"

namespace volador::control {
namespace {

// The head permits 256 at once on a connection, and calls may wait long for an event.
constexpr int kCallsPerConnection = 200;
constexpr std::chrono::milliseconds kTimeoutMax{600'000};

// A connection to the head.
struct Line {
  Line(const std::string& address, const security::Credentials& credentials)
      : channel(address, credentials), stub(channel.grpc()) {}

  Channel channel;
  grpc::GenericStub stub;
  int calls = 0;  // Guarded by RunningCalls.
};

struct RunningCall;

// A call and the process that waits for its answer.
struct StartedCall {
  std::shared_ptr<RunningCall> call;
  std::shared_ptr<net::Responder> responder;
};

// The calls that have not ended. A connection ends after them: gRPC must not close it on a thread of its own, where the
// callback of its last call runs.
class RunningCalls {
 public:
  void begin(RunningCall& call, Line& line) {
    const std::lock_guard<std::mutex> hold(mutex_);
    calls_.insert(&call);
    ++line.calls;
  }
  void end(RunningCall& call, Line& line) {
    const std::lock_guard<std::mutex> hold(mutex_);
    calls_.erase(&call);
    --line.calls;
    if (calls_.empty()) none_.notify_all();
  }
  // Keeps a call until gRPC calls back, which takes it.
  RunningCall* start(StartedCall started) {
    const std::lock_guard<std::mutex> hold(mutex_);
    RunningCall* const key = started.call.get();
    started_.emplace(key, std::move(started));
    return key;
  }
  StartedCall take(RunningCall* key) {
    const std::lock_guard<std::mutex> hold(mutex_);
    return std::move(started_.extract(key).mapped());
  }
  bool has_room(const Line& line) {
    const std::lock_guard<std::mutex> hold(mutex_);
    return line.calls < kCallsPerConnection;
  }
  // Cancels all and waits for their ends.
  void cancel();

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  std::unordered_set<RunningCall*> calls_;
  std::unordered_map<RunningCall*, StartedCall> started_;
};

struct RunningCall {
  RunningCall(RunningCalls& all, Line& on) : membership{all, *this, on}, line(on) {}

  struct Membership {
    Membership(RunningCalls& all, RunningCall& one, Line& on) : calls(all), call(one), line(on) {
      calls.begin(call, line);
    }
    ~Membership() { calls.end(call, line); }
    Membership(const Membership&) = delete;
    Membership& operator=(const Membership&) = delete;

    RunningCalls& calls;
    RunningCall& call;
    Line& line;
  };
  const Membership membership;  // The first member: it ends after what gRPC uses.
  Line& line;
  grpc::ClientContext context;
  grpc::ByteBuffer request, reply;
};

void RunningCalls::cancel() {
  std::unique_lock<std::mutex> hold(mutex_);
  for (RunningCall* call : calls_) call->context.TryCancel();
  none_.wait(hold, [this] { return calls_.empty(); });
}

grpc::ByteBuffer buffer_of(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string bytes_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

class Relay final : public CallRelay {
 public:
  Relay(CallRelayOptions options, std::string authority)
      : options_(std::move(options)), authority_(std::move(authority)) {}
  ~Relay() override {
    if (server_) server_->close();
    calls_.cancel();
  }

  Result<void> serve(net::IoLoop& loop) {
    net::ServerOptions server;
    server.unix_path = options_.folder / kRelaySocket;
    auto made = net::CallServer::create(
        loop, server, net::each_call([this](net::CallRequest&& request, std::shared_ptr<net::Responder>&& responder) {
          on_call(request, responder);
        }));
    if (!made) return make_error(std::move(made).error());
    server_ = std::move(*made);
    return {};
  }

 private:
  // Loop thread.
  void on_call(const net::CallRequest& request, const std::shared_ptr<net::Responder>& responder) {
    auto asked = from_bytes<RelayedCall>(request.body);
    if (!asked || asked->authority != authority_ || operations::find_path(asked->path) == nullptr) {
      return responder->reply(
          make_error(ErrorCode::kInvalidArgument, "expected an operation of the cluster of this node"));
    }
    const auto call = std::make_shared<RunningCall>(calls_, free_line());
    const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(request.timeout);
    set_timeout(call->context, timeout.count() > 0 ? std::min(timeout, kTimeoutMax) : kTimeoutMax);
    if (!asked->bearer.empty()) call->context.AddMetadata("authorization", "Bearer " + asked->bearer);
    call->request = buffer_of(asked->request.data);
    responder->answer_later();
    responder->on_cancel([waiting = std::weak_ptr(call)] {
      if (const auto running = waiting.lock()) running->context.TryCancel();
    });
    call->line.stub.UnaryCall(
        &call->context, asked->path, {}, &call->request, &call->reply,
        [this, started = calls_.start({call, responder})](const grpc::Status& status) { on_end(started, status); });
  }

  // gRPC's thread.
  void on_end(RunningCall* started, const grpc::Status& status) {
    const auto [call, responder] = calls_.take(started);
    RelayedAnswer answer{.code = static_cast<int32_t>(status.error_code()),
                         .message = status.error_message(),
                         .details = {status.error_details()},
                         .reply = {}};
    if (status.ok()) answer.reply.data = bytes_of(call->reply);
    responder->reply(to_bytes(answer));
  }

  Line& free_line() {
    const auto found =
        std::ranges::find_if(lines_, [this](const std::unique_ptr<Line>& line) { return calls_.has_room(*line); });
    if (found != lines_.end()) return **found;
    const security::Credentials credentials{
        .certificate_pem = {}, .key_pem = {}, .authority_pem = options_.authority_pem};
    return *lines_.emplace_back(std::make_unique<Line>(options_.address, credentials));
  }

  const CallRelayOptions options_;
  const std::string authority_;               // Its fingerprint.
  std::vector<std::unique_ptr<Line>> lines_;  // Loop thread.
  RunningCalls calls_;
  std::unique_ptr<net::CallServer> server_;
};

}  // namespace

Result<std::unique_ptr<CallRelay>> CallRelay::create(net::IoLoop& loop, CallRelayOptions options) {
  VOLADOR_TRY(prepare_grpc());
  const auto authority = security::fingerprint_of(options.authority_pem);
  if (!authority) return make_error(authority.error());
  auto relay = std::make_unique<Relay>(std::move(options), to_string(*authority));
  VOLADOR_TRY(relay->serve(loop));
  return relay;
}

}  // namespace volador::control
