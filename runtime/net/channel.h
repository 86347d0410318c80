// The call channel: requests and replies between a caller and the host of an actor, one hop.
// The wire form is docs/wire.md.
//
//   caller's threads ─ call ─▶ CallConnection ══ Unix socket or TLS ══▶ CallServer ─ Handler ─▶ host
//                     ◀─ done ─                                                     ◀─ Responder::reply
//
// Calls on one connection reach the handler in the order they were made. Nothing is retried here.
// Flow control: the server says how many calls and bytes it takes at once; further calls wait in a bounded queue at the
// caller; a reply gives back the room of its call.
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

// Which process calls: random, chosen once by the caller's process, the same on each of its connections. With the
// request id it names a call for good, so that a host can recognise a retry.
using CallerId = Id<struct CallerIdTag>;

inline constexpr size_t kFrameBytesMax = size_t{64} << 20;         // Of one call or reply with its header.
inline constexpr size_t kErrorMessageBytesMax = size_t{64} << 10;  // Longer ones are cut before they are sent.

struct CallRequest {
  uint64_t request_id = 0;  // Unique among the caller's unanswered calls; a retry carries the first one's.
  ActorId actor;
  uint64_t epoch = 0;
  uint64_t method = 0;                  // FNV-1a 64 of "Class::method".
  std::chrono::nanoseconds timeout{0};  // 0: none. At the handler: what was left when the call was sent.
  bool keep_answer = false;             // The caller may send it again: the host keeps its answer until it is acknowledged.
  uint64_t acknowledged = 0;            // The caller has the answers of all its calls on this actor below this request id.
  std::string body;                     // msgpack; not looked at here.
};

// Memory for the first bytes of a large answer: they are read straight into it, and the result is what follows them.
struct ReplyRoom {
  std::span<char> bytes;             // Of a call under way: unspecified. Nothing is written there after its `done`.
  std::shared_ptr<const void> keep;  // What `bytes` lies in.
  bool filled = false;               // At `done`; false: the result is the whole answer.
};
inline constexpr size_t kRoomBytesMin = size_t{64} << 10;  // Of an answer; a smaller one is always the result as a whole.

// The result of a call. Runs on the loop's thread, once for each call, outside all locks; must not block.
using CallDone = UniqueFunction<void(Result<std::string>&&), 3>;

struct UnixEndpoint {
  std::string path;
};
struct TlsEndpoint {
  std::string host;  // An IP address, or a name that is looked up in the thread that connects.
  uint16_t port = 0;
  std::string server_name;  // The host id in hex: sent as SNI, and the certificate must carry it.
  std::shared_ptr<const security::TlsContext> tls;
};
using Endpoint = std::variant<UnixEndpoint, TlsEndpoint>;
// "unix:/run/…/a.sock" or "10.0.0.2:7001 (3f2a…)".
std::string to_string(const Endpoint& endpoint);

struct ConnectionOptions {
  CallerId caller;
  size_t waiting_calls_max = 100'000;                                  // Calls beyond what the server takes at once.
  size_t waiting_bytes_max = size_t{64} << 20;                         // Their bodies; one larger call may wait alone.
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(5);  // Until the server's hello came.
  std::chrono::nanoseconds ping_every = std::chrono::seconds(5);       // TLS only, when nothing else arrives.
  std::chrono::nanoseconds silence_max = std::chrono::seconds(15);     // TLS only: then the connection is lost.
};

// The caller's end. Thread safe. Close it before its loop ends.
class CallConnection {
 public:
  // Returns at once; calls wait until the connection stands. on_down runs once, on the loop's thread, after the last
  // `done`, when the connection was lost or never came about; not after close(). Connecting again is the caller's part.
  static std::shared_ptr<CallConnection> connect(IoLoop& loop, Endpoint endpoint, ConnectionOptions options = {},
                                                 std::function<void(Error)> on_down = {});
  virtual ~CallConnection() = default;  // Closes.

  // Errors of a call, apart from those that the handler answered with:
  //   kUnavailable      not done: the connection was lost before the call was sent, or too many calls wait
  //   kUnknownOutcome   the connection was lost after (part of) the call was sent
  //   kTimeout          `timeout` passed; the handler is told to cancel
  //   kCancelled        by cancel() or close(); may have been executed if it had been sent
  //   kInvalidArgument  above kFrameBytesMax, or the request id is that of an unanswered call
  virtual void call(CallRequest&& request, CallDone&& done) = 0;
  // With room for the answer, which need not be used.
  virtual void call_into(CallRequest&& request, std::shared_ptr<ReplyRoom> room, CallDone&& done) = 0;
  // Ends the call with kCancelled and tells the handler. Late and repeated cancels change nothing.
  virtual void cancel(uint64_t request_id) = 0;
  // Those of the calls so far that have not begun end with kCancelled, the newest first, where the host gives calls back
  // (ServerOptions::give_back); elsewhere only those that are not sent.
  virtual void give_back() = 0;
  // Ends all calls and the connection. Repeatable.
  virtual void close() = 0;
};

