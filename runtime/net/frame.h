// Encoding and decoding of the call channel's frames. Pure. The wire format is in docs/wire.md.
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
  kError = 4,   // Host to caller: the error.
  kCancel = 5,  // Caller to host; the call is still answered.
  kCredit = 6,  // Host to caller: the new window.
  kPing = 7,    // Answered by a pong with the same request id.
  kPong = 8,
  kGoodbye = 9,    // The sender closes now; the payload holds the reason.
  kGiveBack = 10,  // Caller to host: calls of this connection that have not begun may be answered with kCancelled.
};

inline constexpr uint16_t kWireVersion = 3;
inline constexpr size_t kFrameHeaderBytes = 16;
inline constexpr size_t kCallHeaderBytes = 48;
inline constexpr size_t kGoodbyeBytesMax = 1024;

// Limits that a host announces: number of unanswered calls, and their size, headers included.
struct Window {
  uint32_t calls = 0;
  uint64_t bytes = 0;
  bool operator==(const Window&) const = default;
};

// First frame of each direction.
struct Hello {
  Window window;
  CallerId caller;  // Nil from a host.
};

// One decoded frame; the kind determines which fields are set.
struct Frame {
  FrameKind kind{};
  uint64_t request_id = 0;
  CallRequest call;       // kCall, body included.
  std::string body;       // kReply; kGoodbye: the reason.
  size_t in_room = 0;     // kReply: bytes before `body`, which were written to the room from FrameDecoder::Rooms.
  Error error;            // kError.
  Hello hello;            // kHello.
  Window window;          // kCredit.
  size_t wire_bytes = 0;  // Size of the whole frame.
};

// Truncates an error message to kErrorMessageBytesMax.
std::string_view sent_part(std::string_view message);

// Returns the size of a call in a window.
inline size_t call_bytes(const CallRequest& request) {
  return kFrameHeaderBytes + kCallHeaderBytes + request.body.size();
}

// Each appends a whole frame, or only the header if the body is sent separately.
void put_hello(std::string& out, const Hello& hello);
void put_call_header(std::string& out, const CallRequest& request);  // The body follows.
void put_reply_header(std::string& out, uint64_t request_id, size_t body_bytes);
void put_error(std::string& out, uint64_t request_id, const Error& error);  // Truncates the message.
void put_credit(std::string& out, const Window& window);
void put_plain(std::string& out, FrameKind kind, uint64_t request_id = 0);  // kCancel, kPing, kPong, kGiveBack.
void put_goodbye(std::string& out, std::string_view reason);

// Incremental decoder for chunks of any size. Memory grows with the bytes received, not with the announced length: at
// most 8 MiB are reserved in advance, whose pages are not touched before their bytes arrive.
class FrameDecoder {
 public:
  // Returns memory for the first bytes of a reply; empty: store them in Frame::body. Called again for each chunk, so
  // that the owner can withdraw the memory: a different size than before discards the bytes.
  using Rooms = std::function<std::span<char>(uint64_t request_id, size_t payload_bytes)>;
  void set_rooms(Rooms rooms) { rooms_ = std::move(rooms); }
  // After next() returned false: where the next bytes must be written; count them with count_in_room(). Empty: use
  // feed().
  std::span<char> room_left();
  void count_in_room(size_t bytes) { room_done_ += bytes; }
  // The most recent frame, complete or not, has a room.
  bool has_room() const { return room_need_ > 0; }

  // The bytes must stay valid until next() returns false.
  void feed(std::string_view bytes) { input_ = bytes; }

  // true: `frame` is the next one. false: all bytes were consumed, more are needed. kInvalidArgument: protocol error;
  // the decoder is unusable.
  [[nodiscard]] Result<bool> next(Frame& frame);

  // Buffered bytes of an incomplete frame.
  size_t held() const { return header_.size() + body_.size(); }

 private:
  Result<void> begin();

  std::string_view input_;
  std::string header_;  // Frame header and, for a call, the call header.
  std::string body_;
  size_t header_need_ = kFrameHeaderBytes;
  size_t body_need_ = 0;
  Rooms rooms_;
  size_t room_need_ = 0;  // Payload bytes that go to the room.
  size_t room_done_ = 0;
  bool room_lost_ = false;  // The room was withdrawn.
  bool begun_ = false;      // The frame header was read: the lengths are known.
  bool hello_seen_ = false;
};

// kInvalidArgument with the peer's protocol violation.
tl::unexpected<Error> refuse_frame(std::string why);

}  // namespace volador::net
