#include "tune/loop/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/serialize/codec.h"
#include "tune/space/config.h"

namespace volador::tune {

std::string_view to_string(Mode mode) { return mode == Mode::kMax ? "max" : "min"; }

bool is_result(double value) { return std::isfinite(value); }

double result_or_nan(double value) { return is_result(value) ? value : std::numeric_limits<double>::quiet_NaN(); }

bool better(double a, double b, Mode mode) {
  if (!is_result(a)) return false;
  if (!is_result(b)) return true;
  return mode == Mode::kMax ? a > b : a < b;
}

Metrics::Held& Metrics::own() {
  if (!held_) held_ = Counted<Held>::of({Names::of({}), {}});
  return held_.own();
}

Metrics::Metrics(std::initializer_list<Entry> entries) {
  for (const Entry& entry : entries) set(entry.first, entry.second);
}

size_t Metrics::find(std::string_view name) const {
  if (!held_) return kNone;
  const std::vector<std::string>& names = *held_->names;
  for (size_t at = 0; at < names.size(); ++at) {
    if (names[at] == name) return at;
  }
  return kNone;
}

double Metrics::at(std::string_view name) const {
  if (const size_t at = find(name); at != kNone) return held_->values[at];
  std::string names;
  for (const auto& [one, value] : *this) names += (names.empty() ? "" : ", ") + one;
  throw Exception(Error{ErrorCode::kNotFound, fmt::format("metrics: there is no \"{}\"; there are: {}", name,
                                                          names.empty() ? "none" : names)});
}

std::optional<double> Metrics::get(std::string_view name) const {
  const size_t at = find(name);
  return at == kNone ? std::nullopt : std::optional(held_->values[at]);
}

void Metrics::set(std::string_view name, double value) { (*this)[name] = value; }

double& Metrics::operator[](std::string_view name) {
  Held& held = own();
  if (const size_t at = find(name); at != kNone) return held.values[at];
  held.names.own().emplace_back(name);
  return held.values.emplace_back(0.0);
}

bool Metrics::has_names(const Metrics& front, std::initializer_list<std::pair<std::string_view, double>> behind) const {
  if (!held_ || size() != front.size() + behind.size()) return false;
  const auto middle = held_->names->begin() + static_cast<std::ptrdiff_t>(front.size());
  if (front.held_ && !std::equal(held_->names->begin(), middle, front.held_->names->begin())) return false;
  return std::equal(behind.begin(), behind.end(), middle,
                    [](const auto& one, const std::string& name) { return one.first == name; });
}

void Metrics::take(const Metrics& other, std::initializer_list<std::pair<std::string_view, double>> behind,
                   const Metrics& like) {
  const bool likes = like.has_names(other, behind);
  const bool same = likes ? held_ && held_->names == like.held_->names : has_names(other, behind);
  if (!likes && !same) {
    *this = other;
    for (const auto& [name, value] : behind) set(name, value);
    return;
  }
  if (!same || !held_.is_alone()) {
    held_ = Counted<Held>::of(
        {likes ? like.held_->names : held_->names, std::vector<double>(other.size() + behind.size())});
  }
  auto out = held_.own().values.begin();
  if (other.held_) out = std::copy(other.held_->values.begin(), other.held_->values.end(), out);
  for (const auto& [name, value] : behind) *out++ = value;
}

void Metrics::erase(std::string_view name) {
  const size_t at = find(name);
  if (at == kNone) return;
  Held& held = own();
  std::vector<std::string>& names = held.names.own();
  names.erase(names.begin() + static_cast<std::ptrdiff_t>(at));
  held.values.erase(held.values.begin() + static_cast<std::ptrdiff_t>(at));
}

std::string Metrics::to_json() const {
  Config::Map entries;
  entries.reserve(size());
  for (const auto& [name, value] : *this) entries.emplace_back(name, value);
  return Config::of(std::move(entries)).to_json();
}

Result<Metrics> Metrics::from_json(std::string_view json) {
  auto config = Config::from_json(json);
  if (!config) return make_error(config.error());
  if (!config->is_map())
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("metrics: expected an object of numbers, got {}", to_string(config->kind())));
  Metrics metrics;
  for (const ConfigEntry& entry : config->entries()) {
    if (entry.value.kind() != Config::Kind::kReal && entry.value.kind() != Config::Kind::kInteger) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("metrics: \"{}\" is {}, expected a number", entry.name,
                                                                 to_string(entry.value.kind())));
    }
    metrics.set(entry.name, entry.value.real());
  }
  return metrics;
}

bool Metrics::operator==(const Metrics& other) const {
  if (size() != other.size()) return false;
  for (const auto& [name, value] : *this) {
    const std::optional<double> theirs = other.get(name);
    if (!theirs) return false;
    if (*theirs != value && !(std::isnan(value) && std::isnan(*theirs))) return false;
  }
  return true;
}

void volador_encode(Encoder& encoder, const Metrics& metrics) {
  encoder.map(metrics.size());
  for (const auto& [name, value] : metrics) {
    encoder.text(name);
    encoder.real(value);
  }
}

void volador_decode(Decoder& decoder, Metrics& metrics) {
  metrics = Metrics();
  const size_t count = decoder.map();
  for (size_t i = 0; i < count && !decoder.failed(); ++i) {
    const std::string name(decoder.text());
    const double value = decoder.real();
    if (!decoder.failed()) metrics.set(name, value);
  }
}

}  // namespace volador::tune
