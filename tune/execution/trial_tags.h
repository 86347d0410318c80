// Tags: words by which people find runs and single trials again, on the page and in `volador list trials --tag`.
//
//   tune::tag("diverged");            // In a trial's function or class: of this trial.
//   tune::tag(trial, "keep");         // In a callback: of the trial that it is told of.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::tune {

struct Trial;

inline constexpr size_t kTagsMax = 32;  // Of a run, and of a trial.
inline constexpr size_t kTagBytesMax = 64;

// kInvalidArgument: it is empty, too long, or has a space or comma in it.
[[nodiscard]] Result<void> check_tag(std::string_view tag);
// Behind the others, unless it is among them or kTagsMax are. Whether it was added.
bool add_tag(std::vector<std::string>& tags, std::string_view tag);

// Of the trial on whose thread it is called, from the result of the step under way on; one of a step that throws is lost. Given again it has no
// effect, and what a trial is called it stays, also over a failure. Throws volador::Exception: kUnavailable outside of a trial,
// kInvalidArgument for a bad tag or more than kTagsMax; one beyond those that earlier attempts gave is left out.
void tag(std::string_view text);
// The same from a method of a Callback, at any time of the run; kUnavailable on any other thread.
void tag(const Trial& trial, std::string_view text);

}  // namespace volador::tune
