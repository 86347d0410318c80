// The call channel: requests and replies between a caller and an actor's host, one hop. The wire format is in
// docs/wire.md.
//
//   caller's threads ─ call ─▶ CallConnection ══ Unix socket or TLS ══▶ CallServer ─ Handler ─▶ host
//                     ◀─ done ─                                                     ◀─ Responder::reply
//
// Calls on one connection reach the handler in order. Nothing is retried here. Flow control: the server announces how
// many calls and bytes it accepts at once; further calls wait in a bounded queue at the caller; a reply frees its
// call's part of the window.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "runtime/ids.h"
#include "runtime/net/io_loop.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"
#include "runtime/unique_function.h"

namespace volador::security {
class TlsContext;
}

namespace volador::net {

// Id of the calling process: random, chosen once, equal on all of its connections. Together with the request id it
// identifies a call permanently, so that a host can recognize a retry.
using CallerId = Id<struct CallerIdTag>;

inline constexpr size_t kFrameBytesMax = size_t{64} << 20;         // A call or reply including its header.
inline constexpr size_t kErrorMessageBytesMax = size_t{64} << 10;  // Longer messages are truncated before sending.

// Header and body of a call.
struct CallRequest {
  uint64_t request_id = 0;  // Unique among the caller's unanswered calls; a retry repeats the id.
  ActorId actor;
  uint64_t epoch = 0;
  uint64_t method = 0;                  // FNV-1a 64 of "Class::method".
  std::chrono::nanoseconds timeout{0};  // 0: none. At the handler: remaining time when the call was sent.
  bool keep_answer = false;             // The caller may retry: the host keeps the reply until it is acknowledged.
  uint64_t acknowledged = 0;            // The caller has the replies of its calls on this actor below this id.
  std::string body;                     // msgpack; opaque here.
};

// Memory for the first bytes of a large reply, read directly into it; the result holds the remaining bytes.
struct ReplyRoom {
  std::span<char> bytes;             // Contents are unspecified during the call. Not written to after `done`.
  std::shared_ptr<const void> keep;  // Owner of `bytes`.
  bool filled = false;               // Set at `done`; false: the result is the whole reply.
};
inline constexpr size_t kRoomBytesMin = size_t{64} << 10;  // Smaller replies are always returned in the result.

// Receives the result of a call. Runs on the loop's thread, once per call, outside all locks; must not block.
using CallDone = UniqueFunction<void(Result<std::string>&&), 3>;

// A server on this machine.
struct UnixEndpoint {
  std::string path;
};
// A server on another machine.
struct TlsEndpoint {
  std::string host;  // An IP address, or a name that is resolved on the connecting thread.
  uint16_t port = 0;
  std::string server_name;  // The host id in hex: sent as SNI and checked against the certificate.
  std::shared_ptr<const security::TlsContext> tls;
};
using Endpoint = std::variant<UnixEndpoint, TlsEndpoint>;
// "unix:/run/…/a.sock" or "10.0.0.2:7001 (3f2a…)".
std::string to_string(const Endpoint& endpoint);

// Options of CallConnection::connect().
struct ConnectionOptions {
  CallerId caller;
  size_t waiting_calls_max = 100'000;                                  // Queued calls beyond the server's window.
  size_t waiting_bytes_max = size_t{64} << 20;                         // Total of bodies; one larger call may queue.
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(5);  // Until the server's hello arrives.
  std::chrono::nanoseconds ping_every = std::chrono::seconds(5);       // TLS only, if nothing else arrives.
  std::chrono::nanoseconds silence_max = std::chrono::seconds(15);     // TLS only: then the connection is lost.
};

// The caller's end. Thread safe. Close it before its loop ends.
class CallConnection {
 public:
  // Does not wait; calls are queued until the connection is open. on_down runs once, on the loop's thread, after the
  // last `done`, if the connection failed or was lost; not after close(). Reconnecting is up to the caller.
  static std::shared_ptr<CallConnection> connect(IoLoop& loop, Endpoint endpoint, ConnectionOptions options = {},
                                                 std::function<void(Error)> on_down = {});
  virtual ~CallConnection() = default;  // Closes.

