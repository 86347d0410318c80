#include "runtime/actor/exception_kinds.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <vector>

namespace volador::internal {
namespace {

struct Kind {
  std::string_view name;
  bool (*is_current)();
};

std::vector<Kind>& kinds() {
  static std::vector<Kind> all;
  return all;
}

std::string type_of_current_exception() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "an exception of unknown type";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(type->name(), nullptr, nullptr, &status),
                                                         std::free);
  return status == 0 ? demangled.get() : type->name();
}

constexpr std::string_view kBases = " (a ";

}  // namespace

bool add_exception_kind(std::string_view name, bool (*is_current)()) {
  kinds().push_back({name, is_current});
  return true;
}

std::string kind_of_current_exception() {
  std::string text = type_of_current_exception();
  std::string bases;
  for (const Kind& kind : kinds()) {
    if (kind.name == text || !kind.is_current()) continue;
    bases += (bases.empty() ? "" : ", ") + std::string(kind.name);
  }
  if (!bases.empty()) text += std::string(kBases) + bases + ")";
  return text;
}

bool is_of_kind(std::string_view message, std::string_view type) {
  constexpr std::string_view kThrown = " was thrown";
  const size_t colon = message.find(": ");
  std::string_view kind = message.substr(0, colon);
  if (colon == std::string_view::npos) {
    if (!kind.ends_with(kThrown)) return false;
    kind.remove_suffix(kThrown.size());
  }
  if (kind == type) return true;
  const size_t bases_at = kind.rfind(kBases);
  if (bases_at == std::string_view::npos || !kind.ends_with(')')) return false;
  if (kind.substr(0, bases_at) == type) return true;
  const std::string bases =
      ", " + std::string(kind.substr(bases_at + kBases.size(), kind.size() - bases_at - kBases.size() - 1)) + ", ";
  return bases.find(", " + std::string(type) + ", ") != std::string::npos;
}

}  // namespace volador::internal
