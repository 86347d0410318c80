// A YAML or JSON value: null, Boolean, number, text, list or map, each with its place in the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace volador::yaml {

// Where a value or key begins. A value that no file has, such as a default, has line 0.
struct Place {
  std::shared_ptr<const std::string> file;
  int line = 0;    // From 1.
  int column = 0;  // From 1, in characters.

  bool is_known() const { return line > 0; }
  // "distributed.yaml:14:15"; empty if unknown.
  std::string text() const;
};

enum class Kind : uint8_t { kNull, kBoolean, kInteger, kNumber, kText, kList, kMap };

struct Entry;

struct Value {
  Kind kind = Kind::kNull;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;  // Finite.
  std::string text;
  std::vector<Value> items;
  std::vector<Entry> entries;  // In the order of the file; each key once.
  Place place;

  static Value of_boolean(bool value);
  static Value of_integer(int64_t value);
  static Value of_number(double value);
  static Value of_text(std::string value);
  static Value list();
  static Value map();

  bool is_null() const { return kind == Kind::kNull; }
  bool is_text() const { return kind == Kind::kText; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }
  // Whether it is an integer or another number.
  bool is_number() const { return kind == Kind::kInteger || kind == Kind::kNumber; }
  // The value of an integer or another number.
  double as_number() const { return kind == Kind::kInteger ? static_cast<double>(integer) : number; }

  // Entry of a map; null pointer: there is none.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  // Replaces the entry of the key, or adds it at the end.
  void set(std::string_view key, Value value);
  void erase(std::string_view key);
};

struct Entry {
  std::string key;
  Place place;  // Where the key begins.
  Value value;
};

// Compares the contents: places and the order of maps make no difference. The integer 1 differs from the number 1.0.
bool operator==(const Value& a, const Value& b);

// Number of values in it, itself included.
size_t count(const Value& value);

}  // namespace volador::yaml
