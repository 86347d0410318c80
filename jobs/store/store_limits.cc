#include "jobs/store/store_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <tuple>

#include "runtime/quantities.h"

namespace volador::jobs {
namespace {

constexpr int64_t kStoreDayMs = 24 * 3'600'000;
constexpr int64_t kUnusedDaysMax = 36'500;

}  // namespace

Result<StoreLimits> store_limits(StoreLimits defaults, std::string_view prefix, std::string_view days,
                                 std::string_view size) {
  StoreLimits limits = defaults;
  if (!days.empty()) {
    int64_t number = 0;
    const auto [end, failed] = std::from_chars(days.data(), days.data() + days.size(), number);
    if (failed != std::errc() || end != days.data() + days.size() || number < 1 || number > kUnusedDaysMax) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}_DAYS: expected 1 to {} days, got \"{}\"", prefix, kUnusedDaysMax, days));
    }
    limits.unused_ms = number * kStoreDayMs;
  }
  if (!size.empty()) {
    const auto bytes = parse_byte_count(std::string(size));
    if (!bytes || *bytes < 0) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}_SIZE: expected a size such as 64GiB, got \"{}\"", prefix, size));
    }
    limits.bytes_max = *bytes;
  }
  return limits;
}

std::vector<std::string> entries_to_remove(std::vector<StoredEntry> stored, const StoreLimits& limits, int64_t now_ms) {
  std::ranges::sort(stored, {},
                    [](const StoredEntry& each) { return std::tuple(each.complete, each.used_ms, each.key); });
  int64_t bytes = 0;
  for (const StoredEntry& each : stored) bytes += each.bytes;
  std::vector<std::string> out;
  for (const StoredEntry& each : stored) {
    if (each.in_use) continue;
    if (each.complete && now_ms - each.used_ms <= limits.unused_ms && bytes <= limits.bytes_max) continue;
    bytes -= each.bytes;
    out.push_back(each.key);
  }
  return out;
}

}  // namespace volador::jobs
