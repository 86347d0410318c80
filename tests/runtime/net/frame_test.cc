#include "runtime/net/frame.h"

#include <gtest/gtest.h>

#include <vector>

namespace volador::net {
namespace {

std::string hello_bytes() {
  std::string bytes;
  put_hello(bytes, {.window = {.calls = 64, .bytes = 1024}, .caller = CallerId({7})});
  return bytes;
}

std::string every_kind() {
  std::string bytes = hello_bytes();
  const CallRequest request{.request_id = 11,
                            .actor = ActorId({1, 2, 3}),
                            .epoch = 4,
                            .method = 5,
                            .timeout = std::chrono::milliseconds(6),
                            .keep_answer = true,
                            .acknowledged = 5,
                            .body = "arguments"};
  put_call_header(bytes, request);
  bytes += request.body;
  put_reply_header(bytes, 12, 6);
  bytes += "result";
  put_error(bytes, 13, {ErrorCode::kApplication, "std::runtime_error: no"});
  put_plain(bytes, FrameKind::kCancel, 14);
  put_credit(bytes, {.calls = 1000, .bytes = 1 << 20});
  put_plain(bytes, FrameKind::kPing, 15);
  put_plain(bytes, FrameKind::kPong, 16);
  put_goodbye(bytes, "the end");
  put_plain(bytes, FrameKind::kGiveBack);
  return bytes;
}

Result<std::vector<Frame>> decode(std::string_view bytes, size_t piece) {
  FrameDecoder decoder;
  std::vector<Frame> frames;
  while (!bytes.empty()) {
    const size_t n = std::min(piece, bytes.size());
    const std::string copy(bytes.substr(0, n));  // Invalid afterwards, like a read buffer.
    bytes.remove_prefix(n);
    decoder.feed(copy);
    while (true) {
      Frame frame;
      const auto got = decoder.next(frame);
      if (!got) return make_error(got.error());
      if (!*got) break;
      frames.push_back(std::move(frame));
    }
  }
  return frames;
}

ErrorCode refusal(const std::string& bytes) {
  const auto frames = decode(bytes, bytes.size());
  return frames ? ErrorCode{} : frames.error().code;
}

// A hand-made frame header.
std::string header(uint32_t length, uint8_t kind, uint8_t flags = 0) {
  std::string bytes(kFrameHeaderBytes, '\0');
  for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  bytes[4] = static_cast<char>(kind);
  bytes[5] = static_cast<char>(flags);
  return bytes;
}

TEST(FrameDecoder, FramesComeOutAsTheyWentInWhateverThePieces) {
  const std::string bytes = every_kind();
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    const auto frames = decode(bytes, piece);
    ASSERT_TRUE(frames.has_value()) << frames.error().message;
    ASSERT_EQ(frames->size(), 10U);
    EXPECT_EQ(frames->at(0).hello.window, (Window{64, 1024}));
    EXPECT_EQ(frames->at(0).hello.caller, CallerId({7}));
    const CallRequest& call = frames->at(1).call;
    EXPECT_EQ(call.request_id, 11U);
    EXPECT_EQ(call.actor, ActorId({1, 2, 3}));
    EXPECT_EQ(call.epoch, 4U);
    EXPECT_EQ(call.method, 5U);
    EXPECT_EQ(call.timeout, std::chrono::milliseconds(6));
    EXPECT_TRUE(call.keep_answer);
    EXPECT_EQ(call.acknowledged, 5u);
    EXPECT_EQ(call.body, "arguments");
    EXPECT_EQ(frames->at(1).wire_bytes, call_bytes(call));
    EXPECT_EQ(frames->at(2).request_id, 12U);
    EXPECT_EQ(frames->at(2).body, "result");
    EXPECT_EQ(frames->at(3).error, (Error{ErrorCode::kApplication, "std::runtime_error: no"}));
    EXPECT_EQ(frames->at(4).kind, FrameKind::kCancel);
    EXPECT_EQ(frames->at(5).window, (Window{1000, 1 << 20}));
    EXPECT_EQ(frames->at(8).body, "the end");
    EXPECT_EQ(frames->at(9).kind, FrameKind::kGiveBack);
  }
}

// A large reply and a small one.
std::string two_replies(const std::string& large) {
  std::string bytes = hello_bytes();
  put_reply_header(bytes, 1, large.size());
  bytes += large;
  put_reply_header(bytes, 2, 3);
  return bytes + "end";
}

std::string letters(size_t count) {
  std::string text(count, 'a');
  for (size_t i = 0; i < count; i += 7) text[i] = static_cast<char>('a' + i % 26);
  return text;
}

TEST(FrameDecoder, TheFirstBytesOfALargeReplyGoWhereThereIsRoomForThem) {
  const std::string large = letters(kRoomBytesMin + 20);
  const std::string bytes = two_replies(large);
  for (const size_t room : {size_t{1}, kRoomBytesMin + 16, large.size(), large.size() + 1}) {
    const bool fits = room <= large.size();
    for (const size_t piece : {size_t{1}, size_t{1000}, bytes.size()}) {
      for (const bool straight : {false, true}) {  // Like a stream reader, which writes to room_left().
        std::string memory(room, '.');
        FrameDecoder decoder;
        decoder.set_rooms([&](uint64_t request, size_t payload) {
          EXPECT_EQ(request, 1u) << "a small reply needs none";
          EXPECT_EQ(payload, large.size());
          return std::span<char>(memory);
        });
        std::vector<Frame> frames;
        std::string_view rest = bytes;
        while (!rest.empty()) {
          const std::span<char> to = straight ? decoder.room_left() : std::span<char>();
          const std::string copy(rest.substr(0, to.empty() ? piece : std::min(piece, to.size())));
          rest.remove_prefix(copy.size());
          decoder.feed({});
          if (to.empty()) {
            decoder.feed(copy);
          } else {
            std::copy(copy.begin(), copy.end(), to.begin());
            decoder.count_in_room(copy.size());
          }
          for (Frame frame; *decoder.next(frame);) frames.push_back(std::move(frame));
        }
        ASSERT_EQ(frames.size(), 3u);
        EXPECT_EQ(frames[1].in_room, fits ? room : 0);
        EXPECT_EQ(frames[1].body, fits ? large.substr(room) : large);
        if (fits) {
          EXPECT_EQ(memory, large.substr(0, room));
        }
        EXPECT_EQ(frames[1].wire_bytes, kFrameHeaderBytes + large.size());
        EXPECT_EQ(frames[2].body, "end");
      }
    }
  }
}

TEST(FrameDecoder, ARoomThatIsTakenBackGetsNothingMore) {
  const std::string large = letters(kRoomBytesMin);
  const std::string bytes = two_replies(large);
  std::string memory(kRoomBytesMin - 4, '.');
  bool taken_back = false;
  FrameDecoder decoder;
  decoder.set_rooms([&](uint64_t, size_t) { return taken_back ? std::span<char>() : std::span<char>(memory); });
  const size_t first = bytes.size() - 40'000;
  Frame frame;
  decoder.feed(std::string_view(bytes).substr(0, first));
  ASSERT_TRUE(*decoder.next(frame));
  ASSERT_FALSE(*decoder.next(frame));
  taken_back = true;
  const std::string before = memory;
  EXPECT_TRUE(decoder.room_left().empty());
  decoder.feed(std::string_view(bytes).substr(first));
  ASSERT_TRUE(*decoder.next(frame));
  EXPECT_EQ(frame.in_room, 0u);
  EXPECT_EQ(frame.body, large.substr(memory.size()));
  EXPECT_EQ(memory, before);
  ASSERT_TRUE(*decoder.next(frame));
  EXPECT_EQ(frame.body, "end");
}

TEST(FrameDecoder, WithoutAHelloFirstThePeerIsRefused) {
  std::string call;
  put_call_header(call, {.request_id = 1});
  EXPECT_EQ(refusal(call), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(hello_bytes() + hello_bytes()), ErrorCode::kInvalidArgument);
}

TEST(FrameDecoder, AnotherMagicVersionOrAnEmptyWindowIsRefused) {
  std::string bytes = hello_bytes();
  bytes[kFrameHeaderBytes] = 'X';
  EXPECT_EQ(refusal(bytes), ErrorCode::kInvalidArgument);
  bytes = hello_bytes();
  bytes[kFrameHeaderBytes + 4] = 9;
  const auto frames = decode(bytes, bytes.size());
  ASSERT_FALSE(frames.has_value());
  EXPECT_NE(frames.error().message.find("version 9"), std::string::npos) << frames.error().message;
  bytes.clear();
  put_hello(bytes, {});
  EXPECT_EQ(refusal(bytes), ErrorCode::kInvalidArgument);
}

TEST(FrameDecoder, LengthsKindsAndFlagsOutOfRangeAreRefusedFromTheHeaderAlone) {
  const std::string hello = hello_bytes();
  EXPECT_EQ(refusal(hello + header(0, 0)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(hello + header(0, 11)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(hello + header(0xffffffff, 3)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(hello + header(static_cast<uint32_t>(kFrameBytesMax), 2)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(hello + header(39, 2)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(hello + header(3, 4)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(hello + header(kErrorMessageBytesMax + 5, 4)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(hello + header(1, 5)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(hello + header(0, 7, 1)), ErrorCode::kInvalidArgument);
}

TEST(FrameDecoder, AnAnnouncedLengthTakesNoMemoryBeforeItsBytesCome) {
  FrameDecoder decoder;
  Frame frame;
  const std::string bytes =
      hello_bytes() + header(static_cast<uint32_t>(kFrameBytesMax - kFrameHeaderBytes), 3) + "abc";
  decoder.feed(bytes);
  ASSERT_TRUE(*decoder.next(frame));
  ASSERT_FALSE(*decoder.next(frame));
  EXPECT_EQ(decoder.held(), kFrameHeaderBytes + 3);
}

TEST(FrameEncoder, LongErrorMessagesAreCutBetweenCharacters) {
  std::string bytes = hello_bytes();
  std::string message(kErrorMessageBytesMax - 1, 'x');
  message += "\u00e9\u00e9";
  put_error(bytes, 1, {ErrorCode::kApplication, message});
  const auto frames = decode(bytes, bytes.size());
  ASSERT_TRUE(frames.has_value());
  EXPECT_EQ(frames->at(1).error.message, std::string(kErrorMessageBytesMax - 1, 'x'));
}

}  // namespace
}  // namespace volador::net
