// Metrics reported by a trial: named numbers in the order reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/result.h"
#include "tune/counted.h"

namespace volador {
class Decoder;
class Encoder;
}  // namespace volador

namespace volador::tune {

// Direction in which a metric improves.
enum class Mode : uint8_t { kMax, kMin };
std::string_view to_string(Mode mode);  // "max", "min".

// Returns whether trials can be compared by the value. NaN and both infinities are not results (an infinity comes from
// an overflow, a division by zero or the logarithm of 0): they rank behind all numbers, equal to each other, and are
// never the best. Searchers, schedulers, studies, stop conditions and tables share this rule.
bool is_result(double value);
// Returns NaN if the value is not a result.
double result_or_nan(double value);
// Returns whether a is strictly better than b, by the rule of is_result().
bool better(double a, double b, Mode mode);

// return {{"accuracy", accuracy}, {"loss", loss}};
//
// Copies share their data until one of them changes, so that passing a result to loggers, tables and the journal costs
// nothing. Results with the same names share the names.
class Metrics {
 public:
  using Entry = std::pair<std::string, double>;
  using Names = Counted<std::vector<std::string>>;

  Metrics() = default;
  Metrics(std::initializer_list<Entry> entries);  // If a name is written twice, the last value counts.

  // Throws volador::Exception(kNotFound) that names the available metrics.
  double at(std::string_view name) const;
  std::optional<double> get(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != kNone; }
  void set(std::string_view name, double value);
  double& operator[](std::string_view name);  // Inserts 0 if absent.
  void erase(std::string_view name);
  // Replaces the contents by `other` followed by `behind`, whose values win for equal names. If the resulting names
  // equal the present ones or those of `like`, that name list is reused; nothing is allocated while no copies exist.
  void take(const Metrics& other, std::initializer_list<std::pair<std::string_view, double>> behind,
            const Metrics& like);

  size_t size() const { return held_ ? held_->values.size() : 0; }
  bool empty() const { return size() == 0; }
  // In the order reported; null: empty. Equal pointers imply equal names.
  Names names() const { return held_ ? held_->names : Names(); }

  // Iterates over pairs of name and value: for (const auto& [name, value] : metrics).
  class Iterator {
   public:
    using value_type = std::pair<const std::string&, const double&>;
    using reference = value_type;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    Iterator() = default;
    Iterator(const std::string* name, const double* value) : name_(name), value_(value) {}
    value_type operator*() const { return {*name_, *value_}; }
    Iterator& operator++() {
      ++name_;
      ++value_;
      return *this;
    }
    Iterator operator++(int) { return std::exchange(*this, {name_ + 1, value_ + 1}); }
    bool operator==(const Iterator& other) const { return value_ == other.value_; }

   private:
    const std::string* name_ = nullptr;
    const double* value_ = nullptr;
  };
  Iterator begin() const { return held_ ? Iterator(held_->names->data(), held_->values.data()) : Iterator(); }
  Iterator end() const {
    return held_ ? Iterator(held_->names->data() + size(), held_->values.data() + size()) : Iterator();
  }

  // {"accuracy":0.9}; NaN and infinities are written as "nan", "inf", "-inf" and round-trip exactly.
  std::string to_json() const;
  static Result<Metrics> from_json(std::string_view json);  // kInvalidArgument: not an object of numbers.

  bool operator==(const Metrics& other) const;  // NaN equals NaN; the order of names does not matter.

 private:
  struct Held {
    Names names;  // As many as values.
    std::vector<double> values;
  };
  static constexpr size_t kNone = static_cast<size_t>(-1);

  size_t find(std::string_view name) const;
  Held& own();  // Returns data that no other copy shares.
  bool has_names(const Metrics& front, std::initializer_list<std::pair<std::string_view, double>> behind) const;

  Counted<Held> held_;  // Null: empty.
};

// Serialisation of arguments and results of calls.
void volador_encode(Encoder& encoder, const Metrics& metrics);
void volador_decode(Decoder& decoder, Metrics& metrics);

}  // namespace volador::tune
