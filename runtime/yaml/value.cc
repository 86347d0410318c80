#include "runtime/yaml/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace volador::yaml {

std::string Place::text() const {
  if (!is_known()) return {};
  return fmt::format("{}:{}:{}", file ? *file : std::string(), line, column);
}

Value Value::of_boolean(bool value) {
  Value made;
  made.kind = Kind::kBoolean;
  made.boolean = value;
  return made;
}

Value Value::of_integer(int64_t value) {
  Value made;
  made.kind = Kind::kInteger;
  made.integer = value;
  return made;
}

Value Value::of_number(double value) {
  Value made;
  made.kind = Kind::kNumber;
  made.number = value;
  return made;
}

Value Value::of_text(std::string value) {
  Value made;
  made.kind = Kind::kText;
  made.text = std::move(value);
  return made;
}

Value Value::list() {
  Value made;
  made.kind = Kind::kList;
  return made;
}

Value Value::map() {
  Value made;
  made.kind = Kind::kMap;
  return made;
}

const Value* Value::find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() ? nullptr : &found->value;
}

Value* Value::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

void Value::set(std::string_view key, Value value) {
  if (Value* present = find(key)) {
    *present = std::move(value);
    return;
  }
  const Place of_value = value.place;
  entries.push_back({std::string(key), of_value, std::move(value)});
}

void Value::erase(std::string_view key) {
  std::erase_if(entries, [&](const Entry& entry) { return entry.key == key; });
}

bool operator==(const Value& a, const Value& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kNull:
      return true;
    case Kind::kBoolean:
      return a.boolean == b.boolean;
    case Kind::kInteger:
      return a.integer == b.integer;
    case Kind::kNumber:
      return a.number == b.number;
    case Kind::kText:
      return a.text == b.text;
    case Kind::kList:
      return a.items == b.items;
    case Kind::kMap:
      break;
  }
  if (a.entries.size() != b.entries.size()) return false;
  const auto sorted = [](const Value& map) {
    std::vector<const Entry*> entries;
    for (const Entry& entry : map.entries) entries.push_back(&entry);
    std::ranges::sort(entries, {}, [](const Entry* entry) -> const std::string& { return entry->key; });
    return entries;
  };
  return std::ranges::equal(sorted(a), sorted(b), [](const Entry* left, const Entry* right) {
    return left->key == right->key && left->value == right->value;
  });
}

size_t count(const Value& value) {
  size_t values = 1;
  for (const Value& item : value.items) values += count(item);
  for (const Entry& entry : value.entries) values += count(entry.value);
  return values;
}

}  // namespace volador::yaml
