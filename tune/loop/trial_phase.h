// Phase of a trial's current attempt.
#pragma once

#include <cstdint>

namespace volador::tune {

enum class Phase : uint8_t {
  kQueued,    // No actor.
  kStarting,  // StartTrial was emitted.
  kStepping,  // Step was emitted.
  kSaving,    // SaveCheckpoint was emitted.
  kCloning,   // CloneCheckpoint was emitted; the actor is idle.
  kStopping,  // StopTrial was emitted.
  kPaused,    // No actor, until the scheduler resumes it.
  kHeld,      // No actor, until the user resumes it or its back-off ends; not visible to the scheduler.
  kDone,
};

// The trial has an actor or has requested one.
constexpr bool is_live(Phase phase) {
  return phase != Phase::kQueued && phase != Phase::kPaused && phase != Phase::kHeld && phase != Phase::kDone;
}

}  // namespace volador::tune
