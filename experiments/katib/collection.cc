#include "experiments/katib/collection.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace volador::experiments::katib {
namespace {

using CollectionJson = nlohmann::ordered_json;

constexpr std::array<std::pair<CollectorKind, const char*>, 7> kCollectorNames{
    {{CollectorKind::kStdOut, "StdOut"},
     {CollectorKind::kFile, "File"},
     {CollectorKind::kTensorFlowEvent, "TensorFlowEvent"},
     {CollectorKind::kPrometheus, "PrometheusMetric"},
     {CollectorKind::kCustom, "Custom"},
     {CollectorKind::kPush, "Push"},
     {CollectorKind::kNone, "None"}}};
constexpr std::array<std::pair<MetricStrategy, const char*>, 3> kStrategyNames{
    {{MetricStrategy::kMin, "min"}, {MetricStrategy::kMax, "max"}, {MetricStrategy::kLatest, "latest"}}};
constexpr std::array<std::pair<Comparison, const char*>, 3> kComparisonNames{
    {{Comparison::kEqual, "equal"}, {Comparison::kLess, "less"}, {Comparison::kGreater, "greater"}}};

template <class Value, size_t kCount>
const char* collection_name(const std::array<std::pair<Value, const char*>, kCount>& names, Value value) {
  for (const auto& [each, name] : names)
    if (each == value) return name;
  return "";
}

// JSON has no NaN and no infinities: they are texts.
CollectionJson json_of_number(double number) {
  if (std::isfinite(number)) return number;
  return fmt::format("{}", number);
}

// Reads members of an object; the first wrong one is the error.
class CollectionMembers {
 public:
  explicit CollectionMembers(const CollectionJson& object, std::string where = {})
      : object_(object), where_(std::move(where)) {}

