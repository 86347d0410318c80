#include "experiments/katib/prometheus_text.h"

#include <algorithm>
#include <charconv>

namespace volador::experiments::katib {
namespace {

constexpr std::string_view kPrometheusBlanks = " \t\r";
constexpr int64_t kMillisecondsMax = 9'200'000'000'000;  // What 64 bits of nanoseconds hold.

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
}

std::string name_in_prometheus(std::string_view metric) {
  std::string name;
  for (const char c : metric) name += is_name_character(c) ? c : '_';
  return name;
}

void skip_prometheus_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kPrometheusBlanks), text.size()));
}

std::string_view take_prometheus_word(std::string_view& text) {
  skip_prometheus_blanks(text);
  const std::string_view word = text.substr(0, text.find_first_of(kPrometheusBlanks));
  text.remove_prefix(word.size());
  return word;
}

// Takes `{split="a}\"b"}`. False: it does not end.
bool skip_labels(std::string_view& text) {
  bool in_text = false;
  for (size_t at = 1; at < text.size(); ++at) {
    if (in_text && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      in_text = !in_text;
    } else if (!in_text && text[at] == '}') {
      text.remove_prefix(at + 1);
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<MetricPoint> read_prometheus_text(std::string_view text, const std::vector<std::string>& metrics) {
  std::vector<std::string> names;
  for (const std::string& metric : metrics) names.push_back(name_in_prometheus(metric));
  std::vector<MetricPoint> points;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    skip_prometheus_blanks(line);
    size_t length = 0;
    while (length < line.size() && is_name_character(line[length])) ++length;
    const std::string_view name = line.substr(0, length);
    line.remove_prefix(length);
    skip_prometheus_blanks(line);
    if (name.empty() || (line.starts_with('{') && !skip_labels(line))) continue;
    const std::string_view value = take_prometheus_word(line), time = take_prometheus_word(line);
    skip_prometheus_blanks(line);
    if (!number_of(value) || !line.empty()) continue;
    std::optional<int64_t> time_ns;
    if (!time.empty()) {
      int64_t milliseconds = 0;
      const auto read = std::from_chars(time.data(), time.data() + time.size(), milliseconds);
      if (read.ec != std::errc() || read.ptr != time.data() + time.size()) continue;
      if (milliseconds > -kMillisecondsMax && milliseconds < kMillisecondsMax) time_ns = milliseconds * 1'000'000;
    }
    for (size_t i = 0; i < metrics.size(); ++i) {
      if (name != names[i]) continue;
      points.push_back({.metric = metrics[i], .value = std::string(value), .time_ns = time_ns});
      break;
    }
  }
  return points;
}

}  // namespace volador::experiments::katib
