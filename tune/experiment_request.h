// Asking the program that runs an experiment, through the experiment's directory, to stop, pause or go on with it or
// one of its trials. No cluster is needed; a request outlives both sides.
//
//   requests/pause-1a2b3c4d.json: {"act": "pause", "trial": "3f2a90c1"}; without a trial the whole experiment
//
// The program looks several times a second, writes the request to its journal, and removes the file.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/random.h"
#include "runtime/result.h"
#include "tune/loop_messages.h"

namespace volador::tune {

enum class RequestAct : uint8_t { kStop, kPause, kResume };
std::string_view to_string(RequestAct act);                       // "stop", "pause", "resume"
std::optional<RequestAct> request_act_of(std::string_view word);  // None: another word.

struct RequestAsked {
  RequestAct act = RequestAct::kStop;
  std::optional<TrialId> trial;  // None: the whole experiment.
  std::filesystem::path file;
};

// What the loop is told of it.
Event event_of(RequestAct act, std::optional<TrialId> trial);

// The file that was written: it is gone once the program has taken it. kUnavailable, kPermissionDenied: the disk.
[[nodiscard]] Result<std::filesystem::path> ask_of_experiment(const std::filesystem::path& experiment, RequestAct act,
                                                              std::optional<TrialId> trial, Random& random);

// What was asked since, at most 1,000 of it at a time, oldest file first; files that are no request are removed. Costs
// next to nothing where nobody ever asked.
std::vector<RequestAsked> experiment_requests(const std::filesystem::path& experiment);

}  // namespace volador::tune
