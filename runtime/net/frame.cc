#include "runtime/net/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/quantities.h"

namespace volador::net {
namespace {

constexpr size_t kReserveBytesMax = size_t{8} << 20;  // Reserved on the announced length; more only as bytes arrive.

static_assert(std::endian::native == std::endian::little, "the wire form is written by memcpy");

constexpr uint32_t kHelloMagic = 0x52444c56;  // "VLDR" in memory.
constexpr size_t kHelloBytes = 40;
constexpr size_t kHelloBytesMax = 256;  // Later versions may append fields.
constexpr size_t kCreditBytes = 16;
constexpr size_t kErrorHeaderBytes = 4;
constexpr uint8_t kKeepAnswer = 1;  // Flag of a call.

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T take(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void put_header(std::string& out, FrameKind kind, uint64_t request_id, size_t payload, uint8_t flags = 0) {
  char header[kFrameHeaderBytes] = {};
  const auto length = static_cast<uint32_t>(payload);
  std::memcpy(header, &length, 4);
  header[4] = static_cast<char>(kind);
  header[5] = static_cast<char>(flags);
  std::memcpy(header + 8, &request_id, 8);
  out.append(header, sizeof header);
}

struct Range {
  size_t min = 0;
  size_t max = 0;
};

// Valid payload lengths of a frame kind; {1, 0} for an unknown kind.
Range payload_range(uint8_t kind) {
  switch (static_cast<FrameKind>(kind)) {
    case FrameKind::kHello:
      return {kHelloBytes, kHelloBytesMax};
    case FrameKind::kCall:
      return {kCallHeaderBytes, kFrameBytesMax - kFrameHeaderBytes};
    case FrameKind::kReply:
      return {0, kFrameBytesMax - kFrameHeaderBytes};
    case FrameKind::kError:
      return {kErrorHeaderBytes, kErrorHeaderBytes + kErrorMessageBytesMax};
    case FrameKind::kCredit:
      return {kCreditBytes, kCreditBytes};
    case FrameKind::kGoodbye:
      return {0, kGoodbyeBytesMax};
    case FrameKind::kCancel:
    case FrameKind::kPing:
    case FrameKind::kPong:
    case FrameKind::kGiveBack:
      return {0, 0};
  }
  return {1, 0};
}

Result<void> check_window(const Window& window) {
  if (window.calls == 0 || window.bytes == 0) return refuse_frame("a window of nothing was announced");
  return {};
}

Result<void> read_hello(std::string_view payload, Hello& hello) {
  const auto magic = take<uint32_t>(payload.data());
  const auto version = take<uint16_t>(payload.data() + 4);
  if (magic != kHelloMagic) return refuse_frame("the peer's hello has another magic: it is no Volador process");
  if (version != kWireVersion) {
    return refuse_frame(
        fmt::format("the peer speaks version {} of the wire form, this process version {}: run the same "
                    "version of Volador on all machines",
                    version, kWireVersion));
  }
  hello.window.calls = take<uint32_t>(payload.data() + 8);
  hello.window.bytes = take<uint64_t>(payload.data() + 16);
  hello.caller = id_from_raw<CallerId>(payload.substr(24, 16));
  return check_window(hello.window);
}

}  // namespace

tl::unexpected<Error> refuse_frame(std::string why) {
  return make_error(ErrorCode::kInvalidArgument, "call channel: " + std::move(why));
}

void put_hello(std::string& out, const Hello& hello) {
  put_header(out, FrameKind::kHello, 0, kHelloBytes);
  put(out, kHelloMagic);
  put(out, kWireVersion);
  put(out, uint16_t{0});
  put(out, hello.window.calls);
  put(out, uint32_t{0});
  put(out, hello.window.bytes);
  out += raw(hello.caller);
}

void put_call_header(std::string& out, const CallRequest& request) {
  put_header(out, FrameKind::kCall, request.request_id, kCallHeaderBytes + request.body.size(),
             request.keep_answer ? kKeepAnswer : 0);
  char fields[kCallHeaderBytes];
  const uint64_t timeout = request.timeout.count() > 0 ? static_cast<uint64_t>(request.timeout.count()) : 0;
  std::memcpy(fields, request.actor.bytes().data(), 16);
  std::memcpy(fields + 16, &request.epoch, 8);
  std::memcpy(fields + 24, &request.method, 8);
  std::memcpy(fields + 32, &timeout, 8);
  std::memcpy(fields + 40, &request.acknowledged, 8);
  out.append(fields, sizeof fields);
}

void put_reply_header(std::string& out, uint64_t request_id, size_t body_bytes) {
  put_header(out, FrameKind::kReply, request_id, body_bytes);
}

std::string_view sent_part(std::string_view message) {
  if (message.size() <= kErrorMessageBytesMax) return message;
  size_t end = kErrorMessageBytesMax;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xc0) == 0x80)
    --end;  // Do not cut inside a UTF-8 character.
  return message.substr(0, end);
}

void put_error(std::string& out, uint64_t request_id, const Error& error) {
  const std::string_view message = sent_part(error.message);
  put_header(out, FrameKind::kError, request_id, kErrorHeaderBytes + message.size());
  put(out, static_cast<uint32_t>(error.code));
  out += message;
}

void put_credit(std::string& out, const Window& window) {
  put_header(out, FrameKind::kCredit, 0, kCreditBytes);
  put(out, window.calls);
  put(out, uint32_t{0});
  put(out, window.bytes);
}

void put_plain(std::string& out, FrameKind kind, uint64_t request_id) { put_header(out, kind, request_id, 0); }

