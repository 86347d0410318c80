#include "dashboard/actor_metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "dashboard/json_text.h"
#include "dashboard/row_text.h"

namespace volador::dashboard {
namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

// Help lines need escaped line breaks and backslashes.
std::string help_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string labels_text(const std::string& actor, const ActorMetrics::Labels& of, const v1::MetricSeries& series) {
  std::string out = fmt::format("actor=\"{}\"", label_text(actor));
  if (!of.name.empty()) out += fmt::format(",name=\"{}\"", label_text(of.name));
  out += fmt::format(",namespace=\"{}\",class=\"{}\",node=\"{}\"", label_text(of.actor_namespace),
                     label_text(of.class_name), label_text(of.node));
  for (const auto& [label, value] :
       std::map<std::string, std::string>(series.labels().begin(), series.labels().end())) {
    out += fmt::format(",{}=\"{}\"", label, label_text(value));
  }
  return out;
}

void append_series(std::string& out, const std::string& family, const std::string& labels,
                   const v1::MetricSeries& series) {
  if (series.kind() != "histogram") {
    out += fmt::format("{}{{{}}} {}\n", family, labels, number_text(series.value()));
    return;
  }
  uint64_t sum = 0;
  for (int at = 0; at < series.counts_size(); ++at) {
    sum += series.counts(at);
    const std::string bound = at < series.bounds_size() ? number_text(series.bounds(at)) : "+Inf";
    out += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", family, labels, bound, sum);
  }
  out += fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", family, labels, number_text(series.value()), sum);
}

}  // namespace

std::string label_text(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\\' || c == '"') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted;
}

void ActorMetrics::forget(const std::string& actor) {
  const auto found = actors_.find(actor);
  if (found == actors_.end()) return;
  series_ -= static_cast<size_t>(found->second.series_size());
  actors_.erase(found);
}

void ActorMetrics::apply(const v1::ActorMetrics& metrics) {
  forget(metrics.id());
  v1::ActorMetrics& kept = actors_[metrics.id()];
  kept = metrics;
  const size_t room = series_max_ - series_;
  const auto count = static_cast<size_t>(kept.series_size());
  if (count > room) {
    kept.mutable_series()->DeleteSubrange(static_cast<int>(room), static_cast<int>(count - room));
    kept.set_left_out(kept.left_out() + (count - room));
  }
  series_ += static_cast<size_t>(kept.series_size());
}

const v1::ActorMetrics* ActorMetrics::find(const std::string& actor) const {
  const auto found = actors_.find(actor);
  return found == actors_.end() ? nullptr : &found->second;
}

uint64_t ActorMetrics::left_out() const {
  uint64_t sum = 0;
  for (const auto& [id, metrics] : actors_) sum += metrics.left_out();
  return sum;
}

void ActorMetrics::append_prometheus(std::string& out,
                                     const std::function<Labels(const std::string& actor)>& labels_of) const {
  using Row = std::pair<const std::string*, const v1::MetricSeries*>;
  std::map<std::string_view, std::vector<Row>> families;
  for (const auto& [id, metrics] : actors_) {
    for (const v1::MetricSeries& series : metrics.series()) families[series.name()].emplace_back(&id, &series);
  }
  std::map<std::string_view, Labels> labels;
  for (const auto& [name, rows] : families) {
    const std::string family = fmt::format("volador_app_{}", name);
    const v1::MetricSeries& first = *rows.front().second;
    out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", family,
                       help_text(first.help().empty() ? "Of actors." : first.help()), first.kind());
    for (const auto& [actor, series] : rows) {
      if (series->kind() != first.kind()) continue;
      auto known = labels.find(*actor);
      if (known == labels.end()) known = labels.emplace(*actor, labels_of(*actor)).first;
      append_series(out, family, labels_text(*actor, known->second, *series), *series);
    }
  }
}

std::string actor_metrics_json(const v1::ActorMetrics* metrics) {
  std::string text;
  JsonObject object(text);
  std::string series = "[";
  if (metrics != nullptr) {
    for (const v1::MetricSeries& one : metrics->series()) {
      if (series.size() > 1) series += ',';
      JsonObject row(series);
      row.text("name", one.name());
      row.text("kind", one.kind());
      row.text("help", one.help());
      row.raw("labels", texts_text(one.labels()));
      row.number("value", one.value());
      if (one.kind() == "histogram") {
        std::string bounds = "[", counts = "[";
        for (const double bound : one.bounds()) {
          if (bounds.size() > 1) bounds += ',';
          append_json_number(bounds, bound);
        }
        for (const uint64_t count : one.counts()) counts += (counts.size() > 1 ? "," : "") + std::to_string(count);
        row.raw("bounds", bounds + "]");
        row.raw("counts", counts + "]");
      }
      row.end();
    }
  }
  object.raw("series", series + "]");
  object.integer("left_out", metrics == nullptr ? 0 : static_cast<int64_t>(metrics->left_out()));
  object.end();
  return text;
}

}  // namespace volador::dashboard
