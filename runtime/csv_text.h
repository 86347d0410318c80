// Comma-separated values (RFC 4180). Pure.
#pragma once

#include <string>
#include <string_view>

namespace volador {

// One cell; in quotes where it has a comma, a quote or a line break.
void append_csv_text(std::string& out, std::string_view text);

}  // namespace volador
