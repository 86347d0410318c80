// Comma-separated values (RFC 4180). Pure.
#pragma once

#include <string>
#include <string_view>

namespace volador {

// Appends a cell, quoted if it contains a comma, a quote or a line break.
void append_csv_text(std::string& out, std::string_view text);

}  // namespace volador
