// Time stamps of metrics, as texts of RFC 3339 and as nanoseconds of Unix time.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace volador::experiments::katib {

// "2021-12-02T14:27:50.000035161Z", "2021-12-02T23:27:50+09:00". None: another text, or outside of the years 1678 to
// 2261, as the year 1 is, which Katib writes for a metric without a time.
std::optional<int64_t> parse_time_stamp(std::string_view text);

// In UTC, with as many digits of the fraction as it needs. None: "0001-01-01T00:00:00Z".
std::string time_stamp_text(std::optional<int64_t> time_ns);

}  // namespace volador::experiments::katib
