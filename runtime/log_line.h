// What a line of a log says of itself: its level, and when it was written.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <string_view>

namespace volador::log {

struct LineFacts {
  std::string_view level;  // "error", "warn", "info" or "debug"; empty: it does not say.
  int64_t time_ms = 0;     // Unix time; 0: the line does not begin with its time as lines of Volador do.
};

// Volador's own lines say both. Other lines: a level in capitals near the start ("[INFO]", "ERROR:") or glog's letter, else words that tell of
// an error or a warning, whatever their case ("Traceback", "failed").
[[nodiscard]] LineFacts facts_of_line(std::string_view line);

}  // namespace volador::log
