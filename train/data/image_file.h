// Decodes image files. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/result.h"

namespace volador::train {

// Pixels of an image: height × width × channels bytes, row by row from the top.
struct ImagePixels {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::shared_ptr<const uint8_t> bytes;
};

// Decodes JPEG, PNG or BMP, known by content. channels 1 converts to grey, 3 to red, green, blue; transparency is
// dropped, 16 bits become 8, the orientation tag of cameras is not applied. At most 65,536 pixels a side.
// kInvalidArgument: no image of these formats, or damaged. Thread safe.
Result<ImagePixels> decode_image(std::string_view file, int channels);

}  // namespace volador::train
