// Numbers, durations and sizes as people write them, with their units.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador {

// All of these: kInvalidArgument where the whole text is not of the form; the message is "expected …, got …" without
// the name of the setting, which the caller puts in front.

Result<int64_t> parse_integer(std::string_view text);
Result<double> parse_real(std::string_view text);   // Finite.
Result<bool> parse_boolean(std::string_view text);  // true or false.

// "500ms", "3.5s", "10min", "1h30m", "2d"; units ns us ms s m min h d. A bare "0" is allowed, no other number without a
// unit.
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

// "800", "64KiB", "2GB", "1.5 GiB"; KiB MiB GiB TiB are powers of 1024, kB MB GB TB of 1000, B or nothing is bytes.
Result<int64_t> parse_byte_count(std::string_view text);

// "zone=a,disk=ssd"; empty gives none. A key twice, or an empty key, is an error.
Result<std::map<std::string, std::string>> parse_pairs(std::string_view text);

// "0.12 s", "41 s", "3 min 20 s", "2 h 5 min", "4 d 1 h": two units at most.
std::string format_duration(std::chrono::nanoseconds duration);

// "1 object", "0 objects", "12345 objects". `many` is the plural where it is more than an s at the end of `one`:
// counted(n, "actor has", "actors have"). A number as text is one only as "1", so "0.5" makes "0.5 CPUs".
std::string counted(std::string_view number, std::string_view one, std::string_view many = {});

template <std::integral Count>
std::string counted(Count number, std::string_view one, std::string_view many = {}) {
  return counted(std::string_view(std::to_string(number)), one, many);
}

}  // namespace volador
