// A caller's connection at the host and the replies to its calls. Private to the call server.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string_view>

#include "runtime/net/callee_core.h"
#include "runtime/net/channel.h"
#include "runtime/net/request_table.h"
#include "runtime/net/responder.h"
#include "runtime/net/stream_end.h"

namespace volador::net {

class ServerConnection;
using CallResponder = ResponderOf<ServerConnection>;

// Interface of a connection to its server. Loop thread.
class ServerSide {
 public:
  ServerSide(IoLoop& its_loop, ServerOptions its_options, CallHandler its_handler)
      : loop(its_loop), options(std::move(its_options)), handler(std::move(its_handler)) {}
  virtual ~ServerSide() = default;
  virtual void on_hello(ServerConnection& connection) = 0;
  virtual void on_end(ServerConnection& connection, const Error& why) = 0;

  IoLoop& loop;
  const ServerOptions options;
  const CallHandler handler;
};

// Server side of one connection. Accepts calls after the caller's hello.
class ServerConnection final : public StreamEnd {
 public:
  // `on_proved`: as for CallServer::adopt.
  ServerConnection(std::shared_ptr<ServerSide> server, std::unique_ptr<Stream> stream, Peer peer,
                   std::function<void()> on_proved);

  // Loop thread.
  void start();
  void end(Error why) override;                                     // Cancels running calls. Repeatable.
  void check_peer();                                                // Ends it if the peer's certificate was revoked.
  std::optional<std::list<ServerConnection*>::iterator> half_open;  // Used by the server.

  // Any thread.
  void say_goodbye(std::string_view why);
  void reply(CallResponder& responder, Result<std::string>&& result);
  void on_cancel(CallResponder& responder, std::function<void()> function);
  void answer_later(CallResponder& responder);
  const Peer& peer() const { return peer_; }  // Set before the first call.

 private:
  struct Asked;
  Result<void> take(Frame& frame, std::shared_ptr<CallResponder>& responder, Asked& asked);
  Result<bool> on_batch(FrameReader::Batch& batch) override;
  void on_open() override;
  Outbox& outbox() override { return core_.outbox(); }
  bool wants_input() const override { return core_.wants_input(); }

  const std::shared_ptr<ServerSide> server_;
  Peer peer_;
  std::function<void()> on_proved_;      // Loop thread.
  IoLoop::TimerId handshake_timer_ = 0;  // Loop thread.

  // Guarded by the mutex.
  CalleeCore core_;  // Holds the CallResponder* of each running call, which removes itself at its end.
};

}  // namespace volador::net
