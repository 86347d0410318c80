// CRC-32C (Castagnoli), as TensorBoard's records, the journal of an experiment and spilled objects carry it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace volador {
namespace crc32c_parts {

inline uint32_t by_table(uint32_t crc, std::string_view bytes) {
  static constexpr auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78U : 0U);
      table[i] = value;
    }
    return table;
  }();
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ (crc >> 8);
  return crc;
}

#if defined(__x86_64__)
// The processor's instruction: some GB/s, where the table has 0.4.
__attribute__((target("sse4.2"))) inline uint32_t by_instruction(uint32_t crc, std::string_view bytes) {
  uint64_t state = crc;
  while (bytes.size() >= sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);
    state = __builtin_ia32_crc32di(state, word);
    bytes.remove_prefix(sizeof word);
  }
  crc = static_cast<uint32_t>(state);
  for (const char byte : bytes) crc = __builtin_ia32_crc32qi(crc, static_cast<unsigned char>(byte));
  return crc;
}
#endif

}  // namespace crc32c_parts

inline uint32_t crc32c(std::string_view bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0) return ~crc32c_parts::by_instruction(~0U, bytes);
#endif
  return ~crc32c_parts::by_table(~0U, bytes);
}

}  // namespace volador
