// Which of the types that a program names in retry_on() an exception is of, its bases included: told in the text of the
// error, as the exception itself does not travel.
#pragma once

#include <string>
#include <string_view>

#include "runtime/actor/type_name.h"

namespace volador::internal {

// At static initialisation: the same list in every process of a program.
bool add_exception_kind(std::string_view name, bool (*is_current)());

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

// In a handler: "std::out_of_range", or "std::out_of_range (a std::logic_error, std::exception)" where the program
// names bases of it.
std::string kind_of_current_exception();
// Whether the text of such an error, "KIND: what()" or "KIND was thrown", is of this type or of one derived from it.
bool is_of_kind(std::string_view message, std::string_view type);

}  // namespace volador::internal
