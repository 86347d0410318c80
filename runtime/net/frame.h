// Frames of the call channel: bytes to frames and back. Pure. The wire form is docs/wire.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/net/channel.h"
#include "runtime/result.h"

namespace volador::net {

enum class FrameKind : uint8_t {
  kHello = 1,   // First frame of each direction.
  kCall = 2,    // Caller to host.
  kReply = 3,   // Host to caller: the result.
  kError = 4,   // Host to caller: why there is none.
  kCancel = 5,  // Caller to host; the call is still answered.
  kCredit = 6,  // Host to caller: how much it takes from now on.
  kPing = 7,    // Answered by a pong with the same request id.
  kPong = 8,
  kGoodbye = 9,  // The sender closes now; the payload says why.
  kGiveBack = 10,  // Caller to host: the calls that came on this connection and have not begun may be answered with kCancelled.
};

inline constexpr uint16_t kWireVersion = 3;
inline constexpr size_t kFrameHeaderBytes = 16;
inline constexpr size_t kCallHeaderBytes = 48;
inline constexpr size_t kGoodbyeBytesMax = 1024;

// How much a host takes at once: unanswered calls, and their size (headers included).
struct Window {
  uint32_t calls = 0;
  uint64_t bytes = 0;
  bool operator==(const Window&) const = default;
};

struct Hello {
  Window window;
  CallerId caller;  // Nil from a host.
};

// One decoded frame; which fields mean something depends on the kind.
struct Frame {
  FrameKind kind{};
  uint64_t request_id = 0;
  CallRequest call;       // kCall, body included.
  std::string body;       // kReply; kGoodbye: the reason.
  size_t in_room = 0;     // kReply: bytes before those of `body`, which went where FrameDecoder::Rooms said.
  Error error;            // kError.
  Hello hello;            // kHello.
  Window window;          // kCredit.
  size_t wire_bytes = 0;  // Of the whole frame.
};

// Of an error's message: what is left within kErrorMessageBytesMax.
std::string_view sent_part(std::string_view message);

// What a call weighs in a window.
inline size_t call_bytes(const CallRequest& request) {
  return kFrameHeaderBytes + kCallHeaderBytes + request.body.size();
}

// Appends a whole frame, or for a body that is sent apart only what stands before it.
void put_hello(std::string& out, const Hello& hello);
void put_call_header(std::string& out, const CallRequest& request);  // The body follows.
void put_reply_header(std::string& out, uint64_t request_id, size_t body_bytes);
void put_error(std::string& out, uint64_t request_id, const Error& error);  // Cuts the message at its limit.
void put_credit(std::string& out, const Window& window);
void put_plain(std::string& out, FrameKind kind, uint64_t request_id = 0);  // kCancel, kPing, kPong, kGiveBack.
void put_goodbye(std::string& out, std::string_view reason);

// Takes bytes as they come, in pieces of any size. Memory grows with the bytes that arrived, not with the length that a
// peer announced: of that at most 8 MiB are reserved, of which no page is touched before its bytes are there.
class FrameDecoder {
 public:
  // Where the first bytes of a reply go; empty: into Frame::body. Asked anew for each part that comes, so that whoever gave the room can take
  // it back: another size than at first means that they go nowhere.
  using Rooms = std::function<std::span<char>(uint64_t request_id, size_t payload_bytes)>;
  void set_rooms(Rooms rooms) { rooms_ = std::move(rooms); }
  // Once next() said that it needs more: where the next bytes belong, to be written there and counted. Empty: feed them.
  std::span<char> room_left();
  void count_in_room(size_t bytes) { room_done_ += bytes; }
  // The last frame that began, complete or not, has a room.
  bool has_room() const { return room_need_ > 0; }

  // The bytes must stay where they are until next() said that it needs more.
  void feed(std::string_view bytes) { input_ = bytes; }

  // true: `frame` is the next one. false: all bytes were taken, more are needed.
  // kInvalidArgument: the peer does not speak this protocol; the decoder is of no more use.
  [[nodiscard]] Result<bool> next(Frame& frame);

  // Bytes held of a frame that is not complete.
  size_t held() const { return header_.size() + body_.size(); }

 private:
  Result<void> begin();

  std::string_view input_;
  std::string header_;  // Frame header and, of a call, the call header.
  std::string body_;
  size_t header_need_ = kFrameHeaderBytes;
  size_t body_need_ = 0;
  Rooms rooms_;
  size_t room_need_ = 0;  // Bytes of the payload before the body.
  size_t room_done_ = 0;
  bool room_lost_ = false;  // It was taken back.
  bool begun_ = false;      // The frame header was read: the lengths are known.
  bool hello_seen_ = false;
};

// kInvalidArgument: what a peer did that the protocol forbids.
tl::unexpected<Error> refuse_frame(std::string why);

}  // namespace volador::net
