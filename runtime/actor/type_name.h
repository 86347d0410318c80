// Compile-time names of types and functions: equal in every process of the same executable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace volador {

namespace names {

template <class T>
constexpr std::string_view pretty_type() {
  return __PRETTY_FUNCTION__;
}
template <auto M>
constexpr std::string_view pretty_value() {
  return __PRETTY_FUNCTION__;
}
// "… [with T = Counter; std::string_view = …]" gives "Counter".
constexpr std::string_view after_equals(std::string_view pretty, std::string_view parameter) {
  const size_t begin = pretty.find(parameter) + parameter.size();
  size_t depth = 0;
  for (size_t i = begin; i < pretty.size(); ++i) {
    const char c = pretty[i];
    if (c == '<' || c == '(' || c == '[' || c == '{') ++depth;
    if (depth == 0 && (c == ';' || c == ']')) return pretty.substr(begin, i - begin);
    if (c == '>' || c == ')' || c == ']' || c == '}') --depth;
  }
  return pretty.substr(begin);
}
constexpr uint64_t fnv1a(std::string_view text, uint64_t hash = 0xcbf29ce484222325ULL) {
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace names

// "Counter", "shop::Cart".
template <class T>
constexpr std::string_view type_name() {
  return names::after_equals(names::pretty_type<T>(), "T = ");
}

// "&Counter::add", with the signature if needed to distinguish overloads.
template <auto M>
constexpr std::string_view function_name() {
  return names::after_equals(names::pretty_value<M>(), "M = ");
}

// "Counter::add", for display.
template <auto M>
std::string display_name() {
  std::string_view name = function_name<M>();
  if (const size_t at = name.rfind('&'); at != std::string_view::npos) name.remove_prefix(at + 1);
  std::string text(name);
  constexpr std::string_view kUnnamed = "{anonymous}::";
  while (true) {
    const size_t at = text.find(kUnnamed);
    if (at == std::string::npos) return text;
    text.erase(at, kUnnamed.size());
  }
}

// Method id in call frames: FNV-1a 64 of name and type. Computed at compile time because every call needs it.
template <auto M>
consteval uint64_t function_id() {
  return names::fnv1a(type_name<decltype(M)>(), names::fnv1a(function_name<M>()));
}

}  // namespace volador
