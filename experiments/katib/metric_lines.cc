#include "experiments/katib/metric_lines.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "experiments/katib/time_stamp.h"

namespace volador::experiments::katib {
namespace {

using LineJson = nlohmann::json;

// As Katib has it. Its value may be empty.
constexpr const char* kKatibFormat = R"(([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?([Ee][+-]?\d+)?))";
constexpr const char* kDefaultFormat =
    R"(([\w|-]+)\s*=\s*([+-]?(?:(?:\d+(?:\.\d+)?|\.\d+)(?:[Ee][+-]?\d+)?|(?i:nan|inf(?:inity)?)\b)))";
constexpr size_t kFormatBytesMax = 1000;
constexpr const char* kLineSpaces = " \t\n\v\f\r";
constexpr double kSecondsMax = 9.2e9;  // What 64 bits of nanoseconds hold.
constexpr int64_t kSecondNanoseconds = 1'000'000'000;

Result<std::unique_ptr<RE2>> compiled_format(const std::string& format) {
  if (format.size() > kFormatBytesMax) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("metricsFormat: expected at most {} bytes, got {}", kFormatBytesMax, format.size()));
  }
  RE2::Options options(RE2::Quiet);
  auto made = std::make_unique<RE2>(format, options);
  if (!made->ok()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("metricsFormat: \"{}\" is no regular expression: {}", format, made->error()));
  }
  if (made->NumberOfCapturingGroups() < 2) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("metricsFormat: expected two groups, the name and the value of a metric, as in "
                                  "([\\w|-]+)=([0-9.]+); \"{}\" has {}",
                                  format, made->NumberOfCapturingGroups()));
  }
  return made;
}

std::string_view without_spaces(std::string_view text) {
  const size_t begin = text.find_first_not_of(kLineSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kLineSpaces) - begin + 1);
}

std::string_view view_of_group(const re2::StringPiece& piece) { return {piece.data(), piece.size()}; }

bool has_part(std::string_view text, std::string_view part) {
  return ::memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

// Python writes NaN and infinities into JSON, which has none: as texts they are read.
std::string with_quoted_constants(std::string_view line) {
  std::string out;
  bool in_text = false;
  for (size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    if (in_text) {
      out += c;
      if (c == '\\' && at + 1 < line.size()) out += line[++at];
      if (c == '"') in_text = false;
      continue;
    }
    if (c == '"') in_text = true;
    const std::string_view rest = line.substr(at);
    const auto constant = [&]() -> std::string_view {
      for (const std::string_view word : {"NaN", "Infinity", "-Infinity"})
        if (rest.starts_with(word)) return word;
      return {};
    }();
    if (constant.empty()) {
      out += c;
    } else {
      out.append("\"").append(constant).append("\"");
      at += constant.size() - 1;
    }
  }
  return out;
}

std::optional<int64_t> time_of_json(const LineJson& value) {
  if (value.is_string()) return parse_time_stamp(value.get_ref<const std::string&>());
  if (!value.is_number()) return std::nullopt;
  const auto seconds = value.get<double>();
  if (!(std::abs(seconds) < kSecondsMax)) return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>() * kSecondNanoseconds;
  const double whole = std::floor(seconds);
  // A double has microseconds of a time of this century, not more.
  return static_cast<int64_t>(whole) * kSecondNanoseconds + std::llround((seconds - whole) * 1e6) * 1000;
}

// The digits after the point are nanoseconds to Katib.
std::optional<int64_t> time_of_json_as_katib(const LineJson& value) {
  if (!value.is_number()) return time_of_json(value);
  const auto seconds = value.get<double>();
  if (!(std::abs(seconds) < kSecondsMax)) return std::nullopt;
  std::array<char, 400> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), seconds, std::chars_format::fixed);
  const std::string_view all(text.data(), static_cast<size_t>(written.ptr - text.data()));
  const size_t point = std::min(all.find('.'), all.size());
  int64_t whole = 0, fraction = 0;
  std::from_chars(all.data(), all.data() + point, whole);
  if (point < all.size()) {
    const auto read = std::from_chars(all.data() + point + 1, all.data() + all.size(), fraction);
    if (read.ec != std::errc()) return std::nullopt;
  }
  return whole * kSecondNanoseconds + fraction;
}

}  // namespace

