#include "tune/metrics.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/serialize/codec.h"
#include "tune/config.h"

namespace volador::tune {

std::string_view to_string(Mode mode) { return mode == Mode::kMax ? "max" : "min"; }

bool better(double a, double b, Mode mode) {
  if (std::isnan(a)) return false;
  if (std::isnan(b)) return true;
  return mode == Mode::kMax ? a > b : a < b;
}

Metrics::Metrics(std::initializer_list<Entry> entries) {
  entries_.reserve(entries.size());
  for (const Entry& entry : entries) set(entry.first, entry.second);
}

const Metrics::Entry* Metrics::find(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.first == name) return &entry;
  }
  return nullptr;
}

double Metrics::at(std::string_view name) const {
  if (const Entry* entry = find(name)) return entry->second;
  std::string names;
  for (const Entry& entry : entries_) names += (names.empty() ? "" : ", ") + entry.first;
  throw Exception(Error{ErrorCode::kNotFound, fmt::format("metrics: there is no \"{}\"; there are: {}", name,
                                                          names.empty() ? "none" : names)});
}

std::optional<double> Metrics::get(std::string_view name) const {
  const Entry* entry = find(name);
  if (entry == nullptr) return std::nullopt;
  return entry->second;
}

void Metrics::set(std::string_view name, double value) { (*this)[name] = value; }

double& Metrics::operator[](std::string_view name) {
  for (Entry& entry : entries_) {
    if (entry.first == name) return entry.second;
  }
  return entries_.emplace_back(std::string(name), 0.0).second;
}

void Metrics::erase(std::string_view name) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.first == name; });
}

std::string Metrics::to_json() const {
  Config::Map entries;
  entries.reserve(entries_.size());
  for (const auto& [name, value] : entries_) entries.emplace_back(name, value);
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
  for (const auto& [name, value] : entries_) {
    const Entry* theirs = other.find(name);
    if (theirs == nullptr) return false;
    if (theirs->second != value && !(std::isnan(value) && std::isnan(theirs->second))) return false;
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
