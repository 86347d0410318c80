#include "cli/render/resource_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/render/table.h"
#include "experiments/katib/resource_kind.h"

namespace volador::cli {
namespace {

using Json = nlohmann::ordered_json;
using experiments::katib::resource_kind;
using experiments::katib::ResourceKind;

constexpr size_t kColumnGap = 3;
constexpr size_t kValueGap = 2;
constexpr const char* kNone = "<none>";

// What a path of keys leads to; null: nothing.
Json at(const Json& object, std::initializer_list<std::string_view> keys) {
  const Json* value = &object;
  for (const std::string_view key : keys) {
    const auto found = value->is_object() ? value->find(std::string(key)) : value->end();
    if (!value->is_object() || found == value->end()) return {};
    value = &*found;
  }
  return *value;
}

std::string text_of_value(const Json& value) {
  if (value.is_null()) return "<nil>";
  if (value.is_string()) return printable_line(value.get<std::string>());
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The last condition: its type, its status, and when it began.
struct LastCondition {
  std::string type, status, since;
};
LastCondition last_condition(const Json& object) {
  const Json conditions = at(object, {"status", "conditions"});
  if (!conditions.is_array() || conditions.empty()) return {};
  const auto text = [&](const char* key) {
    const Json value = at(conditions.back(), {key});
    return value.is_string() ? printable(value.get<std::string>()) : std::string();
  };
  return {text("type"), text("status"), text("lastTransitionTime")};
}

std::string number_text(const Json& value) { return value.is_number() ? value.dump() : std::string(); }

std::string age_of(const Json& object, int64_t now_ms) {
  const Json created = at(object, {"metadata", "creationTimestamp"});
  const int64_t time = created.is_string() ? resource_time_ms(created.get<std::string>()) : -1;
  return time < 0 ? "<unknown>" : resource_age(std::max<int64_t>(0, now_ms - time) / 1000);
}

// How long a job ran, or runs.
std::string duration_of(const Json& object, int64_t now_ms) {
  const auto time = [&](const char* key) {
    const Json value = at(object, {"status", key});
    return value.is_string() ? resource_time_ms(value.get<std::string>()) : -1;
  };
  const int64_t start = time("startTime");
  if (start < 0) return {};
  int64_t end = time("completionTime");
  const LastCondition last = last_condition(object);
  if (end < 0 && last.type == "Failed") end = resource_time_ms(last.since);
  return resource_age(std::max<int64_t>(0, (end < 0 ? now_ms : end) - start) / 1000);
}

// "1/1": pods of a job that succeeded, of those that must.
std::string completions_of(const Json& object) {
  const Json wanted = at(object, {"spec", "completions"}), parallel = at(object, {"spec", "parallelism"});
  const Json done = at(object, {"status", "succeeded"});
  const std::string all = wanted.is_number() ? wanted.dump() : parallel.is_number() ? parallel.dump() : "1";
  return fmt::format("{}/{}", done.is_number() ? done.dump() : "0", all);
}

using Cells = std::vector<std::string>;

// Titles behind the name, and the cells of a resource.
Cells titles_of(std::string_view kind) {
  if (kind == "Experiment" || kind == "Trial") return {"TYPE", "STATUS", "AGE"};
  if (kind == "Suggestion") return {"TYPE", "STATUS", "REQUESTED", "ASSIGNED", "AGE"};
  if (kind == "Job") return {"STATUS", "COMPLETIONS", "DURATION", "AGE"};
  return {"STATE", "AGE"};
}

Cells cells_of(std::string_view kind, const Json& object, int64_t now_ms) {
  const LastCondition last = last_condition(object);
  if (kind == "Experiment" || kind == "Trial") return {last.type, last.status, age_of(object, now_ms)};
  if (kind == "Suggestion") {
    return {last.type, last.status, number_text(at(object, {"spec", "requests"})),
            number_text(at(object, {"status", "suggestionCount"})), age_of(object, now_ms)};
  }
  if (kind == "Job") {
    return {last.type.empty() ? "Running" : last.type, completions_of(object), duration_of(object, now_ms),
            age_of(object, now_ms)};
  }
  return {last.type, age_of(object, now_ms)};
}

Json object_of(const v1::KatibResource& resource) {
  Json object = Json::parse(resource.object(), nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? object : Json::object();
}

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_capital(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }

// Words of a key: "lastTransitionTime" gives "Last Transition Time", "apiVersion" "API Version". A key with other
// characters than letters and "-" stays as it is.
std::string label_of_key(const std::string& key) {
  if (!std::ranges::all_of(key, [](char c) { return is_letter(c) || c == '-'; })) return printable(key);
  std::string label;
  for (size_t i = 0; i < key.size();) {
    size_t end = i + 1;
    while (end < key.size() && is_capital(key[i]) && is_capital(key[end]) &&
           (end + 1 == key.size() || !std::islower(static_cast<unsigned char>(key[end + 1]))))
      ++end;  // A run of capitals is one word.
    if (!is_capital(key[i]) || end == i + 1)
      while (end < key.size() && !is_capital(key[end])) ++end;
    std::string word = key.substr(i, end - i), capitals = word;
    std::ranges::transform(capitals, capitals.begin(), [](unsigned char c) { return std::toupper(c); });
    const bool is_acronym = capitals == "API" || capitals == "URL" || capitals == "UID" || capitals == "GUID";
    if (is_acronym) word = capitals;
    word.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(word.front())));
    label += (label.empty() ? "" : " ") + word;
    i = end;
  }
  return label;
}

// Lines of labels and values. The values of lines that follow each other begin in one column, across levels.
class DescriptionLines {
 public:
  void add(size_t level, const std::string& label, std::optional<std::string> value = std::nullopt) {
    if (!value) flush();
    lines_.push_back({std::string(2 * level, ' ') + label, std::move(value)});
    if (!lines_.back().value) flush();
  }
  // Another value of the line before.
  void add_value(std::string value) { lines_.push_back({"", std::move(value)}); }
  std::string text() {
    flush();
    return std::move(text_);
  }

