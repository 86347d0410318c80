#include "train/data/image_file.h"

#include <climits>
#include <string>

// The decoder is compiled here and nowhere else.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS 65536
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace volador::train {
namespace {

// Checks that the Huffman tables of a JPEG file define at most 256 codes each: the decoder writes out of bounds if they
// do not (stb_image 2.27). Follows the markers as the decoder does; other errors are left to it.
bool has_fitting_huffman_tables(std::string_view file) {
  const auto byte = [&](size_t at) -> int { return at < file.size() ? static_cast<uint8_t>(file[at]) : 0; };
  constexpr int kHuffmanTables = 0xC4;
  constexpr int kBegin = 0xD8;
  constexpr int kEnd = 0xD9;
  constexpr int kScan = 0xDA;
  bool in_scan = false;
  for (size_t at = 0; at < file.size();) {
    if (byte(at++) != 0xFF) continue;
    while (byte(at) == 0xFF) ++at;
    const int marker = byte(at++);
    if (marker == kBegin) continue;
    const bool restart = marker >= 0xD0 && marker <= 0xD7;
    if (marker == 0 || restart) {
      if (!in_scan && !restart) return true;  // The decoder stops here.
      continue;
    }
    if (marker == kEnd) return true;
    in_scan = marker == kScan;
    const size_t end = at + static_cast<size_t>(byte(at) << 8 | byte(at + 1));
    for (size_t table = at + 2; marker == kHuffmanTables && table < end;) {
      int codes = 0;
      for (size_t length = 1; length <= 16; ++length) codes += byte(table + length);
      if (codes > 256) return false;
      table += 17 + static_cast<size_t>(codes);
    }
    at = end;
  }
  return true;
}

}  // namespace

Result<ImagePixels> decode_image(std::string_view file, int channels) {
  if (channels != 1 && channels != 3)
    return make_error(ErrorCode::kInvalidArgument, "channels: expected 1 or 3, got " + std::to_string(channels));
  if (file.size() > INT_MAX) return make_error(ErrorCode::kInvalidArgument, "the image file is larger than 2 GiB");
  if (file.starts_with('\xFF') && !has_fitting_huffman_tables(file))
    return make_error(ErrorCode::kInvalidArgument, "cannot be decoded as JPEG (bad Huffman table)");
  int width = 0;
  int height = 0;
  int found = 0;
  stbi_uc* bytes = stbi_load_from_memory(reinterpret_cast<const stbi_uc*>(file.data()), static_cast<int>(file.size()),
                                         &width, &height, &found, channels);
  if (bytes == nullptr)
    return make_error(ErrorCode::kInvalidArgument,
                      std::string("cannot be decoded as JPEG, PNG or BMP (") + stbi_failure_reason() + ")");
  return ImagePixels{.height = height,
                     .width = width,
                     .channels = channels,
                     .bytes = std::shared_ptr<const uint8_t>(
                         bytes, [](const uint8_t* memory) { stbi_image_free(const_cast<uint8_t*>(memory)); })};
}

}  // namespace volador::train
