#include "runtime/language/text_width.h"

#include <algorithm>
#include <array>
#include <vector>

namespace volador {
namespace {

struct WidthRange {
  uint32_t first;
  uint32_t last;
};

// East Asian Wide and Fullwidth (UAX #11), as ranges.
constexpr std::array<WidthRange, 18> kWide{{{0x1100, 0x115f},
                                            {0x231a, 0x231b},
                                            {0x23e9, 0x23ec},
                                            {0x2e80, 0x303e},
                                            {0x3041, 0x33ff},
                                            {0x3400, 0x4dbf},
                                            {0x4e00, 0x9fff},
                                            {0xa000, 0xa4cf},
                                            {0xa960, 0xa97f},
                                            {0xac00, 0xd7a3},
                                            {0xf900, 0xfaff},
                                            {0xfe30, 0xfe6f},
                                            {0xff00, 0xff60},
                                            {0xffe0, 0xffe6},
                                            {0x1f300, 0x1f64f},
                                            {0x1f680, 0x1f6ff},
                                            {0x1f900, 0x1faff},
                                            {0x20000, 0x3fffd}}};
// Combining marks, joiners and selectors.
constexpr std::array<WidthRange, 9> kZero{{{0x0300, 0x036f},
                                           {0x0483, 0x0489},
                                           {0x0591, 0x05bd},
                                           {0x0610, 0x061a},
                                           {0x064b, 0x065f},
                                           {0x200b, 0x200f},
                                           {0x20d0, 0x20ff},
                                           {0xfe00, 0xfe0f},
                                           {0xfe20, 0xfe2f}}};

template <size_t n>
bool is_in(const std::array<WidthRange, n>& ranges, uint32_t point) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const WidthRange& range) { return point >= range.first && point <= range.last; });
}

}  // namespace

std::pair<uint32_t, size_t> front_code_point(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                                                      : 0;
  if (length <= 1 || text.size() < length) return {lead, 1};
  uint32_t point = lead & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xc0) != 0x80) return {lead, 1};
    point = point << 6 | (byte & 0x3f);
  }
  return {point, length};
}

size_t columns_of(uint32_t code_point) { return is_in(kZero, code_point) ? 0 : is_in(kWide, code_point) ? 2 : 1; }

std::string cut_middle(std::string_view text, size_t columns) {
  std::vector<std::pair<size_t, size_t>> points;  // Start and width of each code point.
  size_t width = 0;
  for (size_t at = 0; at < text.size();) {
    const auto [point, length] = front_code_point(text.substr(at));
    points.emplace_back(at, columns_of(point));
    width += points.back().second;
    at += length;
  }
  if (width <= columns) return std::string(text);
  if (columns == 0) return {};
  const size_t tail_max = (columns - 1) / 2;
  size_t tail = points.size();
  size_t tail_width = 0;
  while (tail > 0 && tail_width + points[tail - 1].second <= tail_max) tail_width += points[--tail].second;
  // A combining character belongs to the previous one, which is cut off.
  while (tail < points.size() && points[tail].second == 0) ++tail;
  size_t front = 0;
  size_t front_width = 0;
  while (front < tail && front_width + points[front].second <= columns - 1 - tail_width)
    front_width += points[front++].second;
  const size_t front_end = front < points.size() ? points[front].first : text.size();
  const std::string_view end = tail < points.size() ? text.substr(points[tail].first) : std::string_view();
  return std::string(text.substr(0, front_end)) + "…" + std::string(end);
}

}  // namespace volador
