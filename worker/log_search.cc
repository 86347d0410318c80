#include "worker/log_search.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace volador::worker {
namespace {

// As the dashboard's page marks them.
constexpr std::array<std::string_view, 12> kWords{"error",  "errors",  "exception",          "fatal",     "panic",  "traceback",
                                                  "aborted", "segmentation fault", "assertion", "failed", "killed by", "core dumped"};

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }
constexpr bool in_word(char c) { return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '_'; }

std::string lowered(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

// "2026-11-23T01:26:28.123Z warn head …": the level. Empty: no such line.
std::string_view level_of(std::string_view line) {
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:dd";
  if (line.size() < kShape.size()) return {};
  for (size_t i = 0; i < kShape.size(); ++i) {
    if (kShape[i] == 'd' ? std::isdigit(static_cast<unsigned char>(line[i])) == 0 : line[i] != kShape[i]) return {};
  }
  const size_t end = line.find("Z ", kShape.size());
  if (end == std::string_view::npos || line.find_first_not_of("0123456789.", kShape.size()) != end) return {};
  const std::string_view rest = line.substr(end + 2);
  const std::string_view level = rest.substr(0, rest.find(' '));
  for (const std::string_view known : {"debug", "info", "warn", "error"}) {
    if (level == known) return level;
  }
  return {};
}

constexpr std::array<bool, 256> first_letters() {
  std::array<bool, 256> is{};
  for (const std::string_view word : kWords) {
    is[static_cast<unsigned char>(word[0])] = true;
    is[static_cast<unsigned char>(word[0]) - 'a' + 'A'] = true;
  }
  return is;
}

bool stands_at(std::string_view line, size_t at, std::string_view word) {
  if (line.size() - at < word.size()) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    if (lower(line[at + i]) != word[i]) return false;
  }
  return at + word.size() == line.size() || !in_word(line[at + word.size()]);
}

bool has_word(std::string_view line) {
  static constexpr std::array<bool, 256> kFirst = first_letters();
  for (size_t i = 0; i < line.size(); ++i) {
    if (!kFirst[static_cast<unsigned char>(line[i])] || (i > 0 && in_word(line[i - 1]))) continue;
    if (std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) { return stands_at(line, i, word); })) return true;
  }
  return false;
}

}  // namespace

bool tells_of_trouble(std::string_view line) {
  if (const std::string_view level = level_of(line); !level.empty()) return level == "error";
  return has_word(line);
}

void find_lines(std::string_view text, int64_t first, const LogWanted& wanted, const std::function<void(int64_t line, std::string_view text)>& found) {
  // The text is looked for in the whole piece: most lines do not hold it, and need not be cut out.
  const std::string letters = wanted.find.empty() ? std::string() : lowered(text);
  const std::string find = lowered(wanted.find);
  if (find.find('\n') != std::string::npos) return;  // No line holds it.
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
    if (end == std::string_view::npos) return;  // Still being written.
    const std::string_view one = text.substr(at, end - at);
    if (!wanted.trouble || tells_of_trouble(one)) found(line, one);
    at = end + 1;
    ++line;
  }
}

}  // namespace volador::worker
