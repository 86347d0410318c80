#include "experiments/config/secrets.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "experiments/config/forms.h"
#include "experiments/config/schema.h"

namespace volador::experiments {
namespace {

using yaml::Entry;
using yaml::Value;

void hide(Value& value) {
  for (Value& item : value.items) hide(item);
  for (Entry& entry : value.entries) hide(entry.value);
  if (!value.is_list() && !value.is_map() && !value.is_null()) value = Value::of_text(kHidden);
}

// http://user:password@host becomes http://********@host.
void hide_login(std::string& address) {
  const size_t scheme = address.find("://");
  if (scheme == std::string::npos) return;
  const size_t begin = scheme + 3, end = address.find('/', begin);
  const size_t login = address.rfind('@', end);
  if (login == std::string::npos || login < begin) return;
  address.replace(begin, login - begin, kHidden);
}

void hide_variable(Value& variable) {
  const auto name = variable_name(variable.text);
  if (!name) return;
  if (names_secret(*name)) {
    variable.text = fmt::format("{}={}", *name, kHidden);
    return;
  }
  const size_t length = name->size() + 1;
  std::string value = variable.text.substr(length);
  hide_login(value);
  variable.text.replace(length, std::string::npos, value);
}

void hide_fields(Value& object, const Type& type);

void hide_in(Value& value, const Type& type) {
  if (value.is_null()) return;
  if (type.secret) {
    hide(value);
    return;
  }
  switch (type.shape) {
    case Shape::kText:
      hide_login(value.text);
      break;
    case Shape::kList:
      for (Value& item : value.items) hide_in(item, *type.item);
      break;
    case Shape::kPerDevice:
      for (Entry& kind : value.entries) {
        hide_in(kind.value, *type.item);
        for (Value& variable : kind.value.items) hide_variable(variable);
      }
      break;
    case Shape::kObject:
    case Shape::kUnion:
      hide_fields(value, type);
      break;
    default:
      break;
  }
}

void hide_fields(Value& object, const Type& type) {
  // Without a variant the fields of all variants may be there.
  for (const Field* field : fields_of(type, object))
    if (Value* value = object.find(field->key)) hide_in(*value, *field->type);
}

bool is_hidden(const Value& value) { return value.is_text() && value.text.find(kHidden) != std::string::npos; }

// `hidden` and `shown`: the same value without and with its secrets.
void restore(Value& value, const Value& hidden, const Value& shown) {
  if (is_hidden(value)) {
    if (value != hidden) return;
    Value found = shown;
    found.place = value.place;
    value = std::move(found);
    return;
  }
  if (value.is_map() && hidden.is_map()) {
    for (Entry& entry : value.entries) {
      const Value* below = hidden.find(entry.key);
      if (below != nullptr) restore(entry.value, *below, *shown.find(entry.key));
    }
  }
  if (!value.is_list() || !hidden.is_list()) return;
  for (size_t i = 0; i < value.items.size(); ++i) {
    size_t from = i;
    if (is_hidden(value.items[i]) && (i >= hidden.items.size() || hidden.items[i] != value.items[i]))
      from = static_cast<size_t>(std::ranges::find(hidden.items, value.items[i]) - hidden.items.begin());
    if (from < hidden.items.size()) restore(value.items[i], hidden.items[from], shown.items[from]);
  }
}

}  // namespace

void restore_secrets(yaml::Value& value, const yaml::Value& canonical) {
  restore(value, without_secrets(canonical), canonical);
}

std::optional<std::string> first_hidden(const yaml::Value& value) {
  if (is_hidden(value)) return "";
  const auto below = [](const std::string& key, const Value& part) -> std::optional<std::string> {
    auto found = first_hidden(part);
    if (found) *found = found->empty() ? key : key + "." + *found;
    return found;
  };
  for (const Entry& entry : value.entries)
    if (auto found = below(entry.key, entry.value)) return found;
  for (size_t i = 0; i < value.items.size(); ++i)
    if (auto found = below(std::to_string(i), value.items[i])) return found;
  return std::nullopt;
}

yaml::Value without_secrets(yaml::Value canonical) {
  hide_fields(canonical, experiment_type());
  if (Value* data = canonical.find("data")) {
    if (Value* secrets = data->find("secrets")) hide(*secrets);
  }
  return canonical;
}

}  // namespace volador::experiments