std::optional<double> number_of(std::string_view value) {
  bool is_negative = false;
  if (value.starts_with('+') || value.starts_with('-')) {
    is_negative = value.front() == '-';
    value.remove_prefix(1);
    if (value.starts_with('+') || value.starts_with('-')) return std::nullopt;
  }
  double number = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
  if (read.ec == std::errc::result_out_of_range && read.ptr == value.data() + value.size()) {
    // Too large, or too close to zero.
    const size_t exponent = value.find_first_of("eE");
    const bool is_small = exponent != std::string_view::npos && value.substr(exponent + 1).starts_with('-');
    number = is_small ? 0 : std::numeric_limits<double>::infinity();
  } else if (read.ec != std::errc() || read.ptr != value.data() + value.size()) {
    return std::nullopt;
  }
  return is_negative ? -number : number;
}

Result<void> check_metric_format(const std::string& format) {
  auto made = compiled_format(format);
  if (!made) return make_error(made.error());
  return {};
}

struct MetricLines::Formats {
  std::vector<std::unique_ptr<RE2>> all;
};

MetricLines::MetricLines(MetricLinesOptions options)
    : options_(std::move(options)), formats_(std::make_unique<Formats>()) {}
MetricLines::~MetricLines() = default;

Result<std::unique_ptr<MetricLines>> MetricLines::create(MetricLinesOptions options) {
  std::unique_ptr<MetricLines> made(new MetricLines(std::move(options)));
  std::vector<std::string> formats = made->options_.formats;
  if (formats.empty()) formats.emplace_back(made->options_.as_katib ? kKatibFormat : kDefaultFormat);
  for (const std::string& format : formats) {
    auto pattern = compiled_format(format);
    if (!pattern) return make_error(pattern.error());
    made->formats_->all.push_back(std::move(*pattern));
  }
  return made;
}

void MetricLines::feed(std::string_view bytes, const Found& found) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (end == std::string_view::npos || !rest_.empty())
      rest_.append(piece.substr(0, kMetricLineBytesMax - std::min(rest_.size(), kMetricLineBytesMax)));
    if (end == std::string_view::npos) return;
    if (rest_.empty()) {
      line(piece.substr(0, kMetricLineBytesMax), found);
    } else {
      line(rest_, found);
      rest_.clear();
    }
    bytes.remove_prefix(end + 1);
  }
}

void MetricLines::end(const Found& found) {
  if (!rest_.empty()) line(rest_, found);
  rest_.clear();
}

void MetricLines::line(std::string_view line, const Found& found) {
  auto points = options_.is_json ? points_of_json(line) : points_of_text(line);
  if (!points.empty()) found(std::move(points));
}

std::vector<MetricPoint> MetricLines::points_of_text(std::string_view line) const {
  std::vector<MetricPoint> points;
  if (std::ranges::none_of(options_.metrics, [&](const std::string& name) { return has_part(line, name); }))
    return points;
  const size_t space = line.find(' ');
  const auto time = space == std::string_view::npos ? std::nullopt : parse_time_stamp(line.substr(0, space));
  const re2::StringPiece text(line.data(), line.size());
  for (const auto& format : formats_->all) {
    std::array<re2::StringPiece, 3> groups;
    for (size_t from = 0; from <= line.size();) {
      if (!format->Match(text, from, text.size(), RE2::UNANCHORED, groups.data(), 3)) break;
      const auto end = static_cast<size_t>(groups[0].data() - line.data()) + groups[0].size();
      from = groups[0].empty() ? end + 1 : end;
      const std::string_view name = without_spaces(view_of_group(groups[1])),
                             value = without_spaces(view_of_group(groups[2]));
      if (std::ranges::find(options_.metrics, name) == options_.metrics.end()) continue;
      if (!options_.as_katib && !number_of(value)) continue;
      points.push_back({.metric = std::string(name), .value = std::string(value), .time_ns = time});
    }
  }
  return points;
}

std::vector<MetricPoint> MetricLines::points_of_json(std::string_view line) {
  std::vector<MetricPoint> points;
  if (options_.as_katib ? line.empty() : without_spaces(line).empty()) return points;
  LineJson object = LineJson::parse(line, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded() && !options_.as_katib)
    object = LineJson::parse(with_quoted_constants(line), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    ++broken_lines_;
    return points;
  }
  std::optional<int64_t> time;
  if (const auto given = object.find("timestamp"); given != object.end())
    time = options_.as_katib ? time_of_json_as_katib(*given) : time_of_json(*given);
  for (const std::string& name : options_.metrics) {
    const auto given = object.find(name);
    if (given == object.end()) continue;
    std::string value;
    if (given->is_string()) value = given->get<std::string>();
    if (!options_.as_katib) {
      if (given->is_number()) value = given->dump();
      value = without_spaces(value);
      if (!number_of(value)) continue;
    } else if (!given->is_string()) {
      continue;
    }
    points.push_back({.metric = name, .value = std::move(value), .time_ns = time});
  }
  return points;
}

}  // namespace volador::experiments::katib
