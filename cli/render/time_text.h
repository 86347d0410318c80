// Times of day as text.
#pragma once

#include <cstdint>
#include <string>

namespace volador::cli {

// Local time, with the date if it is not within 20 hours of `now_ms`; both are Unix times. "14:20", "2026-03-01 14:20".
std::string clock_time(int64_t unix_time_ms, int64_t now_ms);

}  // namespace volador::cli
