// What a trial reports: named numbers in the order they were reported.
#pragma once

#include <atomic>
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
//
// Copies share what they hold until one of them changes: a result goes to loggers, tables and the journal for nothing.
class Metrics {
 public:
  using Entry = std::pair<std::string, double>;

  Metrics() = default;
  Metrics(std::initializer_list<Entry> entries);  // Of a name written twice the last value counts.
  Metrics(const Metrics& other) : held_(other.held_) {
    if (held_ != nullptr) held_->holders.fetch_add(1, std::memory_order_relaxed);
  }
  Metrics(Metrics&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  Metrics& operator=(Metrics other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~Metrics() {
    if (held_ != nullptr && held_->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete held_;
  }

  // Throws volador::Exception(kNotFound) that names the metrics there are.
  double at(std::string_view name) const;
  std::optional<double> get(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  void set(std::string_view name, double value);
  double& operator[](std::string_view name);  // Makes a 0 where absent.
  void erase(std::string_view name);
  // Becomes another one, with room for so many more behind it. Where its names stand first here, in their order, and so many more behind
  // them, these stay, and nothing is allocated as long as there are no copies.
  void take(const Metrics& other, size_t behind);

  size_t size() const { return entries().size(); }
  bool empty() const { return entries().empty(); }
  auto begin() const { return entries().begin(); }
  auto end() const { return entries().end(); }

  // {"accuracy":0.9}; NaN and infinities stand as "nan", "inf", "-inf" and come back exactly.
  std::string to_json() const;
  static Result<Metrics> from_json(std::string_view json);  // kInvalidArgument: not an object of numbers.

  bool operator==(const Metrics& other) const;  // NaN equals NaN; the order of names does not count.

 private:
  using Entries = std::vector<Entry>;
  struct Held {
    std::atomic<int64_t> holders = 1;
    Entries entries;
  };

  const Entry* find(std::string_view name) const;
  const Entries& entries() const { return held_ == nullptr ? kNone : held_->entries; }
  Entries& own();  // No other one's.

  static inline const Entries kNone{};
  Held* held_ = nullptr;  // Null: empty.
};

// Metrics travel in calls.
void volador_encode(Encoder& encoder, const Metrics& metrics);
void volador_decode(Decoder& decoder, Metrics& metrics);

}  // namespace volador::tune
