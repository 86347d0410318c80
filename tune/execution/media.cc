#include "tune/execution/media.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/quantities.h"
#include "tune/execution/trainable_host.h"
#include "tune/results/tensorboard_events.h"

namespace volador::tune {
namespace {

template <class T>
Histogram histogram_of(const T* values, size_t count) {
  Histogram out;
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    if (!std::isfinite(value)) continue;
    out.min = out.count == 0 ? value : std::min(out.min, value);
    out.max = out.count == 0 ? value : std::max(out.max, value);
    out.sum += value;
    out.sum_squares += value * value;
    ++out.count;
  }
  if (out.count == 0) return out;
  const double width = (out.max - out.min) / Histogram::kBuckets;
  if (!(width > 0) || !std::isfinite(width)) {  // All values are equal, or too far apart for a width.
    out.limits = {out.max};
    out.counts = {static_cast<double>(out.count)};
    return out;
  }
  for (int i = 1; i <= Histogram::kBuckets; ++i)
    out.limits.push_back(i == Histogram::kBuckets ? out.max : out.min + width * i);
  out.counts.assign(Histogram::kBuckets, 0);
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    if (!std::isfinite(value)) continue;
    const auto bucket = std::min<int64_t>(static_cast<int64_t>((value - out.min) / width), Histogram::kBuckets - 1);
    ++out.counts[static_cast<size_t>(bucket)];
  }
  return out;
}

void append_big_endian(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

// CRC-32 of ISO 3309, as used in PNG.
uint32_t png_crc(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0xedb88320U ^ (c >> 1) : c >> 1;
      made[i] = c;
    }
    return made;
  }();
  uint32_t crc = 0xffffffffU;
  for (const char byte : bytes) crc = table[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

void append_chunk(std::string& out, std::string_view type, std::string_view data) {
  append_big_endian(out, static_cast<uint32_t>(data.size()));
  const size_t start = out.size();
  out += type;
  out += data;
  append_big_endian(out, png_crc(std::string_view(out).substr(start)));
}

// Returns a zlib stream of stored blocks: uncompressed, which needs neither a library nor time.
std::string stored(std::string_view bytes) {
  constexpr size_t kBlockMax = 65'535;
  std::string out = "\x78\x01";
  uint32_t a = 1, b = 0;
  for (const char byte : bytes) {
    a = (a + static_cast<uint8_t>(byte)) % 65'521;
    b = (b + a) % 65'521;
  }
  do {
    const std::string_view block = bytes.substr(0, kBlockMax);
    bytes.remove_prefix(block.size());
    const auto size = static_cast<uint32_t>(block.size());
    out += static_cast<char>(bytes.empty() ? 1 : 0);
    for (const uint32_t half : {size, ~size}) {
      out += static_cast<char>(half);
      out += static_cast<char>(half >> 8);
    }
    out += block;
  } while (!bytes.empty());
  append_big_endian(out, b << 16 | a);
  return out;
}

std::string png_of(int64_t width, int64_t height, int channels, const std::vector<uint8_t>& pixels) {
  std::string header;
  append_big_endian(header, static_cast<uint32_t>(width));
  append_big_endian(header, static_cast<uint32_t>(height));
  header += '\x08';
  header += channels == 1 ? '\x00' : channels == 3 ? '\x02' : '\x06';
  header.append(3, '\0');
  const auto row = static_cast<size_t>(width) * static_cast<size_t>(channels);
  std::string lines;
  lines.reserve((row + 1) * static_cast<size_t>(height));
  for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
    lines += '\0';  // Unfiltered.
    lines.append(reinterpret_cast<const char*>(pixels.data()) + y * row, row);
  }
  std::string out = "\x89PNG\r\n\x1a\n";
  append_chunk(out, "IHDR", header);
  append_chunk(out, "IDAT", stored(lines));
  append_chunk(out, "IEND", {});
  return out;
}

void check_name(std::string_view name) {
  if (name.empty())
    throw Exception(
        {ErrorCode::kInvalidArgument, "a histogram or an image needs a name, by which TensorBoard shows it"});
}

}  // namespace

Histogram Histogram::of(const double* values, size_t count) { return histogram_of(values, count); }
Histogram Histogram::of(const float* values, size_t count) { return histogram_of(values, count); }

Image Image::made(int64_t width, int64_t height, int channels, const std::vector<uint8_t>& pixels) {
  if (width < 1 || height < 1 || width > kSideMax || height > kSideMax) {
    throw Exception({ErrorCode::kInvalidArgument,
                     fmt::format("an image of {} × {}: each side has 1 to {} pixels", width, height, kSideMax)});
  }
  const int64_t wanted = width * height * channels;
  if (static_cast<int64_t>(pixels.size()) != wanted) {
    throw Exception(
        {ErrorCode::kInvalidArgument, fmt::format("an image of {} × {} with {} a pixel has {}, got {}", width, height,
                                                  counted(channels, "byte"), counted(wanted, "byte"), pixels.size())});
  }
  Image image;
  image.width_ = width;
  image.height_ = height;
  image.channels_ = channels;
  image.png_ = png_of(width, height, channels, pixels);
  return image;
}

Image Image::grey(int64_t width, int64_t height, const std::vector<float>& values) {
  std::vector<uint8_t> pixels;
  pixels.reserve(values.size());
  for (const float value : values)
    pixels.push_back(static_cast<uint8_t>(std::lround(255 * (value > 0 ? std::min(value, 1.0F) : 0.0F))));
  return made(width, height, 1, pixels);
}

void add_histogram(std::string_view name, const std::vector<double>& values) {
  add_histogram(name, Histogram::of(values.data(), values.size()));
}
void add_histogram(std::string_view name, const std::vector<float>& values) {
  add_histogram(name, Histogram::of(values.data(), values.size()));
}
void add_histogram(std::string_view name, const Histogram& histogram) {
  check_name(name);
  add_media(event_histogram(name, histogram));
}
void add_image(std::string_view name, const Image& image) {
  check_name(name);
  add_media(event_image(name, image));
}

}  // namespace volador::tune
