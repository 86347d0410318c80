#include "worker/logs/log_search.h"

#include <algorithm>

#include "runtime/log_line.h"
#include "runtime/text.h"

namespace volador::worker {
bool tells_of_trouble(std::string_view line) { return log::facts_of_line(line).level == "error"; }

void find_lines(std::string_view text, int64_t first, const LogWanted& wanted,
                const std::function<void(int64_t line, std::string_view text)>& found) {
  // Searches the whole piece: most lines do not match and need not be extracted.
  const std::string letters = wanted.find.empty() ? std::string() : lower_case(text);
  const std::string find = lower_case(wanted.find);
  if (find.find('\n') != std::string::npos) return;  // No line contains a newline.
  int64_t line = first;
  size_t at = 0;
  while (at < text.size()) {
    if (!find.empty()) {
      const size_t hit = letters.find(find, at);
      if (hit == std::string::npos) return;
      for (size_t end = text.find('\n', at); end < hit; end = text.find('\n', at)) {
        at = end + 1;
        ++line;
      }
    }
    const size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return;  // Incomplete line.
    const std::string_view one = text.substr(at, end - at);
    if (!wanted.trouble || tells_of_trouble(one)) found(line, one);
    at = end + 1;
    ++line;
  }
}

}  // namespace volador::worker
