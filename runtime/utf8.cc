#include "runtime/utf8.h"

namespace volador {

size_t utf8_sequence(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(at + 1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!continues(at + 1) || !continues(at + 2)) return 0;
    if (first == 0xE0 && byte(at + 1) < 0xA0) return 0;
    if (first == 0xED && byte(at + 1) > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!continues(at + 1) || !continues(at + 2) || !continues(at + 3)) return 0;
    if (first == 0xF0 && byte(at + 1) < 0x90) return 0;
    if (first == 0xF4 && byte(at + 1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

std::string plain_text(std::string_view text, size_t bytes_max) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t size = utf8_sequence(text, at);
    const auto c = static_cast<unsigned char>(text[at]);
    const bool shown = size > 0 && c >= 0x20 && c != 0x7F;
    if (out.size() + (shown ? size : 1) > bytes_max) break;
    if (shown) {
      out += text.substr(at, size);
    } else {
      out += '?';
    }
    at += size == 0 ? 1 : size;
  }
  return out;
}

}  // namespace volador
