#include "tune/execution/trainable_registry.h"

#include <fmt/format.h>

namespace volador::tune {

TrainableRegistry& TrainableRegistry::instance() {
  static TrainableRegistry registry;
  return registry;
}

std::string TrainableRegistry::add(std::string_view name, Factory factory) {
  std::string key(name);
  for (int number = 2; factories_.contains(key); ++number) key = fmt::format("{}#{}", name, number);
  factories_.emplace(key, std::move(factory));
  return key;
}

Result<std::unique_ptr<TrainableHost>> TrainableRegistry::make(const std::string& name,
                                                               std::string_view parameters) const {
  const auto found = factories_.find(name);
  if (found == factories_.end()) {
    std::string names;
    for (const auto& [known, factory] : factories_) names += (names.empty() ? "" : ", ") + known;
    return make_error(ErrorCode::kNotFound, fmt::format("the program has no trainable \"{}\"; it has: {}", name,
                                                        names.empty() ? "none" : names));
  }
  return found->second(parameters);
}

namespace trainables {

std::string label_of(std::string_view name) {
  if (name.find("lambda") != std::string_view::npos) return "trial";
  if (const size_t at = name.find('<'); at != std::string_view::npos) name = name.substr(0, at);
  if (const size_t at = name.find_last_of(":&)("); at != std::string_view::npos) name.remove_prefix(at + 1);
  std::string label;
  for (const char c : name)
    label +=
        (c == '_' || c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) ? c : '_';
  return label.empty() ? "trial" : label;
}

}  // namespace trainables
}  // namespace volador::tune
