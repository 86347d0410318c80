#include "runtime/serialize/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/quantities.h"

namespace volador {

// Tags of the msgpack specification (github.com/msgpack/msgpack/blob/master/spec.md).
namespace {
constexpr uint8_t kNil = 0xc0, kFalse = 0xc2, kTrue = 0xc3, kBin8 = 0xc4, kBin16 = 0xc5, kBin32 = 0xc6, kExt8 = 0xc7,
                  kExt16 = 0xc8, kExt32 = 0xc9, kFloat32 = 0xca, kFloat64 = 0xcb, kUint8 = 0xcc, kUint16 = 0xcd,
                  kUint32 = 0xce, kUint64 = 0xcf, kInt8 = 0xd0, kInt16 = 0xd1, kInt32 = 0xd2, kInt64 = 0xd3,
                  kFixExt1 = 0xd4, kFixExt16 = 0xd8, kStr8 = 0xd9, kStr16 = 0xda, kStr32 = 0xdb, kArray16 = 0xdc,
                  kArray32 = 0xdd, kMap16 = 0xde, kMap32 = 0xdf, kFixMap = 0x80, kFixArray = 0x90, kFixStr = 0xa0,
                  kNegative = 0xe0;

template <class T>
T big_endian_of(T value) {
  if constexpr (std::endian::native == std::endian::big || sizeof value == 1) return value;
  if constexpr (sizeof value == 2) return __builtin_bswap16(value);
  if constexpr (sizeof value == 4) return __builtin_bswap32(value);
  if constexpr (sizeof value == 8) return __builtin_bswap64(value);
}

// Reads one number at its full width, because a processor cannot forward a store to a wider load.
template <class T>
uint64_t read_big_endian(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return big_endian_of(value);
}
}  // namespace

// Appends the tag, then the value's low `bytes` bytes, big-endian, with one store (see read_big_endian).
inline void Encoder::tagged(uint8_t tag, uint64_t value, size_t bytes) {
  value = big_endian_of(value << (64 - 8 * bytes));
  char buffer[8];
  if (bytes == sizeof buffer || std::endian::native == std::endian::big) {
    out_ += static_cast<char>(tag);
    std::memcpy(buffer, &value, sizeof buffer);
    out_.append(buffer, bytes);
    return;
  }
  value = value << 8 | tag;
  std::memcpy(buffer, &value, sizeof buffer);
  out_.append(buffer, 1 + bytes);
}

void Encoder::nil() { out_ += static_cast<char>(kNil); }
void Encoder::boolean(bool value) { out_ += static_cast<char>(value ? kTrue : kFalse); }

void Encoder::integer(int64_t value) {
  if (value >= 0) return unsigned_integer(static_cast<uint64_t>(value));
  if (value >= -32) {
    out_ += static_cast<char>(value);
  } else if (value >= INT8_MIN) {
    tagged(kInt8, static_cast<uint64_t>(value), 1);
  } else if (value >= INT16_MIN) {
    tagged(kInt16, static_cast<uint64_t>(value), 2);
  } else if (value >= INT32_MIN) {
    tagged(kInt32, static_cast<uint64_t>(value), 4);
  } else {
    tagged(kInt64, static_cast<uint64_t>(value), 8);
  }
}

void Encoder::unsigned_integer(uint64_t value) {
  if (value < 0x80) {
    out_ += static_cast<char>(value);
  } else if (value <= UINT8_MAX) {
    tagged(kUint8, value, 1);
  } else if (value <= UINT16_MAX) {
    tagged(kUint16, value, 2);
  } else if (value <= UINT32_MAX) {
    tagged(kUint32, value, 4);
  } else {
    tagged(kUint64, value, 8);
  }
}

void Encoder::real(double value) { tagged(kFloat64, std::bit_cast<uint64_t>(value), 8); }
void Encoder::real(float value) { tagged(kFloat32, std::bit_cast<uint32_t>(value), 4); }

void Encoder::header(uint64_t value, uint8_t byte8, uint8_t byte16, uint8_t byte32) {
  VOLADOR_CHECK(value <= UINT32_MAX, "a msgpack string, array or map has at most 2^32 - 1 elements");
  if (byte8 != 0 && value <= UINT8_MAX) {
    tagged(byte8, value, 1);
  } else if (value <= UINT16_MAX) {
    tagged(byte16, value, 2);
  } else {
    tagged(byte32, value, 4);
  }
}

// Reserves some room behind a long value, so that a later append, such as the end of an envelope, does not move it.
void Encoder::raw(std::string_view value) {
  constexpr size_t kLong = 4096;
  constexpr size_t kRoom = 64;
  if (value.size() >= kLong) out_.reserve(out_.size() + value.size() + kRoom);
  out_.append(value);
}

void Encoder::text(std::string_view value) {
  if (value.size() < 32) {
    out_ += static_cast<char>(kFixStr | value.size());
  } else {
    header(value.size(), kStr8, kStr16, kStr32);
  }
  raw(value);
}

void Encoder::binary(std::string_view value) {
  header(value.size(), kBin8, kBin16, kBin32);
  raw(value);
}

void Encoder::array(size_t count) {
  if (count < 16) {
    out_ += static_cast<char>(kFixArray | count);
  } else {
    header(count, 0, kArray16, kArray32);
  }
}

void Encoder::map(size_t count) {
  if (count < 16) {
    out_ += static_cast<char>(kFixMap | count);
  } else {
    header(count, 0, kMap16, kMap32);
  }
}

void Encoder::extension(int8_t type, std::string_view value) {
  header(value.size(), kExt8, kExt16, kExt32);
  out_ += static_cast<char>(type);
  raw(value);
}

void Encoder::numbers(const NumberBlock& block) {
  header(block.data.size() + 1, kExt8, kExt16, kExt32);
  const char head[] = {static_cast<char>(NumberBlock::kWireType),
                       static_cast<char>(static_cast<size_t>(block.kind) | block.number_bytes)};
  out_.append(head, sizeof head);
  raw(block.data);
}

uint64_t NumberBlock::unsigned_at(size_t index) const {
  uint64_t value = 0;
  std::memcpy(&value, data.data() + index * number_bytes, number_bytes);
  return value;
}

int64_t NumberBlock::signed_at(size_t index) const {
  const int shift = 64 - 8 * static_cast<int>(number_bytes);
  return static_cast<int64_t>(unsigned_at(index) << shift) >> shift;
}

double NumberBlock::real_at(size_t index) const {
  const uint64_t bits = unsigned_at(index);
  return number_bytes == 4 ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)))
                           : std::bit_cast<double>(bits);
}

