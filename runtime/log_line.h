// Extracts level and time from a log line. Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <string_view>

namespace volador::log {

// Level and time of a log line.
struct LineFacts {
  std::string_view level;  // "error", "warn", "info" or "debug"; empty: unknown.
  int64_t time_ms = 0;     // Unix time; 0: the line does not begin with a time in Volador's format.
};

// Volador's own lines have both. Other lines: a level in capitals near the start ("[INFO]", "ERROR:") or glog's letter,
// otherwise words that indicate an error or warning, ignoring case ("Traceback", "failed").
[[nodiscard]] LineFacts facts_of_line(std::string_view line);

}  // namespace volador::log
