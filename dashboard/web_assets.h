// The web page, embedded in the binary: the files of dashboard/web/dist at build time.
#pragma once

#include <span>
#include <string_view>

namespace volador::dashboard {

// One file of the page.
struct WebAsset {
  std::string_view path;  // "/assets/index-4f1c.js"; the page itself is "/index.html".
  std::string_view bytes;
  std::string_view gzip;  // `bytes`, compressed.
};
// Empty if the page was not built.
std::span<const WebAsset> web_assets();

}  // namespace volador::dashboard