void Decoder::fail(Error error) {
  if (error_) return;
  error_ = std::move(error);
  rest_ = {};
}

void Decoder::fail(std::string_view expected) {
  if (error_) return;
  std::string found = "the end";
  if (!rest_.empty()) found = fmt::format("0x{:02x}", static_cast<uint8_t>(rest_.front()));
  error_ = Error{ErrorCode::kInvalidArgument,
                 fmt::format("message: expected {} at byte {}, found {}", expected, position_, found)};
  rest_ = {};
}

uint8_t Decoder::byte() {
  if (rest_.empty()) {
    fail("more bytes");
    return kNil;
  }
  const auto value = static_cast<uint8_t>(rest_.front());
  rest_.remove_prefix(1);
  ++position_;
  return value;
}

uint64_t Decoder::big_endian(int bytes) {
  if (rest_.size() < static_cast<size_t>(bytes)) {
    fail("more bytes");
    return 0;
  }
  const char* const from = rest_.data();
  const uint64_t value = bytes == 1   ? read_big_endian<uint8_t>(from)
                         : bytes == 2 ? read_big_endian<uint16_t>(from)
                         : bytes == 4 ? read_big_endian<uint32_t>(from)
                                      : read_big_endian<uint64_t>(from);
  rest_.remove_prefix(static_cast<size_t>(bytes));
  position_ += static_cast<size_t>(bytes);
  return value;
}

std::string_view Decoder::view(uint64_t size) {
  if (size > rest_.size()) {
    fail("more bytes");
    return {};
  }
  const std::string_view value = rest_.substr(0, size);
  rest_.remove_prefix(size);
  position_ += size;
  return value;
}

// An element takes at least a byte: rejects counts beyond the remaining bytes before allocating.
size_t Decoder::counted(uint64_t count, size_t bytes_each) {
  if (count > rest_.size() / bytes_each) {
    fail("no more elements than bytes");
    return 0;
  }
  return count;
}

bool Decoder::boolean() {
  if (rest_.empty() || (static_cast<uint8_t>(rest_.front()) & 0xfe) != kFalse) {
    fail("a bool");
    return false;
  }
  return byte() == kTrue;
}

