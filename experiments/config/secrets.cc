#include "experiments/config/secrets.h"

#include <fmt/format.h>

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

}  // namespace

yaml::Value without_secrets(yaml::Value canonical) {
  hide_fields(canonical, experiment_type());
  if (Value* data = canonical.find("data")) {
    if (Value* secrets = data->find("secrets")) hide(*secrets);
  }
  return canonical;
}

}  // namespace volador::experiments
