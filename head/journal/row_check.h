// Checksum of a stored row, so that damage is reported and never read as data.
#pragma once

#include <cstdint>
#include <string_view>

namespace volador::head {

// FNV-1a, 64 bits, over the three parts and their lengths.
uint64_t row_check(std::string_view table, std::string_view key, std::string_view value);

}  // namespace volador::head