  // Errors of a call besides the handler's own:
  //   kUnavailable      not executed: the connection was lost before the call was sent, or too many calls are queued
  //   kUnknownOutcome   the connection was lost after (part of) the call was sent
  //   kTimeout          `timeout` passed; the handler gets a cancel
  //   kCancelled        by cancel() or close(); may have been executed if it was sent
  //   kInvalidArgument  above kFrameBytesMax, or the request id belongs to an unanswered call
  virtual void call(CallRequest&& request, CallDone&& done) = 0;
  // As call(), with memory for the reply, which need not be used.
  virtual void call_into(CallRequest&& request, std::shared_ptr<ReplyRoom> room, CallDone&& done) = 0;
  // Ends the call with kCancelled and notifies the handler. Late and repeated cancels have no effect.
  virtual void cancel(uint64_t request_id) = 0;
  // Ends calls that have not begun with kCancelled, newest first, if the host supports it (ServerOptions::give_back);
  // otherwise only unsent calls.
  virtual void give_back() = 0;
  // Ends all calls and the connection. Repeatable.
  virtual void close() = 0;
};

// The peer that a handler serves.
struct Peer {
  CallerId caller;
  bool local = false;    // Connected over the Unix socket.
  std::string identity;  // Local: "uid 1000 pid 77"; TLS: "driver alice", role and name of its certificate.
};

// Replies to one call. Thread safe; may outlive the connection and the server. If destroyed without a reply, it replies
// kUnknownOutcome.
class Responder {
 public:
  virtual ~Responder() = default;
  // The first answer counts. An answer above kFrameBytesMax becomes kInvalidArgument.
  virtual void reply(Result<std::string>&& result) = 0;
  // As reply(), for a thread that holds no lock and is not inside a call(): a caller in this process may receive the
  // reply on this thread before reply_here() returns.
  virtual void reply_here(Result<std::string>&& result) { reply(std::move(result)); }
  // The caller cancelled, the deadline passed, or the connection ended. A reply is accepted and ignored.
  virtual bool cancelled() const = 0;
  // The connection ended: the caller may reconnect and request the reply.
  virtual bool lost() const = 0;
  // Runs the function when the call is cancelled (on the loop's thread), at once if it already is; not after reply().
  // Several functions run in registration order.
  virtual void on_cancel(std::function<void()> function) = 0;
  // The method has returned and its reply comes later: the call no longer counts as unanswered on its connection.
  virtual void answer_later() {}
  virtual const Peer& peer() const = 0;
};

// A received call; the handler takes request and responder.
struct IncomingCall {
  CallRequest* request = nullptr;
  std::shared_ptr<Responder> responder;
};
// Receives calls in order, in batches if they arrived together. Runs on the loop's thread, or on the caller's thread if
// the caller is in this process. Must queue the requests and return.
using CallHandler = std::function<void(std::span<IncomingCall>)>;
// Adapts a function that takes calls one by one.
CallHandler each_call(std::function<void(CallRequest&&, std::shared_ptr<Responder>&&)> function);

// Options of CallServer::create().
struct ServerOptions {
  std::string unix_path;                            // Empty: adopted sockets only.
  std::shared_ptr<const security::TlsContext> tls;  // For adopted sockets; without it adopt() closes them.
  size_t calls_max = 1000;                          // Maximum of unanswered calls per connection.
  size_t bytes_max = size_t{16} << 20;              // Their total size; a single larger call is accepted alone.
  size_t calls_first = 64;                          // Maximum of unanswered calls before the size of replies is known.
  size_t calls_least = 1;                           // Minimum window, regardless of reply size.
  size_t later_max = 100'000;                       // Further unanswered calls per connection that are answered later.
  size_t replies_bytes_aim = size_t{64} << 20;      // Large replies reduce the concurrent calls toward this total.
  size_t replies_bytes_max = size_t{256} << 20;     // Unsent replies per connection; beyond it: kUnknownOutcome.
  size_t connections_max = 10'000;                  // Further connections are closed.
  size_t handshakes_max = 256;                      // Connections without a hello; beyond it the oldest is closed.
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(5);
  // A caller requests the return of calls that have not begun. Runs where the handler runs; null: unsupported.
  std::function<void()> give_back;
};

// The host's end. Thread safe. Close it before its loop ends.
class CallServer {
 public:
  // Creates the socket (mode 0600; only peers of this user and root). A stale socket file is replaced.
  // kInvalidArgument: the path is too long for a Unix socket, or another kind of file. kUnavailable: another process
  // listens there, or the path cannot be created.
  [[nodiscard]] static Result<std::unique_ptr<CallServer>> create(IoLoop& loop, ServerOptions options,
                                                                  CallHandler handler);
  virtual ~CallServer() = default;  // Closes.

  // Connection for a caller in this process without a socket: the handler runs on the calling threads, one at a time,
  // or on replying threads. Otherwise as CallConnection::connect().
  virtual std::shared_ptr<CallConnection> connect_here(ConnectionOptions options,
                                                       std::function<void(Error)> on_down = {}) = 0;
  // Takes over a TCP socket on which a TLS client waits for the handshake. `on_proved` runs once the client has
  // presented an authorized certificate, on the loop's thread; it must not block.
  virtual void adopt(UniqueFd socket, std::function<void()> on_proved = {}) = 0;
  // Ends connections whose peers are no longer authorized (after revocations in ServerOptions::tls). Any thread.
  virtual void check_peers() = 0;
  // Stops listening, cancels running calls, ends the connections and removes the socket file. No handler runs after it
  // returns. Repeatable.
  virtual void close() = 0;
  virtual size_t connections() const = 0;
};

}  // namespace volador::net
