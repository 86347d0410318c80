// Frames of the call channel: any input, complete or in pieces, gives the same frames or the same rejection, uses no
// more memory than the bytes received, and does not crash the cores at both ends.
#include <algorithm>

#include "runtime/net/callee_core.h"
#include "runtime/net/caller_core.h"
#include "runtime/net/frame.h"
#include "tests/fuzz/driver.h"

namespace {

using namespace volador;
using namespace volador::net;

struct Decoded {
  std::vector<Frame> frames;
  std::string refusal;
};

Decoded decode(std::string_view bytes, size_t piece) {
  Decoded decoded;
  FrameDecoder decoder;
  while (!bytes.empty()) {
    const size_t n = std::min(piece, bytes.size());
    decoder.feed(bytes.substr(0, n));
    bytes.remove_prefix(n);
    while (true) {
      Frame frame;
      const auto got = decoder.next(frame);
      if (!got) {
        decoded.refusal = got.error().message;
        return decoded;
      }
      if (!*got) break;
      decoded.frames.push_back(std::move(frame));
    }
  }
  return decoded;
}

bool same(const Frame& a, const Frame& b) {
  return a.kind == b.kind && a.request_id == b.request_id && a.wire_bytes == b.wire_bytes &&
         (a.kind != FrameKind::kCall ||
          (a.call.body == b.call.body && a.call.actor == b.call.actor && a.call.timeout == b.call.timeout)) &&
         (a.kind != FrameKind::kReply || a.body == b.body) && (a.kind != FrameKind::kError || a.error == b.error);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Decoded whole = decode(bytes, std::max<size_t>(size, 1));
  const Decoded pieces = decode(bytes, 7);
  VOLADOR_CHECK(whole.frames.size() == pieces.frames.size() && whole.refusal == pieces.refusal,
                "pieces change the frames");
  for (size_t i = 0; i < whole.frames.size(); ++i)
    VOLADOR_CHECK(same(whole.frames[i], pieces.frames[i]), "a frame differs");

  FrameDecoder decoder;
  decoder.feed(bytes);
  Frame frame;
  for (auto got = decoder.next(frame); got && *got; got = decoder.next(frame)) {
  }
  VOLADOR_CHECK(decoder.held() <= size, "holds more than arrived");

  CalleeCore callee({.calls_max = 8, .bytes_max = 4096});
  for (const Frame& one : whole.frames) {
    const auto event = callee.on_frame(one);
    if (!event) break;
    if (event->call && one.request_id % 2 == 0) callee.on_reply(one.request_id, one.call.body);
  }
  CallerCore caller({}, {}, "fuzz");
  const BootTime now{std::chrono::seconds(1)};
  for (uint64_t id = 0; id < 4; ++id) {
    caller.on_call(now, {.request_id = id, .timeout = std::chrono::seconds(id), .body = "x"},
                   [](const Result<std::string>&) {});
  }
  for (const Frame& one : whole.frames) {
    if (!caller.on_frame(now, Frame(one))) break;
    caller.check_invariants();
  }
  caller.on_tick(now + std::chrono::seconds(2));
  caller.check_invariants();
  caller.on_lost("the end");
  return 0;
}

std::vector<std::string> volador::fuzz::seeds() {
  std::string hello;
  put_hello(hello, {.window = {.calls = 64, .bytes = 1 << 20}, .caller = CallerId({1})});
  std::string calls = hello;
  for (uint64_t id = 1; id < 4; ++id) {
    const CallRequest request{
        .request_id = id, .actor = ActorId({2}), .epoch = 3, .method = 4, .body = std::string(id * 10, 'b')};
    put_call_header(calls, request);
    calls += request.body;
    put_plain(calls, FrameKind::kCancel, id);
  }
  put_plain(calls, FrameKind::kGiveBack);
  std::string replies = hello;
  put_reply_header(replies, 1, 5);
  replies += "hello";
  put_error(replies, 2, {ErrorCode::kApplication, "std::runtime_error: no"});
  put_credit(replies, {.calls = 1000, .bytes = 1 << 24});
  put_plain(replies, FrameKind::kPing, 9);
  put_plain(replies, FrameKind::kPong, 9);
  put_goodbye(replies, "the host ends");
  return {hello, calls, replies, calls + replies.substr(hello.size())};
}
