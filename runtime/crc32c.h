// CRC-32C (Castagnoli), used by TensorBoard records, experiment journals and spilled objects.
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
// Table that advances a CRC state by kLaneBytes zero bytes, indexed by each byte of the state; used to combine the
// states of adjacent parts.
inline constexpr size_t kLaneBytes = 4096;
using ZeroesTable = std::array<std::array<uint32_t, 256>, 4>;
inline const ZeroesTable& zeroes_table() {
  static const ZeroesTable kTable = [] {
    const std::array<char, kLaneBytes> zeroes{};
    std::array<uint32_t, 32> of_bit{};
    for (size_t bit = 0; bit < of_bit.size(); ++bit)
      of_bit[bit] = by_table(uint32_t{1} << bit, {zeroes.data(), zeroes.size()});
    ZeroesTable table{};
    for (size_t byte = 0; byte < table.size(); ++byte) {
      for (size_t value = 0; value < 256; ++value) {
        for (size_t bit = 0; bit < 8; ++bit)
          table[byte][value] ^= (value >> bit & 1) != 0 ? of_bit[byte * 8 + bit] : 0U;
      }
    }
    return table;
  }();
  return kTable;
}

// Uses the CPU's instruction, which has a latency of three cycles: three interleaved parts reach 20 GB/s, one part 6
// GB/s, the table 0.4 GB/s.
__attribute__((target("sse4.2"))) inline uint32_t by_instruction(uint32_t crc, std::string_view bytes) {
  uint64_t state = crc;
  for (; bytes.size() >= 3 * kLaneBytes; bytes.remove_prefix(3 * kLaneBytes)) {
    uint64_t second = 0, third = 0;
    const char* at = bytes.data();
    for (const char* const end = at + kLaneBytes; at < end; at += sizeof(uint64_t)) {
      uint64_t words[3];
      for (size_t lane = 0; lane < 3; ++lane) std::memcpy(&words[lane], at + lane * kLaneBytes, sizeof(uint64_t));
      state = __builtin_ia32_crc32di(state, words[0]);
      second = __builtin_ia32_crc32di(second, words[1]);
      third = __builtin_ia32_crc32di(third, words[2]);
    }
    const ZeroesTable& zeroes = zeroes_table();
    const auto after = [&zeroes](uint64_t before) {
      return zeroes[0][before & 0xff] ^ zeroes[1][before >> 8 & 0xff] ^ zeroes[2][before >> 16 & 0xff] ^
             zeroes[3][before >> 24];
    };
    state = after(after(state) ^ second) ^ third;
  }
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
