#include "runtime/ids.h"

#include <fmt/format.h>

#include "runtime/random.h"
#include "runtime/text.h"

namespace volador {

std::array<uint8_t, 16> random_id_bytes(Random& random) {
  std::array<uint8_t, 16> bytes{};
  const uint64_t halves[2] = {random.next(), random.next()};
  std::memcpy(bytes.data(), halves, bytes.size());
  if (bytes == std::array<uint8_t, 16>{}) bytes[0] = 1;  // All zeros means "none".
  return bytes;
}

std::string hex(const std::array<uint8_t, 16>& bytes) {
  return hex_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Result<std::array<uint8_t, 16>> parse_id_bytes(std::string_view text) {
  std::array<uint8_t, 16> bytes{};
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  if (text.size() != 32) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("id: expected 32 hex digits, got \"{}\"", text.substr(0, 64)));
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0)
      return make_error(ErrorCode::kInvalidArgument, fmt::format("id: expected 32 hex digits, got \"{}\"", text));
    bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return bytes;
}

}  // namespace volador
