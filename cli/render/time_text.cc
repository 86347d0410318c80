#include "cli/render/time_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

namespace volador::cli {

std::string clock_time(int64_t unix_time_ms, int64_t now_ms) {
  const std::time_t seconds = unix_time_ms / 1000;
  std::tm local{};
  ::localtime_r(&seconds, &local);
  const bool soon =
      unix_time_ms - now_ms < int64_t{20} * 3600 * 1000 && now_ms - unix_time_ms < int64_t{20} * 3600 * 1000;
  return soon ? fmt::format("{:%H:%M}", local) : fmt::format("{:%Y-%m-%d %H:%M}", local);
}

}  // namespace volador::cli