bool Decoder::number(uint8_t tag, bool& negative, uint64_t& magnitude) {
  negative = false;
  if (tag < 0x80) {
    magnitude = tag;
    return true;
  }
  if (tag >= kNegative) {
    negative = true;
    magnitude = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int8_t>(tag)));
    return true;
  }
  const auto read_signed = [&](int bytes) {
    const uint64_t raw = big_endian(bytes);
    const int shift = 64 - 8 * bytes;
    const int64_t value = static_cast<int64_t>(raw << shift) >> shift;
    negative = value < 0;
    magnitude = static_cast<uint64_t>(value);
  };
  switch (tag) {
    case kUint8:
      magnitude = big_endian(1);
      return true;
    case kUint16:
      magnitude = big_endian(2);
      return true;
    case kUint32:
      magnitude = big_endian(4);
      return true;
    case kUint64:
      magnitude = big_endian(8);
      return true;
    case kInt8:
      read_signed(1);
      return true;
    case kInt16:
      read_signed(2);
      return true;
    case kInt32:
      read_signed(4);
      return true;
    case kInt64:
      read_signed(8);
      return true;
    default:
      return false;
  }
}

int64_t Decoder::integer() {
  const std::string_view before = rest_;
  bool negative = false;
  uint64_t magnitude = 0;
  if (rest_.empty() || !number(byte(), negative, magnitude) || (!negative && magnitude > INT64_MAX)) {
    if (!error_) rest_ = before;
    fail("an integer");
    return 0;
  }
  return static_cast<int64_t>(magnitude);
}

uint64_t Decoder::unsigned_integer() {
  const std::string_view before = rest_;
  bool negative = false;
  uint64_t magnitude = 0;
  if (rest_.empty() || !number(byte(), negative, magnitude) || negative) {
    if (!error_) rest_ = before;
    fail("an integer of at least 0");
    return 0;
  }
  return magnitude;
}

double Decoder::real() {
  if (!rest_.empty()) {
    const auto tag = static_cast<uint8_t>(rest_.front());
    if (tag == kFloat64) {
      byte();
      return std::bit_cast<double>(big_endian(8));
    }
    if (tag == kFloat32) {
      byte();
      return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(big_endian(4))));
    }
    bool negative = false;
    uint64_t magnitude = 0;
    byte();
    if (number(tag, negative, magnitude)) {
      return negative ? static_cast<double>(static_cast<int64_t>(magnitude)) : static_cast<double>(magnitude);
    }
  }
  fail("a number");
  return 0;
}

std::string_view Decoder::text() {
  if (!rest_.empty()) {
    const auto tag = static_cast<uint8_t>(rest_.front());
    if ((tag & 0xe0) == kFixStr) {
      byte();
      return view(tag & 0x1f);
    }
    if (tag >= kStr8 && tag <= kStr32) {
      byte();
      return view(big_endian(1 << (tag - kStr8)));
    }
  }
  fail("text");
  return {};
}

std::string_view Decoder::binary() {
  if (!rest_.empty()) {
    const auto tag = static_cast<uint8_t>(rest_.front());
    if (tag >= kBin8 && tag <= kBin32) {
      byte();
      return view(big_endian(1 << (tag - kBin8)));
    }
  }
  fail("bytes");
  return {};
}

size_t Decoder::array() {
  if (!rest_.empty()) {
    const auto tag = static_cast<uint8_t>(rest_.front());
    if ((tag & 0xf0) == kFixArray) {
      byte();
      return counted(tag & 0x0f, 1);
    }
    if (tag == kArray16 || tag == kArray32) {
      byte();
      return counted(big_endian(tag == kArray16 ? 2 : 4), 1);
    }
  }
  fail("an array");
  return 0;
}

size_t Decoder::map() {
  if (!rest_.empty()) {
    const auto tag = static_cast<uint8_t>(rest_.front());
    if ((tag & 0xf0) == kFixMap) {
      byte();
      return counted(tag & 0x0f, 2);
    }
    if (tag == kMap16 || tag == kMap32) {
      byte();
      return counted(big_endian(tag == kMap16 ? 2 : 4), 2);
    }
  }
  fail("a map");
  return 0;
}

bool Decoder::take_nil() {
  if (rest_.empty() || static_cast<uint8_t>(rest_.front()) != kNil) return false;
  byte();
  return true;
}

