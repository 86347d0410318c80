// CRC-32C (Castagnoli), as TensorBoard's records and the journal of an experiment carry it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace volador::tune {

inline uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78U : 0U);
      table[i] = value;
    }
    return table;
  }();
  uint32_t crc = ~0U;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace volador::tune
