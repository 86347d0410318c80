#include "tune/determined/determined_random.h"

#include <array>
#include <sstream>

namespace volador::tune::determined {

uint64_t Random::up_to(uint64_t limit) {
  if (limit == 0) return 0;
  uint64_t mask = limit;
  for (const int shift : {1, 2, 4, 8, 16, 32}) mask |= mask >> shift;
  for (;;) {
    uint64_t bits = bits32();
    if (limit > UINT32_MAX) bits = bits << 32 | bits32();
    bits &= mask;
    if (bits <= limit) return bits;
  }
}

double Random::unit() {
  const uint64_t high = bits32() >> 5, low = bits32() >> 6;
  return static_cast<double>(high * (uint64_t{1} << 26) + low) / static_cast<double>(uint64_t{1} << 53);
}

std::string Random::uuid() {
  std::array<uint8_t, 16> bytes{};
  for (size_t word = 0; word < 4; ++word) {
    const uint32_t bits = bits32();
    for (size_t i = 0; i < 4; ++i) bytes[word * 4 + i] = static_cast<uint8_t>(bits >> (8 * i));
  }
  bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3f) | 0x80);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  text.reserve(36);
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += {kHex[bytes[i] >> 4], kHex[bytes[i] & 0x0f]};
  }
  return text;
}

std::string Random::state() const {
  std::ostringstream out;
  out << engine_;
  return out.str();
}

Result<void> Random::restore(std::string_view state) {
  std::istringstream in{std::string(state)};
  std::mt19937 engine;
  in >> engine;
  if (!in || in.peek() != std::char_traits<char>::eof())
    return make_error(ErrorCode::kInvalidArgument, "the state of the random numbers is torn");
  engine_ = engine;
  return {};
}

}  // namespace volador::tune::determined
