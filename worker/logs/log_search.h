// Search for lines in a piece of a log. Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace volador::worker {

// Criteria of a search.
struct LogWanted {
  std::string find;      // Lines that contain it, ignoring ASCII case; empty: any.
  bool trouble = false;  // Lines that look like errors.

  bool any() const { return find.empty() && !trouble; }
};

// Whether the line looks like an error: by its level, if it has one as Volador's lines do, otherwise by its words.
bool tells_of_trouble(std::string_view line);

// Calls `found` for every matching whole line of `text` in order, with its number (the first line is `first`).
// O(bytes).
void find_lines(std::string_view text, int64_t first, const LogWanted& wanted,
                const std::function<void(int64_t line, std::string_view text)>& found);

}  // namespace volador::worker