 private:
  struct Line {
    std::string label;
    std::optional<std::string> value;
  };

  void flush() {
    size_t width = 0;
    for (const Line& line : lines_)
      if (line.value) width = std::max(width, display_width(line.label) + kValueGap);
    for (const Line& line : lines_) {
      text_ += line.label;
      if (line.value) text_ += std::string(width - display_width(line.label), ' ') + *line.value;
      text_ += '\n';
    }
    lines_.clear();
  }

  std::vector<Line> lines_;
  std::string text_;
};

void describe_content(const Json& content, size_t level, const std::string& path, DescriptionLines& lines) {
  const auto is_skipped = [&](const std::string& at_path) {
    return at_path == ".metadata.name" || at_path == ".metadata.namespace" || at_path == ".metadata.labels" ||
           at_path == ".metadata.annotations" || at_path == ".metadata.managedFields";
  };
  std::map<std::string, const Json*> sorted;
  for (const auto& [key, value] : content.items()) sorted.emplace(key, &value);
  for (const auto& [key, value] : sorted) {
    const std::string below = path + "." + key;
    if (is_skipped(below)) continue;
    const std::string label = label_of_key(key) + ":";
    if (value->is_object()) {
      lines.add(level, label);
      describe_content(*value, level + 1, below, lines);
    } else if (value->is_array()) {
      lines.add(level, label);
      for (const Json& item : *value) {
        if (item.is_object()) {
          describe_content(item, level + 1, below, lines);
        } else {
          lines.add(level + 1, text_of_value(item));
        }
      }
    } else {
      lines.add(level, label, text_of_value(*value));
    }
  }
}

void describe_pairs(const Json& pairs, const char* title, const char* separator, DescriptionLines& lines) {
  if (!pairs.is_object() || pairs.empty()) return lines.add(0, title, kNone);
  std::map<std::string, std::string> sorted;
  for (const auto& [key, value] : pairs.items()) sorted.emplace(key, text_of_value(value));
  bool is_first = true;
  for (const auto& [key, value] : sorted) {
    const std::string text = printable(key) + separator + value;
    if (std::exchange(is_first, false)) {
      lines.add(0, title, text);
    } else {
      lines.add_value(text);
    }
  }
}

}  // namespace

std::string resource_age(int64_t seconds) {
  const int64_t minutes = seconds / 60, hours = seconds / 3600, days = seconds / 86400;
  const auto with_rest = [](int64_t many, char unit, int64_t rest, char rest_unit) {
    return rest == 0 ? fmt::format("{}{}", many, unit) : fmt::format("{}{}{}{}", many, unit, rest, rest_unit);
  };
  if (seconds < 120) return fmt::format("{}s", std::max<int64_t>(0, seconds));
  if (minutes < 10) return with_rest(minutes, 'm', seconds % 60, 's');
  if (minutes < 180) return fmt::format("{}m", minutes);
  if (hours < 8) return with_rest(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return fmt::format("{}h", hours);
  if (days < 8) return with_rest(days, 'd', hours % 24, 'h');
  if (days < 2 * 365) return fmt::format("{}d", days);
  if (days < 8 * 365) return with_rest(days / 365, 'y', days % 365, 'd');
  return fmt::format("{}y", days / 365);
}

int64_t resource_time_ms(std::string_view text) {
  constexpr size_t kLength = 20;
  if (text.size() < kLength || text.back() != 'Z' || text[10] != 'T') return -1;
  const auto part = [&](size_t begin, size_t length) {
    int value = -1;
    const char* end = text.data() + begin + length;
    const auto [stop, failed] = std::from_chars(text.data() + begin, end, value);
    return failed == std::errc() && stop == end ? value : -1;
  };
  const int year = part(0, 4), month = part(5, 2), day = part(8, 2);
  const int hour = part(11, 2), minute = part(14, 2), second = part(17, 2);
  if (year < 0 || month < 1 || day < 1 || hour < 0 || minute < 0 || second < 0) return -1;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return -1;
  const int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return ((days * 24 + hour) * 60 + minute) * 60'000 + int64_t{second} * 1000;
}

std::string resource_type(std::string_view kind) {
  std::string type(kind);
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string_view group = experiments::katib::group_of_kind(kind);
  return group.empty() ? type : fmt::format("{}.{}", type, group);
}

std::string resource_name(std::string_view kind, std::string_view name) {
  return fmt::format("{}/{}", resource_type(kind), printable(name));
}

Json resource_object(const v1::KatibResource& resource) {
  const Json object = object_of(resource);
  Json out = Json::object();
  for (const char* key : {"apiVersion", "kind", "metadata", "spec", "status"})
    if (object.contains(key)) out[key] = object[key];
  for (const auto& [key, value] : object.items())
    if (!out.contains(key)) out[key] = value;
  return out;
}

std::string resource_table(const std::vector<v1::KatibResource>& resources, int64_t now_ms,
                           const ResourceTableOptions& options, std::vector<size_t>* widths) {
  if (resources.empty()) return {};
  const std::string& kind = resources.front().kind();
  std::vector<Cells> rows;
  Cells titles;
  if (options.namespaces) titles.emplace_back("NAMESPACE");
  titles.emplace_back("NAME");
  for (std::string& title : titles_of(kind)) titles.push_back(std::move(title));
  if (options.wide) titles.insert(titles.end(), {"EXPERIMENT", "TRIAL", "JOB"});
  if (options.titles) rows.push_back(titles);
  for (const v1::KatibResource& resource : resources) {
    Cells row;
    if (options.namespaces) row.push_back(printable(resource.namespace_()));
    row.push_back(options.prefixes ? resource_name(kind, resource.name()) : printable(resource.name()));
    for (std::string& cell : cells_of(kind, object_of(resource), now_ms)) row.push_back(std::move(cell));
    if (options.wide) {
      const auto id = [](int64_t number) { return number == 0 ? std::string(kNone) : fmt::format("{}", number); };
      row.insert(row.end(), {id(resource.experiment()), id(resource.trial()),
                             resource.job().empty() ? std::string(kNone) : printable(resource.job())});
    }
    rows.push_back(std::move(row));
  }
  std::vector<size_t> own(titles.size(), 0);
  std::vector<size_t>& columns = widths == nullptr ? own : *widths;
  columns.resize(titles.size(), 0);
  for (const Cells& row : rows)
    for (size_t i = 0; i < row.size(); ++i) columns[i] = std::max(columns[i], display_width(row[i]) + kColumnGap);
  std::string text;
  for (const Cells& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text += std::string(columns[i] - display_width(row[i]), ' ');
    }
    text += '\n';
  }
  return text;
}

std::string resource_description(const v1::KatibResource& resource) {
  const Json object = object_of(resource);
  DescriptionLines lines;
  lines.add(0, "Name:", printable(resource.name()));
  lines.add(0, "Namespace:", printable(resource.namespace_()));
  describe_pairs(at(object, {"metadata", "labels"}), "Labels:", "=", lines);
  describe_pairs(at(object, {"metadata", "annotations"}), "Annotations:", ": ", lines);
  describe_content(object, 0, "", lines);
  lines.add(0, "Events:", kNone);
  return lines.text();
}

}  // namespace volador::cli
