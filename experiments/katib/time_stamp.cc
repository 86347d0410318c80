#include "experiments/katib/time_stamp.h"

#include <fmt/format.h>

#include <chrono>

namespace volador::experiments::katib {
namespace {

constexpr int64_t kTimeSecond = 1'000'000'000;
constexpr int64_t kTimeDay = 86'400;

bool is_time_digit(char c) { return c >= '0' && c <= '9'; }

// Takes `count` digits and, before them, one of the characters of `lead`, if that is not empty.
std::optional<int> take_time_number(std::string_view& text, size_t count, std::string_view lead = {}) {
  if (!lead.empty()) {
    if (text.empty() || lead.find(text.front()) == std::string_view::npos) return std::nullopt;
    text.remove_prefix(1);
  }
  if (text.size() < count) return std::nullopt;
  int value = 0;
  for (const char c : text.substr(0, count)) {
    if (!is_time_digit(c)) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(count);
  return value;
}

// Nanoseconds of ".035161"; takes it. None: a point without digits.
std::optional<int64_t> take_time_fraction(std::string_view& text) {
  if (text.empty() || (text.front() != '.' && text.front() != ',')) return 0;
  text.remove_prefix(1);
  if (text.empty() || !is_time_digit(text.front())) return std::nullopt;
  int64_t nanoseconds = 0;
  for (int64_t unit = kTimeSecond / 10; !text.empty() && is_time_digit(text.front()); text.remove_prefix(1), unit /= 10)
    nanoseconds += unit * (text.front() - '0');
  return nanoseconds;
}

// Seconds east of UTC: "Z", "+09:00".
std::optional<int64_t> time_offset(std::string_view text) {
  if (text == "Z") return 0;
  const bool is_west = text.starts_with('-');
  const auto hours = take_time_number(text, 2, "+-"), minutes = take_time_number(text, 2, ":");
  if (!hours || !minutes || !text.empty() || *hours > 24 || *minutes > 59) return std::nullopt;
  const int64_t seconds = *hours * 3600 + *minutes * 60;
  return is_west ? -seconds : seconds;
}

}  // namespace

std::optional<int64_t> parse_time_stamp(std::string_view text) {
  const auto year = take_time_number(text, 4), month = take_time_number(text, 2, "-"),
             day = take_time_number(text, 2, "-");
  const auto hour = take_time_number(text, 2, "T"), minute = take_time_number(text, 2, ":"),
             second = take_time_number(text, 2, ":");
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  const auto fraction = take_time_fraction(text);
  const auto offset = time_offset(text);
  if (!fraction || !offset) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 59) return std::nullopt;
  if (*year < 1678 || *year > 2261) return std::nullopt;  // What 64 bits of nanoseconds hold.
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const int64_t seconds = days * kTimeDay + *hour * 3600 + *minute * 60 + *second - *offset;
  return seconds * kTimeSecond + *fraction;
}

std::string time_stamp_text(std::optional<int64_t> time_ns) {
  if (!time_ns) return "0001-01-01T00:00:00Z";
  int64_t seconds = *time_ns / kTimeSecond, fraction = *time_ns % kTimeSecond;
  if (fraction < 0) {
    fraction += kTimeSecond;
    --seconds;
  }
  int64_t days = seconds / kTimeDay, rest = seconds % kTimeDay;
  if (rest < 0) {
    rest += kTimeDay;
    --days;
  }
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(days))};
  std::string digits = fraction == 0 ? std::string() : fmt::format(".{:09}", fraction);
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), rest / 3600,
                     rest / 60 % 60, rest % 60, digits);
}

}  // namespace volador::experiments::katib