void put_goodbye(std::string& out, std::string_view reason) {
  reason = reason.substr(0, kGoodbyeBytesMax);
  put_header(out, FrameKind::kGoodbye, 0, reason.size());
  out += reason;
}

// The frame header is complete: validates it and sets the lengths.
Result<void> FrameDecoder::begin() {
  const auto length = take<uint32_t>(header_.data());
  const auto kind = take<uint8_t>(header_.data() + 4);
  const auto flags = take<uint8_t>(header_.data() + 5);
  const auto reserved = take<uint16_t>(header_.data() + 6);
  const bool is_hello = kind == static_cast<uint8_t>(FrameKind::kHello);
  if (is_hello == hello_seen_) {
    return refuse_frame(hello_seen_ ? "a second hello" : "the first frame is no hello: the peer is no Volador process");
  }
  const Range range = payload_range(kind);
  if (range.min > range.max) return refuse_frame(fmt::format("a frame of unknown kind {}", kind));
  if (length < range.min || length > range.max) {
    return refuse_frame(fmt::format("a frame of kind {} with {} (allowed: {} to {})", kind, counted(length, "byte"),
                                    range.min, range.max));
  }
  const bool is_call = kind == static_cast<uint8_t>(FrameKind::kCall);
  if ((flags & ~(is_call ? kKeepAnswer : 0)) != 0 || reserved != 0)
    return refuse_frame(fmt::format("a frame of kind {} with unknown flags", kind));
  header_need_ = kFrameHeaderBytes + (is_call ? kCallHeaderBytes : 0);
  body_need_ = length - (is_call ? kCallHeaderBytes : 0);
  room_need_ = room_done_ = 0;
  room_lost_ = false;
  if (kind == static_cast<uint8_t>(FrameKind::kReply) && length >= kRoomBytesMin && rooms_) {
    const size_t room = rooms_(take<uint64_t>(header_.data() + 8), length).size();
    if (room <= length) room_need_ = room;
    body_need_ -= room_need_;
  }
  body_.reserve(std::min(body_need_, kReserveBytesMax));
  begun_ = true;
  return {};
}

std::span<char> FrameDecoder::room_left() {
  if (room_done_ == room_need_ || room_lost_) return {};
  const std::span<char> room = rooms_(take<uint64_t>(header_.data() + 8), room_need_ + body_need_);
  room_lost_ = room.size() != room_need_;
  return room_lost_ ? std::span<char>() : room.subspan(room_done_);
}

Result<bool> FrameDecoder::next(Frame& frame) {
  const auto fill = [this](std::string& to, size_t need) {
    const size_t n = std::min(need - to.size(), input_.size());
    to.append(input_.substr(0, n));
    input_.remove_prefix(n);
    return to.size() == need;
  };
  if (!begun_) {
    if (!fill(header_, kFrameHeaderBytes)) return false;
    VOLADOR_TRY(begin());
  }
  if (!fill(header_, header_need_)) return false;
  if (room_done_ < room_need_) {
    const std::span<char> room = room_left();
    const size_t n = std::min(room_need_ - room_done_, input_.size());
    if (!room.empty() && n > 0) std::memcpy(room.data(), input_.data(), n);
    input_.remove_prefix(n);
    room_done_ += n;
    if (room_done_ < room_need_) return false;
  }
  if (!fill(body_, body_need_)) return false;

  const char* at = header_.data();
  frame.kind = static_cast<FrameKind>(take<uint8_t>(at + 4));
  frame.request_id = take<uint64_t>(at + 8);
  frame.wire_bytes = header_.size() + room_need_ + body_.size();
  switch (frame.kind) {
    case FrameKind::kHello:
      VOLADOR_TRY(read_hello(body_, frame.hello));
      hello_seen_ = true;
      break;
    case FrameKind::kCall: {
      at += kFrameHeaderBytes;
      const auto timeout = take<uint64_t>(at + 32);
      if (timeout > static_cast<uint64_t>(INT64_MAX)) return refuse_frame("a call with a timeout above 292 years");
      frame.call.request_id = frame.request_id;
      frame.call.actor = id_from_raw<ActorId>(std::string_view(at, 16));
      frame.call.epoch = take<uint64_t>(at + 16);
      frame.call.method = take<uint64_t>(at + 24);
      frame.call.timeout = std::chrono::nanoseconds(static_cast<int64_t>(timeout));
      frame.call.acknowledged = take<uint64_t>(at + 40);
      frame.call.keep_answer = (take<uint8_t>(header_.data() + 5) & kKeepAnswer) != 0;
      frame.call.body = std::move(body_);
      break;
    }
    case FrameKind::kError:
      frame.error.code = error_code_from(int64_t{take<uint32_t>(body_.data())});
      frame.error.message = body_.substr(kErrorHeaderBytes);
      break;
    case FrameKind::kCredit:
      frame.window = {take<uint32_t>(body_.data()), take<uint64_t>(body_.data() + 8)};
      VOLADOR_TRY(check_window(frame.window));
      break;
    case FrameKind::kReply:
      frame.in_room = room_lost_ ? 0 : room_need_;
      frame.body = std::move(body_);
      break;
    case FrameKind::kGoodbye:
      frame.body = std::move(body_);
      break;
    case FrameKind::kCancel:
    case FrameKind::kPing:
    case FrameKind::kPong:
    case FrameKind::kGiveBack:
      break;
  }
  header_.clear();
  body_.clear();
  header_need_ = kFrameHeaderBytes;
  body_need_ = 0;
  begun_ = false;
  return true;
}

}  // namespace volador::net
