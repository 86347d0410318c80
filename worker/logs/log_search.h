// Which lines of a log are looked for, and where they stand in a piece of it.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace volador::worker {

struct LogWanted {
  std::string find;      // Lines that hold it, whatever the case of A to Z; empty: any.
  bool trouble = false;  // Lines that tell of an error.

  bool any() const { return find.empty() && !trouble; }
};

// Whether the line tells of an error: by its level where it has one, as lines of Volador do, else by its words.
bool tells_of_trouble(std::string_view line);

// Calls `found` for every whole line of `text` that is wanted, in order, with its number (the first one is `first`). O(bytes).
void find_lines(std::string_view text, int64_t first, const LogWanted& wanted, const std::function<void(int64_t line, std::string_view text)>& found);

}  // namespace volador::worker
