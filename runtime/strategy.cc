#include "runtime/strategy.h"

namespace volador {

std::string_view to_string(Strategy strategy) {
  switch (strategy) {
    case Strategy::kPack:
      return "pack";
    case Strategy::kSpread:
      return "spread";
    case Strategy::kStrictPack:
      return "strict_pack";
    case Strategy::kStrictSpread:
      return "strict_spread";
  }
  return "?";
}

}  // namespace volador
