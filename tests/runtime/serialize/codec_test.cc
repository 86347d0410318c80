#include "runtime/serialize/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <msgpack.hpp>

#include "runtime/random.h"

namespace volador {
namespace {

struct Point {
  int x = 0;
  double y = 0;
  std::optional<std::string> label;
  bool operator==(const Point&) const = default;
};
VOLADOR_FIELDS(Point, x, y, label);

struct WiderPoint {
  int x = 0;
  double y = 0;
  std::optional<std::string> label;
  std::vector<int> extra{7};
};
VOLADOR_FIELDS(WiderPoint, x, y, label, extra);

struct Hand {
  int value = 0;
};
[[maybe_unused]] void volador_encode(Encoder& encoder, const Hand& hand) { encoder.integer(hand.value); }
[[maybe_unused]] void volador_decode(Decoder& decoder, Hand& hand) { hand.value = static_cast<int>(decoder.integer()); }

struct Stuck {};

static_assert(Serializable<Point> && Serializable<Hand> && Serializable<std::map<std::string, std::vector<Point>>>);
static_assert(!Serializable<Stuck> && !Serializable<std::vector<Stuck>> && !Serializable<int*>);

template <class T>
void expect_round_trip(const T& value) {
  const std::string bytes = to_bytes(value);
  const auto back = from_bytes<T>(bytes);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, value);
  // Verified by an independent reader: one well-formed value.
  size_t offset = 0;
  EXPECT_NO_THROW(msgpack::unpack(bytes.data(), bytes.size(), offset));
  EXPECT_EQ(offset, bytes.size());
}

TEST(Codec, ValuesComeBackAsTheyWent) {
  for (const int64_t value : {int64_t{0}, int64_t{-1}, int64_t{-32}, int64_t{-33}, int64_t{127}, int64_t{128},
                              int64_t{-129}, int64_t{65536}, int64_t{-32769}, INT64_MAX, INT64_MIN}) {
    expect_round_trip(value);
  }
  expect_round_trip(UINT64_MAX);
  expect_round_trip(std::string(70000, 'x'));
  expect_round_trip(std::vector<uint8_t>{0, 1, 255});
  expect_round_trip(std::map<std::string, double>{{"a", 1.5}, {"b", -0.25}});
  expect_round_trip(std::tuple<int, std::string, bool>{3, "three", true});
  expect_round_trip(std::vector<bool>{true, false});
  expect_round_trip(Point{1, 2.5, "here"});
  expect_round_trip(std::optional<Point>{});
  expect_round_trip(std::array<float, 3>{1.5F, -2.0F, 0.0F});
  expect_round_trip(std::chrono::milliseconds(1500));
  SeededRandom random(1);
  expect_round_trip(new_id<ActorId>(random));
}

enum class Color : int16_t { kRed = -3, kBlue = 7 };

template <class T>
std::vector<T> counting(size_t size) {
  std::vector<T> values(size);
  for (size_t i = 0; i < size; ++i)
    values[i] = static_cast<T>(static_cast<int>(i % 100) - (std::is_signed_v<T> ? 50 : 0));
  return values;
}

TEST(Codec, RowsOfNumbersTravelAsBlocks) {
  for (const size_t size : {size_t{0}, NumberBlock::kNumbersMin - 1, NumberBlock::kNumbersMin, size_t{70'001}}) {
    expect_round_trip(counting<int8_t>(size));
    expect_round_trip(counting<uint16_t>(size));
    expect_round_trip(counting<int32_t>(size));
    expect_round_trip(counting<int64_t>(size));
    expect_round_trip(counting<uint64_t>(size));
    expect_round_trip(counting<float>(size));
    expect_round_trip(counting<double>(size));
    expect_round_trip(std::vector<Color>(size, Color::kRed));
    expect_round_trip(std::vector<std::array<float, 3>>(size, {1.5F, -0.0F, 2.0F}));
  }
  expect_round_trip(std::array<std::array<double, 32>, 4>{{{1.5}, {-2.5}}});
  expect_round_trip(std::map<std::string, std::vector<float>>{{"a", counting<float>(1000)}, {"b", {}}});
  // A block consists of a header and the raw bytes of the numbers.
  EXPECT_LT(to_bytes(counting<float>(100'000)).size(), 100'000 * sizeof(float) + 16);
}

TEST(Codec, RowsOfNumbersThatWereWrittenElementByElementAreRead) {
  Encoder encoder;
  encoder.array(2);
  encoder.unsigned_integer(kEnvelopeVersion);
  encoder.array(1000);
  for (int i = 0; i < 1000; ++i) encoder.integer(i - 500);
  const auto values = from_bytes<std::vector<int32_t>>(encoder.bytes());
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(values->at(999), 499);
}

TEST(Codec, ABlockIsReadAsAnotherTypeThatHoldsItsNumbers) {
  const auto expected = counting<int64_t>(200);
  EXPECT_EQ(from_bytes<std::vector<int64_t>>(to_bytes(counting<int8_t>(200))), expected);
  EXPECT_EQ(from_bytes<std::vector<double>>(to_bytes(counting<float>(200)))->at(3), -47.0);
  EXPECT_EQ(from_bytes<std::vector<double>>(to_bytes(counting<int16_t>(200)))->at(3), -47.0);
  EXPECT_EQ(from_bytes<std::vector<int8_t>>(to_bytes(expected)), counting<int8_t>(200));
  EXPECT_EQ(from_bytes<std::vector<uint64_t>>(to_bytes(counting<uint16_t>(200)))->at(99), 99U);
  EXPECT_FALSE(from_bytes<std::vector<uint64_t>>(to_bytes(expected))) << "negative numbers";
  EXPECT_FALSE(from_bytes<std::vector<int8_t>>(to_bytes(std::vector<int64_t>(200, 128))));
  EXPECT_FALSE(from_bytes<std::vector<int64_t>>(to_bytes(std::vector<uint64_t>(200, UINT64_MAX))));
  EXPECT_FALSE(from_bytes<std::vector<int>>(to_bytes(counting<float>(200)))) << "a real number is no integer";
  EXPECT_FALSE((from_bytes<std::vector<std::array<int, 3>>>(to_bytes(counting<int>(200)))))
      << "200 numbers are no rows of three";
  EXPECT_FALSE((from_bytes<std::array<int, 64>>(to_bytes(counting<int>(65)))));
}

TEST(Codec, ABlockOfAnUnknownTypeIsAnError) {
  for (const int type : {0x00, 0x13, 0x58, 0x31, 0x32, 0x48, 0xff}) {
    Encoder encoder;
    encoder.array(2);
    encoder.unsigned_integer(kEnvelopeVersion);
    encoder.extension(NumberBlock::kWireType, std::string(1, static_cast<char>(type)) + std::string(800, 'x'));
    EXPECT_FALSE(from_bytes<std::vector<double>>(encoder.bytes())) << type;
  }
  for (const size_t size : {0U, 1U, 8U}) {  // No type, no number, partial number.
    Encoder encoder;
    encoder.array(2);
    encoder.unsigned_integer(kEnvelopeVersion);
    encoder.extension(NumberBlock::kWireType, std::string(size, '\x38'));
    const auto values = from_bytes<std::vector<double>>(encoder.bytes());
    EXPECT_EQ(values.has_value(), size == 1) << size;
  }
  std::string bytes = to_bytes(counting<double>(100));
  EXPECT_FALSE(from_bytes<std::vector<double>>(std::string_view(bytes).substr(0, bytes.size() - 1)));
}

TEST(Codec, FloatingPointTravelsExactly) {
  for (const double value :
       {0.1, 1e308, 5e-324, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()})
    expect_round_trip(value);
  EXPECT_TRUE(std::isnan(*from_bytes<double>(to_bytes(std::nan("")))));
  EXPECT_TRUE(std::signbit(*from_bytes<double>(to_bytes(-0.0))));
}

TEST(Codec, MembersCanBeAddedAtTheEnd) {
  const auto wider = from_bytes<WiderPoint>(to_bytes(Point{4, 5, "old"}));
  ASSERT_TRUE(wider);
  EXPECT_EQ(wider->x, 4);
  EXPECT_EQ(wider->extra, std::vector<int>{7});
  const auto narrower = from_bytes<Point>(to_bytes(WiderPoint{4, 5, "new", {1, 2}}));
  ASSERT_TRUE(narrower);
  EXPECT_EQ(*narrower, (Point{4, 5, "new"}));
}

TEST(Codec, AWrongTypeSaysWhatWasExpectedAndWhere) {
  const auto result = from_bytes<int>(to_bytes(std::string("seven")));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(result.error().message.find("expected an integer at byte"), std::string::npos) << result.error().message;
  EXPECT_FALSE(from_bytes<int8_t>(to_bytes(300)));
  EXPECT_FALSE(from_bytes<uint32_t>(to_bytes(-1)));
}

TEST(Codec, AnEnvelopeSaysWhetherItCarriesReferences) {
  std::string envelope = to_bytes(7);
  EXPECT_FALSE(codec::carries_references(envelope));
  codec::mark_references(envelope);
  EXPECT_TRUE(codec::carries_references(envelope));
  EXPECT_EQ(from_bytes<int>(envelope), 7);
  EXPECT_FALSE(codec::carries_references(""));
}

TEST(Codec, ExtensionsOfEverySizeAreReadByTheirType) {
  for (const size_t size : {0U, 1U, 16U, 255U, 256U, 70'000U}) {
    Encoder encoder;
    encoder.extension(0x56, std::string(size, 'x'));
    encoder.integer(1);
    Decoder decoder(encoder.bytes());
    EXPECT_FALSE(decoder.at_extension(0x57));
    ASSERT_TRUE(decoder.at_extension(0x56)) << size;
    EXPECT_EQ(decoder.extension(0x56).size(), size);
    EXPECT_EQ(decoder.integer(), 1);
    EXPECT_TRUE(decoder.at_end());
    for (size_t cut = 0; cut < std::min<size_t>(size + 2, 20); ++cut) {
      Decoder truncated(std::string_view(encoder.bytes()).substr(0, cut));
      (void)truncated.extension(0x56);
      EXPECT_TRUE(truncated.failed()) << size << " " << cut;
    }
  }
}

TEST(Codec, ANewerEnvelopeIsRefusedByName) {
  Encoder encoder;
  encoder.array(2);
  encoder.unsigned_integer(kEnvelopeVersionWithReferences + 1);
  encoder.integer(5);
  const auto result = from_bytes<int>(encoder.bytes());
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("version 2 or older"), std::string::npos);
}

TEST(Codec, EveryTruncationIsAnError) {
  const std::string bytes = to_bytes(
      std::map<std::string, std::vector<Point>>{{"k", {{1, 2, "a"}, {3, 4, std::nullopt}}}}, std::string("tail"));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE((tuple_from_bytes<std::map<std::string, std::vector<Point>>, std::string>(
        std::string_view(bytes).substr(0, size))))
        << size;
  }
}

TEST(Codec, AClaimOfManyElementsCostsNoMemory) {
  const std::string hostile("\x92\x01\xdd\xff\xff\xff\xff", 7);  // [1, array of 4 G elements
  EXPECT_FALSE(from_bytes<std::vector<int>>(hostile));
  const std::string hostile_map("\x92\x01\xdf\xff\xff\xff\xff", 7);
  EXPECT_FALSE((from_bytes<std::map<int, int>>(hostile_map)));
  const std::string hostile_text("\x92\x01\xdb\xff\xff\xff\xff", 7);
  EXPECT_FALSE(from_bytes<std::string>(hostile_text));
}

struct Tree {
  std::vector<Tree> children;
};
void volador_encode(Encoder& encoder, const Tree& tree) { encode(encoder, tree.children); }
void volador_decode(Decoder& decoder, Tree& tree) { decode(decoder, tree.children); }

TEST(Codec, DeepNestingIsAnErrorNotACrash) {
  std::string deep("\x92\x01", 2);
  deep.append(200'000, '\x91');
  EXPECT_FALSE(from_bytes<Tree>(deep));
  Decoder decoder(std::string_view(deep).substr(2));
  decoder.skip();
  EXPECT_TRUE(decoder.failed());
}

TEST(Codec, RandomBytesNeverCrash) {
  SeededRandom random(20261121);
  const std::string good = to_bytes(std::map<std::string, std::vector<Point>>{{"key", {{1, 2, "a"}}}});
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    for (uint64_t flips = 1 + random.below(4); flips > 0; --flips)
      bytes[random.below(bytes.size())] = static_cast<char>(random.next());
    if (const auto value = from_bytes<std::map<std::string, std::vector<Point>>>(bytes)) {
      EXPECT_LE(value->size(), bytes.size());
    }
    Decoder decoder(bytes);
    while (!decoder.failed() && !decoder.at_end()) decoder.skip();
  }
}

TEST(Codec, ReadsWhatAnotherLibraryWrites) {
  msgpack::sbuffer buffer;
  msgpack::packer<msgpack::sbuffer> packer(buffer);
  packer.pack_array(3);
  packer.pack(1);
  packer.pack(std::map<std::string, std::vector<double>>{{"loss", {1.5, 2.5}}});
  packer.pack(-7);
  const auto values =
      tuple_from_bytes<std::map<std::string, std::vector<double>>, int>(std::string_view(buffer.data(), buffer.size()));
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(std::get<0>(*values).at("loss").at(1), 2.5);
  EXPECT_EQ(std::get<1>(*values), -7);
}

}  // namespace
}  // namespace volador
