#include "dashboard/downloads.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "dashboard/csv_text.h"
#include "dashboard/request_guard.h"
#include "runtime/text.h"

namespace volador::dashboard {
namespace {

using Value = nlohmann::json;

constexpr size_t kCsvPieceBytes = 64 << 10;
constexpr size_t kRowsATurn = 500;  // About 5 ms of parsing.
constexpr size_t kColumnsMax = 2000;

// Nested members become "a.b"; lists stay JSON.
void flatten(const Value& value, const std::string& path,
             const std::function<void(const std::string&, const Value&)>& visit) {
  if (!value.is_object()) return visit(path, value);
  for (const auto& [key, inner] : value.items()) flatten(inner, path.empty() ? key : path + "." + key, visit);
}

std::string cell_of(const Value& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Value::error_handler_t::replace);
}

// Joins the texts of a list, which contain no spaces, with spaces.
std::string words_of(const Value& list) {
  std::string words;
  for (const Value& one : list) words += (words.empty() ? "" : " ") + cell_of(one);
  return words;
}

class TrialsCsv final : public BodySource, public std::enable_shared_from_this<TrialsCsv> {
 public:
  TrialsCsv(const LiveModel& model, ToHere to_here, std::string experiment)
      : model_(model), to_here_(std::move(to_here)), experiment_(std::move(experiment)) {}

  void next(Done done) override {
    if (!columns_known_) return collect(std::move(done));
    std::string out;
    if (!std::exchange(titled_, true)) title(out);
    size_t rows = 0;
    for (const LiveTable::Row* row = following(); row != nullptr; row = following()) {
      append(Value::parse(row->text, nullptr, false), out);
      if (out.size() >= kCsvPieceBytes || ++rows >= kRowsATurn) break;
    }
    done(std::move(out));
  }

 private:
  // The next row by id; null: no more rows.
  const LiveTable::Row* following() {
    const auto& rows = model_.table(Topic::kTrials).rows();
    const auto at = last_.empty() ? rows.lower_bound(trial_key(experiment_, "")) : rows.upper_bound(last_);
    if (at == rows.end() || at->second.group != experiment_) return nullptr;
    last_ = at->first;
    return &at->second;
  }

  void collect(Done done) {
    size_t rows = 0;
    while (rows < kRowsATurn) {
      const LiveTable::Row* row = following();
      if (row == nullptr) {
        columns_known_ = true;
        last_.clear();
        break;
      }
      ++rows;
      const Value trial = Value::parse(row->text, nullptr, false);
      if (!trial.is_object()) continue;
      for (const char* part : {"config", "metrics"}) {
        if (!trial.contains(part)) continue;
        flatten(trial[part], part, [this](const std::string& path, const Value&) {
          if (columns_.size() < kColumnsMax) columns_.emplace(path, columns_.size());
        });
      }
    }
    to_here_([self = shared_from_this(), done = std::move(done)] { self->next(done); });
  }

  void title(std::string& out) {
    // The map is sorted by name: configuration before metrics.
    size_t place = 0;
    for (auto& [path, at] : columns_) at = place++;
    CsvRow row(out);
    for (const char* name : {"trial", "name", "status", "node", "step"}) row.cell(name);
    for (const auto& [path, at] : columns_) row.cell(path);
    row.cell("tags").cell("reason").cell("error").end();
  }

  void append(const Value& trial, std::string& out) const {
    if (!trial.is_object()) return;
    std::vector<std::string> cells(columns_.size());
    for (const char* part : {"config", "metrics"}) {
      if (!trial.contains(part)) continue;
      flatten(trial[part], part, [&](const std::string& path, const Value& value) {
        if (const auto column = columns_.find(path); column != columns_.end()) cells[column->second] = cell_of(value);
      });
    }
    CsvRow row(out);
    row.cell(cell_of(trial.value("id", Value()))).cell(cell_of(trial.value("name", trial.value("id", Value()))));
    for (const char* name : {"status", "node", "step"}) row.cell(cell_of(trial.value(name, Value())));
    for (const std::string& cell : cells) row.cell(cell);
    row.cell(words_of(trial.value("tags", Value::array())))
        .cell(cell_of(trial.value("reason", Value())))
        .cell(cell_of(trial.value("error", Value())))
        .end();
  }

