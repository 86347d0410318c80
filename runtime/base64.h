// Bytes as text in JSON: base64 of RFC 4648 with padding. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace volador {

std::string base64(std::string_view bytes);
// No value: another character, a length that is no multiple of 4, or padding elsewhere than at the end.
std::optional<std::string> from_base64(std::string_view text);

// The alphabet for URLs, without padding (RFC 4648, section 5). The same for the reverse.
std::string base64url(std::string_view bytes);
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace volador
