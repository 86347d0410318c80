// Several function objects as one, for std::visit.
#pragma once

namespace volador::tune {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};

}  // namespace volador::tune
