// Common parts of the snapshots of schedulers and searchers: versioned JSON, restored completely or not at all.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "runtime/result.h"
#include "tune/space/config.h"

namespace volador::tune {

inline tl::unexpected<Error> snapshot_does_not_fit(std::string_view of, std::string_view what) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: this snapshot does not fit the options: {}", of, what));
}

// Parses the snapshot and passes it to `read`, which returns Result<void> and may throw the exceptions of Config's
// accessors.
template <class F>
[[nodiscard]] Result<void> read_snapshot(std::string_view of, std::string_view snapshot, F&& read) {
  const auto parsed = Config::from_json(snapshot);
  if (!parsed)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: the snapshot is torn: {}", of, parsed.error().message));
  try {
    if (parsed->integer("version") != 1) return snapshot_does_not_fit(of, "unknown version");
    return read(*parsed);
  } catch (const Exception& error) {
    return snapshot_does_not_fit(of, error.error().message);
  }
}

}  // namespace volador::tune
