// Where the current attempt of a trial stands.
#pragma once

#include <cstdint>

namespace volador::tune {

enum class Phase : uint8_t {
  kQueued,    // No actor.
  kStarting,  // StartTrial was said.
  kStepping,  // Step was said.
  kSaving,    // SaveCheckpoint was said.
  kCloning,   // CloneCheckpoint was said; its actor idles.
  kStopping,  // StopTrial was said.
  kPaused,    // No actor, until the scheduler resumes it.
  kHeld,      // No actor, until the user resumes it or its back-off is over; the scheduler knows nothing of that.
  kDone,
};

// An actor is there or asked for.
constexpr bool is_live(Phase phase) {
  return phase != Phase::kQueued && phase != Phase::kPaused && phase != Phase::kHeld && phase != Phase::kDone;
}

}  // namespace volador::tune
