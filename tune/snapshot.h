// What snapshots of schedulers and searchers have in common: JSON with a version, read whole or not at all.
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

// Hands the parsed snapshot to `read`, which gives a Result<void> and may throw what Config's accessors throw.
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