// Whom a handler serves.
struct Peer {
  CallerId caller;
  bool local = false;    // Over the Unix socket.
  std::string identity;  // Local: "uid 1000 pid 77"; TLS: "driver alice", the role and name of its certificate.
};

// Answers one call. Thread safe; may outlive the connection and the server. Dropped without an answer, it answers
// kUnknownOutcome.
class Responder {
 public:
  virtual ~Responder() = default;
  // The first answer counts. An answer above kFrameBytesMax becomes kInvalidArgument.
  virtual void reply(Result<std::string>&& result) = 0;
  // As reply(), from where no lock is held and no call is being made: a caller in this process may get it on this
  // thread, before it returns.
  virtual void reply_here(Result<std::string>&& result) { reply(std::move(result)); }
  // The caller cancelled, its deadline passed, or its connection ended. A reply is still taken, and ignored.
  virtual bool cancelled() const = 0;
  // Its connection ended: the caller may come again and ask for the answer.
  virtual bool lost() const = 0;
  // Runs the function when the call is cancelled (on the loop's thread), or at once if it is already; not after
  // reply(). Several run in the order in which they were given.
  virtual void on_cancel(std::function<void()> function) = 0;
  // The call's method has returned, and its answer comes later: it counts no more among the calls that its connection may have unanswered.
  virtual void answer_later() {}
  virtual const Peer& peer() const = 0;
};

// A call that came: request and responder are the handler's to take.
struct IncomingCall {
  CallRequest* request = nullptr;
  std::shared_ptr<Responder> responder;
};
// Takes calls in the order in which they came, several at once where they came together. Runs on the loop's thread, or where the caller
// is in this process on one of its own; hands the requests on and returns.
using CallHandler = std::function<void(std::span<IncomingCall>)>;
// Of a function that takes them one by one.
CallHandler each_call(std::function<void(CallRequest&&, std::shared_ptr<Responder>&&)> function);

struct ServerOptions {
  std::string unix_path;                            // Empty: adopted sockets only.
  std::shared_ptr<const security::TlsContext> tls;  // Of adopted sockets; without it adopt() closes them.
  size_t calls_max = 1000;                          // Unanswered calls of one connection.
  size_t bytes_max = size_t{16} << 20;              // Their size; one larger call is taken alone.
  size_t calls_first = 64;                          // Unanswered calls before the size of replies is known.
  size_t calls_least = 1;                           // However large the replies are.
  size_t later_max = 100'000;                       // Further unanswered calls of one connection: those that are answered later.
  size_t replies_bytes_aim = size_t{64} << 20;      // Fewer calls are taken at once where their replies are large.
  size_t replies_bytes_max = size_t{256} << 20;     // Unsent replies of one connection; beyond: kUnknownOutcome.
  size_t connections_max = 10'000;                  // Further ones are closed.
  size_t handshakes_max = 256;                      // Connections without a hello yet; beyond: the oldest goes.
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(5);
  std::function<void()> give_back;  // A caller wants back what came and has not begun. Where the handler runs; null: it gets nothing back.
};

// The host's end. Thread safe. Close it before its loop ends.
class CallServer {
 public:
  // Makes the socket (mode 0600; peers of this user and root only). A socket file that nobody listens on is replaced.
  // kInvalidArgument: the path is too long for a Unix socket, or is a file of another kind.
  // kUnavailable: another process listens there, or the path cannot be made.
  [[nodiscard]] static Result<std::unique_ptr<CallServer>> create(IoLoop& loop, ServerOptions options,
                                                                  CallHandler handler);
  virtual ~CallServer() = default;  // Closes.

  // The connection of a caller in this very process: no socket lies between, and the handler runs on the threads that call (one after
  // the other) or answer. The rest is as of CallConnection::connect().
  virtual std::shared_ptr<CallConnection> connect_here(ConnectionOptions options, std::function<void(Error)> on_down = {}) = 0;
  // Takes over a TCP socket on which a TLS client waits for the handshake. `on_proved` runs once it has shown a certificate that lets it
  // in, on the loop's thread; it must not block.
  virtual void adopt(UniqueFd socket, std::function<void()> on_proved = {}) = 0;
  // Ends the connections whose callers would not be let in now (ServerOptions::tls has heard of revocations). Any thread.
  virtual void check_peers() = 0;
  // Stops listening, cancels the calls that run, ends the connections, removes the socket file. After it returned no
  // handler runs. Repeatable.
  virtual void close() = 0;
  virtual size_t connections() const = 0;
};

}  // namespace volador::net
