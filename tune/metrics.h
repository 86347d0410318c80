// What a trial reports: named numbers in the order they were reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/result.h"

namespace volador {
class Decoder;
class Encoder;
}  // namespace volador

namespace volador::tune {

// Which direction of a metric is better.
enum class Mode : uint8_t { kMax, kMin };
std::string_view to_string(Mode mode);  // "max", "min".

// Whether a is strictly better than b. NaN is worse than everything, infinities included.
bool better(double a, double b, Mode mode);

// return {{"accuracy", accuracy}, {"loss", loss}};
class Metrics {
 public:
  using Entry = std::pair<std::string, double>;

  Metrics() = default;
  Metrics(std::initializer_list<Entry> entries);  // Of a name written twice the last value counts.

  // Throws volador::Exception(kNotFound) that names the metrics there are.
  double at(std::string_view name) const;
  std::optional<double> get(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  void set(std::string_view name, double value);
  double& operator[](std::string_view name);  // Makes a 0 where absent.
  void erase(std::string_view name);

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  // {"accuracy":0.9}; NaN and infinities stand as "nan", "inf", "-inf" and come back exactly.
  std::string to_json() const;
  static Result<Metrics> from_json(std::string_view json);  // kInvalidArgument: not an object of numbers.

  bool operator==(const Metrics& other) const;  // NaN equals NaN; the order of names does not count.

 private:
  const Entry* find(std::string_view name) const;
  std::vector<Entry> entries_;
};

// Metrics travel in calls.
void volador_encode(Encoder& encoder, const Metrics& metrics);
void volador_decode(Decoder& decoder, Metrics& metrics);

}  // namespace volador::tune