  std::string text(const char* name) {
    const CollectionJson* found = member(name);
    if (found == nullptr || !expect(found->is_string(), name, "a text")) return {};
    return found->get<std::string>();
  }
  bool boolean(const char* name) {
    const CollectionJson* found = member(name);
    return found != nullptr && expect(found->is_boolean(), name, "true or false") && found->get<bool>();
  }
  int64_t integer(const char* name) {
    const CollectionJson* found = member(name);
    if (found == nullptr || !expect(found->is_number_integer(), name, "an integer")) return 0;
    return found->get<int64_t>();
  }
  double number(const char* name) {
    const CollectionJson* found = member(name);
    if (found == nullptr) return 0;
    if (*found == "nan") return std::nan("");
    if (*found == "inf") return HUGE_VAL;
    if (*found == "-inf") return -HUGE_VAL;
    return expect(found->is_number(), name, "a number") ? found->get<double>() : 0;
  }
  std::vector<std::string> texts(const char* name) {
    std::vector<std::string> out;
    const CollectionJson* found = member(name);
    if (found == nullptr || !expect(found->is_array(), name, "a list of texts")) return out;
    for (const CollectionJson& each : *found)
      if (expect(each.is_string(), name, "a list of texts")) out.push_back(each.get<std::string>());
    return out;
  }
  template <class Value, size_t kCount>
  Value one_of(const char* name, const std::array<std::pair<Value, const char*>, kCount>& names) {
    const std::string given = text(name);
    for (const auto& [value, each] : names)
      if (given == each) return value;
    if (!error_) fail(name, fmt::format("a name that is known, got \"{}\"", given));
    return names.front().first;
  }
  const CollectionJson& object(const char* name, bool is_list = false) {
    static const CollectionJson kNone;
    const CollectionJson* found = member(name);
    const bool fits = found != nullptr && (is_list ? found->is_array() : found->is_object());
    if (found != nullptr) expect(fits, name, is_list ? "a list" : "an object");
    return fits ? *found : kNone;
  }
  bool has(const char* name) const { return object_.is_object() && object_.contains(name); }
  void adopt(const CollectionMembers& inner) {
    if (!error_) error_ = inner.error_;
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const CollectionJson* member(const char* name) {
    if (has(name)) return &object_[name];
    if (!error_) fail(name, "a value, and there is none");
    return nullptr;
  }
  bool expect(bool holds, const char* name, const char* what) {
    if (!holds && !error_) fail(name, what);
    return holds;
  }
  void fail(const char* name, const std::string& what) {
    error_ = Error{ErrorCode::kInvalidArgument, fmt::format("collection: {}{}: expected {}", where_, name, what)};
  }

  const CollectionJson& object_;
  const std::string where_;
  std::optional<Error> error_;
};

}  // namespace

std::string to_json(const Collection& collection) {
  const Objective& objective = collection.objective;
  const Collector& collector = collection.collector;
  CollectionJson strategies = CollectionJson::object(), rules = CollectionJson::array();
  for (const auto& [metric, strategy] : objective.strategies)
    strategies[metric] = collection_name(kStrategyNames, strategy);
  for (const StoppingRule& rule : collection.rules)
    rules.push_back({{"metric", rule.metric},
                     {"value", json_of_number(rule.value)},
                     {"comparison", collection_name(kComparisonNames, rule.comparison)},
                     {"start_step", rule.start_step}});
  CollectionJson json{{"trial", collection.trial},
                      {"objective",
                       {{"maximize", objective.maximize},
                        {"metric", objective.metric},
                        {"additional_metrics", objective.additional_metrics},
                        {"strategies", std::move(strategies)}}},
                      {"collector",
                       {{"kind", collection_name(kCollectorNames, collector.kind)},
                        {"path", collector.path},
                        {"is_json", collector.is_json},
                        {"formats", collector.formats},
                        {"port", collector.port},
                        {"command", collector.command}}},
                      {"rules", std::move(rules)},
                      {"reads_numbers", collection.reads_numbers}};
  if (!collection.checkpoints.empty()) json["checkpoints"] = collection.checkpoints;
  if (collection.parent != 0) json["parent"] = collection.parent;
  if (objective.goal) json["objective"]["goal"] = json_of_number(*objective.goal);
  return json.dump(-1, ' ', false, CollectionJson::error_handler_t::replace);
}

Result<Collection> collection_from(std::string_view json) {
  const CollectionJson parsed = CollectionJson::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object())
    return make_error(ErrorCode::kInvalidArgument, "collection: expected a JSON object; this is another text");
  Collection out;
  CollectionMembers all(parsed);
  out.trial = all.text("trial");
  out.reads_numbers = all.boolean("reads_numbers");
  if (all.has("checkpoints")) out.checkpoints = all.text("checkpoints");
  if (all.has("parent")) out.parent = all.integer("parent");

  CollectionMembers objective(all.object("objective"), "objective.");
  out.objective.maximize = objective.boolean("maximize");
  out.objective.metric = objective.text("metric");
  out.objective.additional_metrics = objective.texts("additional_metrics");
  if (objective.has("goal")) out.objective.goal = objective.number("goal");
  const CollectionJson& strategies = objective.object("strategies");
  for (const auto& [metric, strategy] : strategies.items()) {
    CollectionMembers one(strategies, "objective.strategies.");
    out.objective.strategies[metric] = one.one_of(metric.c_str(), kStrategyNames);
    objective.adopt(one);
  }

  CollectionMembers collector(all.object("collector"), "collector.");
  out.collector.kind = collector.one_of("kind", kCollectorNames);
  out.collector.path = collector.text("path");
  out.collector.is_json = collector.boolean("is_json");
  out.collector.formats = collector.texts("formats");
  out.collector.port = static_cast<int>(collector.integer("port"));
  out.collector.command = collector.texts("command");

  for (const CollectionJson& given : all.object("rules", /*is_list=*/true)) {
    CollectionMembers rule(given, "rules: ");
    out.rules.push_back({.metric = rule.text("metric"),
                         .value = rule.number("value"),
                         .comparison = rule.one_of("comparison", kComparisonNames),
                         .start_step = rule.integer("start_step")});
    collector.adopt(rule);
  }
  all.adopt(objective);
  all.adopt(collector);
  if (all.error()) return make_error(*all.error());
  return out;
}

}  // namespace volador::experiments::katib
