// Keys of a journal's rows that are numbers: 8 bytes, the highest first, so that the rows have the order of the numbers.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace volador {

inline constexpr size_t kNumberKeyBytes = 8;

std::string number_key(std::integral auto number) {
  std::string key(kNumberKeyBytes, '\0');
  for (size_t at = 0; at < kNumberKeyBytes; ++at)
    key[at] = static_cast<char>(static_cast<uint64_t>(number) >> (8 * (kNumberKeyBytes - 1 - at)));
  return key;
}

// The number at the start of a key; 0: it is too short.
template <std::integral Number = int64_t>
constexpr Number key_number(std::string_view key) {
  if (key.size() < kNumberKeyBytes) return 0;
  uint64_t number = 0;
  for (const char byte : key.substr(0, kNumberKeyBytes)) number = number << 8 | static_cast<uint8_t>(byte);
  return static_cast<Number>(number);
}

}  // namespace volador
