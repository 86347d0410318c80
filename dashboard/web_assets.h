// The page, embedded in the binary: files of dashboard/web/dist at the time of the build.
#pragma once

#include <span>
#include <string_view>

namespace volador::dashboard {

struct WebAsset {
  std::string_view path;  // "/assets/index-4f1c.js"; the page itself is "/index.html".
  std::string_view bytes;
  std::string_view gzip;  // The same, compressed.
};
// Empty where the page had not been built.
std::span<const WebAsset> web_assets();

}  // namespace volador::dashboard