  const LiveModel& model_;
  const ToHere to_here_;
  const std::string experiment_;
  std::string last_;
  std::map<std::string, size_t> columns_;
  bool columns_known_ = false;
  bool titled_ = false;
};

class CurvesCsv final : public BodySource {
 public:
  CurvesCsv(const LiveModel& model, std::string experiment, std::vector<std::string> metrics)
      : model_(model), experiment_(std::move(experiment)), metrics_(std::move(metrics)) {}

  void next(Done done) override {
    std::string out;
    if (!std::exchange(titled_, true)) CsvRow(out).cell("trial").cell("metric").cell("step").cell("value").end();
    while (metric_ < metrics_.size() && out.size() < kCsvPieceBytes) append_line(out);
    done(std::move(out));
  }

 private:
  void append_line(std::string& out) {
    const std::string& metric = metrics_[metric_];
    const LiveCurves* curves = model_.curves(experiment_, metric);
    const auto at = curves == nullptr ? decltype(curves->lines().begin())()
                    : last_.empty()   ? curves->lines().begin()
                                      : curves->lines().upper_bound(last_);
    if (curves == nullptr || at == curves->lines().end()) {
      ++metric_;
      last_.clear();
      return;
    }
    last_ = at->first;
    for (const LiveCurves::Point& point : at->second.points)
      CsvRow(out).cell(at->first).cell(metric).number(point.x()).number(point.y()).end();
  }

  const LiveModel& model_;
  const std::string experiment_;
  const std::vector<std::string> metrics_;
  size_t metric_ = 0;
  std::string last_;  // Last line of the metric.
  bool titled_ = false;
};

// Whether YAML would read plain text as a number, boolean or null.
bool reads_otherwise(const std::string& text) {
  static const std::set<std::string> kWords{"",   "~",   "null", "true", "false", "yes",  "no",
                                            "on", "off", "y",    "n",    ".nan",  ".inf", "-.inf"};
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return kWords.contains(lower_case(text)) || end == text.c_str() + text.size();
}

void emit(YAML::Emitter& out, const nlohmann::ordered_json& value) {
  if (value.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, inner] : value.items()) {
      if (reads_otherwise(key)) out << YAML::DoubleQuoted;
      out << YAML::Key << key << YAML::Value;
      emit(out, inner);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    out << YAML::Flow << YAML::BeginSeq;
    for (const auto& inner : value) emit(out, inner);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    const auto text = value.get<std::string>();
    if (reads_otherwise(text)) out << YAML::DoubleQuoted;
    out << text;
  } else if (value.is_null()) {
    out << YAML::Null;
  } else {
    out << value.dump();
  }
}

}  // namespace

std::shared_ptr<BodySource> trials_csv(const LiveModel& model, ToHere to_here, std::string experiment) {
  return std::make_shared<TrialsCsv>(model, std::move(to_here), std::move(experiment));
}

std::shared_ptr<BodySource> curves_csv(const LiveModel& model, std::string experiment, std::string metric) {
  std::vector<std::string> metrics =
      metric.empty() ? model.metrics_of(experiment) : std::vector<std::string>{std::move(metric)};
  return std::make_shared<CurvesCsv>(model, std::move(experiment), std::move(metrics));
}

std::string yaml_text(const nlohmann::ordered_json& value) {
  YAML::Emitter out;
  emit(out, value);
  return std::string(out.c_str()) + "\n";
}

std::string safe_file_name(std::string_view text) {
  std::string name;
  for (const char c : text.substr(0, 150)) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    name += plain ? c : '_';
  }
  if (name.starts_with('.')) name[0] = '_';
  return name.empty() ? "_" : name;
}

}  // namespace volador::dashboard
