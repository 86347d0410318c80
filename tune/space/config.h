// The configuration of one trial: an ordered, nested value. The errors of the accessors name the path, the value found
// there and the available names.
//
//   config.real("lr")   config.integer("model.width")   config["model"].integer("width")   config.get_or("momentum",
//   0.9)
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/result.h"
#include "tune/counted.h"

namespace volador {
class Decoder;
class Encoder;
}  // namespace volador

namespace volador::tune {

struct ConfigEntry;

class Config {
 public:
  enum class Kind : uint8_t { kNull, kBoolean, kInteger, kReal, kText, kList, kMap };
  using List = std::vector<Config>;
  using Map = std::vector<ConfigEntry>;  // In insertion order; names are unique.

  Config() = default;  // Null.
  Config(const Config&);
  Config(Config&&) noexcept;
  Config& operator=(const Config&);
  Config& operator=(Config&&) noexcept;
  ~Config();
  Config(std::nullptr_t);
  template <std::same_as<bool> T>
  Config(T value) : Config(Scalar(value)) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Config(T value) : Config(Scalar(checked(value))) {}
  template <std::floating_point T>
  Config(T value) : Config(Scalar(static_cast<double>(value))) {}
  Config(const char* value);
  Config(std::string value);
  Config(std::string_view value);
  template <class T>
  Config(const std::vector<T>& values) {
    value_.template emplace<List>(values.begin(), values.end());
  }
  // A map: {{"lr", 0.1}, {"model", {{"width", 32}}}}. A name written twice throws kInvalidArgument.
  Config(std::initializer_list<ConfigEntry> entries);
  static Config list(std::initializer_list<Config> values);
  static Config map();            // Empty.
  static Config of(Map entries);  // Requires unique names.

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is_null() const { return kind() == Kind::kNull; }
  bool is_map() const { return kind() == Kind::kMap; }
  bool is_list() const { return kind() == Kind::kList; }
  size_t size() const;         // Number of items of a list or map; 0 for other kinds.
  const List& items() const;   // Empty unless this is a list.
  const Map& entries() const;  // Empty unless this is a map.

  // A path is names joined by dots: "model.width". All of these throw volador::Exception(kInvalidArgument) if the path
  // is absent or the value has another kind; real() also accepts integers. The empty path names the value itself.
  double real(std::string_view path = {}) const;
  int64_t integer(std::string_view path = {}) const;
  bool boolean(std::string_view path = {}) const;
  std::string text(std::string_view path = {}) const;
  // Returns a copy that records its origin, so that errors of its accessors name the whole path.
  Config operator[](std::string_view path) const;
  Config operator[](size_t index) const;  // Requires a list.

  bool contains(std::string_view path) const { return find(path) != nullptr; }
  const Config* find(std::string_view path) const;  // Null if absent; valid until this value changes.

  // Returns the value, or the default if the path is absent; throws if the value has another kind.
  double get_or(std::string_view path, double otherwise) const { return contains(path) ? real(path) : otherwise; }
  template <std::integral T>
  requires(!std::same_as<T, bool>) int64_t get_or(std::string_view path, T otherwise)
  const { return contains(path) ? integer(path) : static_cast<int64_t>(otherwise); }
  template <std::same_as<bool> T>
  bool get_or(std::string_view path, T otherwise) const {
    return contains(path) ? boolean(path) : otherwise;
  }
  std::string get_or(std::string_view path, const char* otherwise) const {
    return contains(path) ? text(path) : otherwise;
  }
  std::string get_or(std::string_view path, const std::string& otherwise) const {
    return contains(path) ? text(path) : otherwise;
  }

  // Sets one value and creates missing maps on the path; throws kInvalidArgument if the path leads through a value that
  // is not a map.
  void set(std::string_view path, Config value);
  void push_back(Config value);  // Null becomes a list; throws kInvalidArgument for other kinds.

  // Returns the leaves with their paths, in order: {"model.width", 32}. Lists and empty maps are leaves.
  std::vector<std::pair<std::string, Config>> flatten() const;

  // Doubles round-trip exactly. NaN and infinities are written as "nan", "inf", "-inf" and are read back as numbers.
  std::string to_json() const;
  static Result<Config> from_json(std::string_view json);  // kInvalidArgument: invalid JSON, or nested more than 64
                                                           // deep.

  // Compares by value. Kinds must match (2 differs from 2.0), NaN equals NaN, the order of names matters.
  bool operator==(const Config& other) const;

 private:
  using Scalar = std::variant<bool, int64_t, double>;
  explicit Config(Scalar scalar);
  template <std::integral T>
  static int64_t checked(T value) {
    if (!std::in_range<int64_t>(value)) too_large();
    return static_cast<int64_t>(value);
  }
  [[noreturn]] static void too_large();
  const Config& at(std::string_view path) const;
  [[noreturn]] void refuse_kind(std::string_view path, const Config& found, std::string_view wanted) const;

  std::variant<std::monostate, bool, int64_t, double, std::string, List, Map> value_;
  std::string_view origin() const { return at_ ? std::string_view(*at_) : std::string_view(); }
  Counted<std::string> at_;  // The path that this copy was taken from; used in errors only.
};

struct ConfigEntry {
  ConfigEntry(std::string name_in, Config value_in) : name(std::move(name_in)), value(std::move(value_in)) {}
  std::string name;
  Config value;
  bool operator==(const ConfigEntry&) const = default;
};

// Defined here because the members of Config require a complete ConfigEntry.
inline Config::Config(const Config&) = default;
inline Config::Config(Config&&) noexcept = default;
inline Config& Config::operator=(const Config&) = default;
inline Config& Config::operator=(Config&&) noexcept = default;
inline Config::~Config() = default;

std::string_view to_string(Config::Kind kind);  // "a real number", "nothing", …
// The shortest text that reads back as the same double; "nan", "inf", "-inf".
std::string format_real(double value);
// Returns text unchanged and everything else as JSON; used in tables and messages.
std::string to_text(const Config& value);

// Serialisation of arguments and results of calls.
void volador_encode(Encoder& encoder, const Config& config);
void volador_decode(Decoder& decoder, Config& config);

}  // namespace volador::tune
