// One caller's connection at the host, and the answers to its calls. Private to the call server.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "runtime/net/callee_core.h"
#include "runtime/net/channel.h"
#include "runtime/net/frame_reader.h"
#include "runtime/net/stream.h"

namespace volador::net {

class ServerConnection;
class CallResponder;

// What a connection needs of its server. Loop thread.
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

//   handshake ─▶ open (calls from the caller's hello on) ─▶ ended
class ServerConnection final : public Pollable, public std::enable_shared_from_this<ServerConnection> {
 public:
  ServerConnection(std::shared_ptr<ServerSide> server, std::unique_ptr<Stream> stream, Peer peer);

  // Loop thread.
  void start();
  void on_events(uint32_t events) override;
  void end(Error why);                                              // Cancels the calls that run. Repeatable.
  std::optional<std::list<ServerConnection*>::iterator> half_open;  // The server's note.

  // Any thread.
  void say_goodbye(std::string_view why);
  void reply(CallResponder& responder, Result<std::string> result);
  void on_cancel(CallResponder& responder, std::function<void()> function);
  const Peer& peer() const { return peer_; }  // Fixed before the first call.

 private:
  enum class State { kHandshake, kOpen, kEnded };

  void go_on_handshake();
  void read();
  void flush();
  void flush_soon();
  void read_soon();
  void want();

  const std::shared_ptr<ServerSide> server_;
  IoLoop& loop_;
  const std::unique_ptr<Stream> stream_;
  Peer peer_;
  FrameReader reader_;
  IoLoop::TimerId handshake_timer_ = 0;

  std::mutex mutex_;  // Guards what follows.
  State state_ = State::kHandshake;
  CalleeCore core_;
  RequestTable<std::weak_ptr<CallResponder>> responders_;  // Of the calls that run.
  bool blocked_ = false;
  bool write_failed_ = false;
  bool flush_posted_ = false;
  uint32_t events_ = 0;
};

}  // namespace volador::net
