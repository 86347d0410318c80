#include "head/journal/row_check.h"

#include <array>

namespace volador::head {

uint64_t row_check(std::string_view table, std::string_view key, std::string_view value) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  auto add = [&hash](const char* data, size_t size) {
    for (size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<uint8_t>(data[i])) * 0x100000001b3ULL;
  };
  for (std::string_view part : {table, key, value}) {
    const uint64_t size = part.size();
    std::array<char, 8> bytes;
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(size >> (8 * i));
    add(bytes.data(), bytes.size());
    add(part.data(), part.size());
  }
  return hash;
}

}  // namespace volador::head
