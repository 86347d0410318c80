// Tags for finding runs and trials, on the dashboard and with `volador list trials --tag`.
//
//   tune::tag("diverged");            // In a trial's function or class: tags this trial.
//   tune::tag(trial, "keep");         // In a callback: tags the trial passed to it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::tune {

struct Trial;

inline constexpr size_t kTagsMax = 32;  // Limit per run, and per trial.
inline constexpr size_t kTagBytesMax = 64;

// kInvalidArgument: empty, too long, or contains a space or comma.
[[nodiscard]] Result<void> check_tag(std::string_view tag);
// Appends the tag unless it is present or kTagsMax tags are. Returns whether it was added.
bool add_tag(std::vector<std::string>& tags, std::string_view tag);

// Tags the trial on whose thread it is called, effective with the result of the current step; lost if the step throws.
// Repeated tags have no effect; tags persist after a failure. Throws volador::Exception: kUnavailable outside of a
// trial, kInvalidArgument for an invalid tag or more than kTagsMax; a tag that exceeds kTagsMax together with those of
// earlier attempts is dropped.
void tag(std::string_view text);
// As above, from a method of a Callback, at any time of the run; kUnavailable on any other thread.
void tag(const Trial& trial, std::string_view text);

}  // namespace volador::tune
