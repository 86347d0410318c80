// Parsing and formatting of numbers, durations and sizes with units.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador {

// All parsers: kInvalidArgument unless the whole text is valid; the message is "expected …, got …", and the caller
// prefixes the setting's name.

Result<int64_t> parse_integer(std::string_view text);
Result<double> parse_real(std::string_view text);   // Finite.
Result<bool> parse_boolean(std::string_view text);  // true or false.

// "500ms", "3.5s", "10min", "1h30m", "2d"; units ns us ms s m min h d. Only "0" may omit the unit.
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

// "800", "64KiB", "2GB", "1.5 GiB"; KiB MiB GiB TiB are powers of 1024, kB MB GB TB of 1000, B or no unit is bytes.
Result<int64_t> parse_byte_count(std::string_view text);

// "zone=a,disk=ssd"; empty text gives no pairs. A duplicate or empty key is an error.
Result<std::map<std::string, std::string>> parse_pairs(std::string_view text);

// "0.12 s", "41 s", "3 min 20 s", "2 h 5 min", "4 d 1 h": at most two units.
std::string format_duration(std::chrono::nanoseconds duration);

// "1 object", "0 objects", "12345 objects". `many`: plural, if it is not `one` plus s: counted(n, "actor has", "actors
// have"). A number given as text is singular only as "1": "0.5" gives "0.5 CPUs".
std::string counted(std::string_view number, std::string_view one, std::string_view many = {});

template <std::integral Count>
std::string counted(Count number, std::string_view one, std::string_view many = {}) {
  return counted(std::string_view(std::to_string(number)), one, many);
}

}  // namespace volador
