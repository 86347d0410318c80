// Matches exceptions against the types that a program names in retry_on(), including their bases. The match is encoded
// in the error text, because the exception itself is not serialized.
#pragma once

#include <string>
#include <string_view>

#include "runtime/actor/type_name.h"

namespace volador::internal {

// Called during static initialization: the list is the same in every process of a program.
bool add_exception_kind(std::string_view name, bool (*is_current)());

// Registers E, a type named in retry_on().
template <class E>
struct ExceptionKind {
  static bool is_current() {
    try {
      throw;
    } catch (const E&) {
      return true;
    } catch (...) {
      return false;
    }
  }
  static inline const bool enlisted = add_exception_kind(type_name<E>(), &is_current);
};

// Call in a handler. Returns "std::out_of_range", or "std::out_of_range (a std::logic_error, std::exception)" if the
// program names bases of it.
std::string kind_of_current_exception();
// Whether an error text "KIND: what()" or "KIND was thrown" is of this type or a derived one.
bool is_of_kind(std::string_view message, std::string_view type);

}  // namespace volador::internal
