#include "tune/metrics.h"

#include <fmt/format.h>

#include <algorithm>
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

Metrics::Entries& Metrics::own() {
  if (held_ == nullptr) {
    held_ = new Held;
  } else if (held_->holders.load(std::memory_order_acquire) > 1) {
    Metrics copy;
    copy.held_ = new Held{.entries = held_->entries};
    std::swap(held_, copy.held_);
  }
  return held_->entries;
}

Metrics::Metrics(std::initializer_list<Entry> entries) {
  if (entries.size() > 0) own().reserve(entries.size());
  for (const Entry& entry : entries) set(entry.first, entry.second);
}

const Metrics::Entry* Metrics::find(std::string_view name) const {
  for (const Entry& entry : entries()) {
    if (entry.first == name) return &entry;
  }
  return nullptr;
}

double Metrics::at(std::string_view name) const {
  if (const Entry* entry = find(name)) return entry->second;
  std::string names;
  for (const Entry& entry : entries()) names += (names.empty() ? "" : ", ") + entry.first;
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
  Entries& all = own();
  for (Entry& entry : all) {
    if (entry.first == name) return entry.second;
  }
  return all.emplace_back(std::string(name), 0.0).second;
}

void Metrics::take(const Metrics& other, size_t behind) {
  const auto same_name = [](const Entry& one, const Entry& two) { return one.first == two.first; };
  if (size() != other.size() + behind || !std::equal(other.begin(), other.end(), begin(), same_name)) {
    Metrics fresh;
    fresh.own().reserve(other.size() + behind);
    fresh.own().assign(other.begin(), other.end());
    std::swap(held_, fresh.held_);
    return;
  }
  Entries& all = own();
  for (size_t i = 0; i < other.size(); ++i) all[i].second = other.entries()[i].second;
}

void Metrics::erase(std::string_view name) {
  if (contains(name)) std::erase_if(own(), [&](const Entry& entry) { return entry.first == name; });
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
  for (const auto& [name, value] : entries()) {
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
