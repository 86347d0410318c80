#include "runtime/log_line.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>

namespace volador::log {
namespace {

constexpr std::array<std::string_view, 12> kErrorWords{"error",     "errors",    "exception", "fatal",
                                                       "panic",     "traceback", "aborted",   "segmentation fault",
                                                       "assertion", "failed",    "killed by", "core dumped"};
constexpr std::array<std::string_view, 2> kWarnWords{"warn", "warning"};

struct Stated {
  std::string_view word, level;
};
constexpr std::array<Stated, 9> kStated{{{"ERROR", "error"},
                                         {"FATAL", "error"},
                                         {"CRITICAL", "error"},
                                         {"WARNING", "warn"},
                                         {"WARN", "warn"},
                                         {"INFO", "info"},
                                         {"NOTICE", "info"},
                                         {"DEBUG", "debug"},
                                         {"TRACE", "debug"}}};
constexpr size_t kStatedWithin = 64;  // Bytes from the start: after a time and a name.

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }
constexpr bool in_word(char c) { return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// 'd' matches a digit.
bool has_shape(std::string_view line, std::string_view shape) {
  if (line.size() < shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 'd' ? !is_digit(line[i]) : line[i] != shape[i]) return false;
  }
  return true;
}

int number_at(std::string_view line, size_t at, size_t digits) {
  int value = 0;
  for (size_t i = at; i < at + digits; ++i) value = value * 10 + (line[i] - '0');
  return value;
}

// Parses "2026-11-23T01:26:28.123Z warn head …"; empty for other lines.
LineFacts own_facts(std::string_view line) {
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:dd";
  if (!has_shape(line, kShape)) return {};
  const size_t end = line.find("Z ", kShape.size());
  if (end == std::string_view::npos || line.find_first_not_of("0123456789.", kShape.size()) != end) return {};
  const std::string_view rest = line.substr(end + 2);
  const std::string_view said = rest.substr(0, rest.find(' '));
  using namespace std::chrono;
  const year_month_day day{year(number_at(line, 0, 4)), month(static_cast<unsigned>(number_at(line, 5, 2))),
                           std::chrono::day(static_cast<unsigned>(number_at(line, 8, 2)))};
  if (!day.ok()) return {};
  const auto seconds_of_day =
      hours(number_at(line, 11, 2)) + minutes(number_at(line, 14, 2)) + seconds(number_at(line, 17, 2));
  int64_t millis = 0;
  for (size_t i = kShape.size() + 1, scale = 100; i < end && scale > 0; ++i, scale /= 10)
    millis += (line[i] - '0') * static_cast<int64_t>(scale);
  const int64_t time_ms =
      duration_cast<milliseconds>((sys_days(day) + seconds_of_day).time_since_epoch()).count() + millis;
  for (const std::string_view known : {"debug", "info", "warn", "error"}) {
    if (said == known) return {.level = known, .time_ms = time_ms};
  }
  return {};
}

std::string_view stated_level(std::string_view line) {
  if (has_shape(line.substr(std::min<size_t>(line.size(), 1)), "dddd dd:dd:dd")) {  // glog: "E1125 10:47:14.123 …".
    switch (line[0]) {
      case 'I':
        return "info";
      case 'W':
        return "warn";
      case 'E':
      case 'F':
        return "error";
      default:
        break;
    }
  }
  const std::string_view start = line.substr(0, kStatedWithin);
  for (size_t i = 0; i < start.size(); ++i) {
    if (start[i] < 'A' || start[i] > 'Z' || (i > 0 && in_word(start[i - 1]))) continue;
    for (const Stated& stated : kStated) {
      const size_t end = i + stated.word.size();
      if (line.substr(i).starts_with(stated.word) && (end == line.size() || !in_word(line[end]))) return stated.level;
    }
  }
  return {};
}

template <size_t N>
constexpr std::array<bool, 256> first_letters(const std::array<std::string_view, N>& words) {
  std::array<bool, 256> is{};
  for (const std::string_view word : words) {
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

bool has_word(std::string_view line, std::span<const std::string_view> words, const std::array<bool, 256>& first) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (!first[static_cast<unsigned char>(line[i])] || (i > 0 && in_word(line[i - 1]))) continue;
    if (std::any_of(words.begin(), words.end(), [&](std::string_view word) { return stands_at(line, i, word); }))
      return true;
  }
  return false;
}

}  // namespace

LineFacts facts_of_line(std::string_view line) {
  static constexpr std::array<bool, 256> kErrorFirst = first_letters(kErrorWords),
                                         kWarnFirst = first_letters(kWarnWords);
  if (const LineFacts own = own_facts(line); !own.level.empty()) return own;
  if (const std::string_view stated = stated_level(line); !stated.empty()) return {.level = stated};
  if (has_word(line, kErrorWords, kErrorFirst)) return {.level = "error"};
  if (has_word(line, kWarnWords, kWarnFirst)) return {.level = "warn"};
  return {};
}

}  // namespace volador::log
