#include "runtime/security/sign_on_service.h"

#include <algorithm>

namespace volador::security {

Result<void> check_next(std::string_view next) {
  constexpr size_t kNextBytesMax = 2048;
  const bool plain = std::all_of(next.begin(), next.end(), [](char c) { return c > ' ' && c < 0x7F && c != '\\'; });
  const bool is_page = next == "/" || next.starts_with("/#");
  if (is_page && plain && next.size() <= kNextBytesMax) return {};
  return make_error(ErrorCode::kInvalidArgument, "next: expected a place of this page, such as /#/jobs");
}

}  // namespace volador::security