std::optional<Decoder::Extension> Decoder::peek_extension() const {
  if (rest_.empty()) return std::nullopt;
  const auto at = [this](size_t index) { return static_cast<uint8_t>(rest_[index]); };
  const uint8_t tag = at(0);
  if (tag >= kFixExt1 && tag <= kFixExt16) {
    if (rest_.size() < 2) return std::nullopt;
    return Extension{2, uint64_t{1} << (tag - kFixExt1), static_cast<int8_t>(at(1))};
  }
  if (tag < kExt8 || tag > kExt32) return std::nullopt;
  const size_t length_bytes = size_t{1} << (tag - kExt8);
  if (rest_.size() < 2 + length_bytes) return std::nullopt;
  uint64_t size = 0;
  for (size_t i = 0; i < length_bytes; ++i) size = size << 8 | at(1 + i);
  return Extension{2 + length_bytes, size, static_cast<int8_t>(at(1 + length_bytes))};
}

bool Decoder::at_extension(int8_t type) const {
  const auto next = peek_extension();
  return next && next->type == type;
}

std::string_view Decoder::extension(int8_t type) {
  const auto next = peek_extension();
  if (!next || next->type != type) {
    fail(fmt::format("an extension of type {}", type));
    return {};
  }
  view(next->header);
  return view(next->size);
}

NumberBlock Decoder::numbers() {
  const std::string_view value = extension(NumberBlock::kWireType);
  if (failed()) return {};
  const auto type = static_cast<uint8_t>(value.empty() ? 0 : value.front());
  const NumberBlock block{static_cast<NumberBlock::Kind>(type & 0xf0), static_cast<size_t>(type & 0x0f),
                          value.substr(std::min<size_t>(value.size(), 1))};
  const bool real = block.kind == NumberBlock::Kind::kReal;
  const bool known = real || block.kind == NumberBlock::Kind::kSigned || block.kind == NumberBlock::Kind::kUnsigned;
  const bool whole = (block.number_bytes == 8 || block.number_bytes == 4 ||
                      (!real && (block.number_bytes == 2 || block.number_bytes == 1))) &&
                     block.data.size() % block.number_bytes == 0;
  if (!known || !whole) {
    fail("a block of numbers of a known type");
    return {};
  }
  return block;
}

// Iterative: nesting needs only a counter of remaining values.
void Decoder::skip() {
  uint64_t left = 1;
  while (left > 0 && !failed()) {
    --left;
    if (rest_.empty()) return fail("more bytes");
    const auto tag = static_cast<uint8_t>(rest_.front());
    bool negative = false;
    uint64_t magnitude = 0;
    if ((tag & 0xf0) == kFixMap || tag == kMap16 || tag == kMap32) {
      left += 2 * map();
    } else if ((tag & 0xf0) == kFixArray || tag == kArray16 || tag == kArray32) {
      left += array();
    } else if ((tag & 0xe0) == kFixStr || (tag >= kStr8 && tag <= kStr32)) {
      text();
    } else if (tag >= kBin8 && tag <= kBin32) {
      binary();
    } else if (tag == kNil || tag == kFalse || tag == kTrue) {
      byte();
    } else if (tag == kFloat32 || tag == kFloat64) {
      real();
    } else if (tag >= kFixExt1 && tag <= kFixExt16) {
      byte();
      view(1 + (uint64_t{1} << (tag - kFixExt1)));
    } else if (tag >= kExt8 && tag <= kExt32) {
      byte();
      const uint64_t size = big_endian(1 << (tag - kExt8));
      view(size + 1);
    } else {
      byte();
      if (!number(tag, negative, magnitude)) return fail("a value");
    }
  }
}

namespace codec {

size_t open_envelope(Decoder& decoder, size_t count) {
  const size_t found = decoder.array();
  const uint64_t version = decoder.unsigned_integer();
  if (decoder.failed()) return 0;
  if (version > kEnvelopeVersionWithReferences) {
    decoder.fail(fmt::format("an envelope of version {} or older", kEnvelopeVersionWithReferences));
    return 0;
  }
  if (found < count + 1) {
    decoder.fail(counted(count, "value"));
    return 0;
  }
  return found - count - 1;
}

void mark_references(std::string& envelope) { envelope.at(1) = static_cast<char>(kEnvelopeVersionWithReferences); }

bool carries_references(std::string_view envelope) {
  return envelope.size() > 1 && static_cast<uint8_t>(envelope[0]) > kFixArray &&
         static_cast<uint8_t>(envelope[0]) < kFixArray + 16 &&
         static_cast<uint8_t>(envelope[1]) == kEnvelopeVersionWithReferences;
}

Error take_error(const Decoder& decoder) { return *decoder.error(); }

}  // namespace codec
}  // namespace volador
