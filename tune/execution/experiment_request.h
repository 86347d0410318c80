// Requests to the program that runs an experiment, passed as files in the experiment's directory: stop, pause or resume
// the experiment or one trial, or try an additional configuration. Works without a cluster; requests survive restarts
// of both sides.
//
//   requests/pause-1a2b3c4d.json: {"act": "pause", "trial": "3f2a90c1"}; without a trial, the whole experiment
//   requests/add-1a2b3c4d.json:   {"act": "add", "config": {"lr": 0.01}}; with a trial, changes to its values
//
// The program polls several times a second, writes the request to its journal and removes the file. If it rejects a
// request, it writes the reason to a file of the same name that ends in .refused.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/random.h"
#include "runtime/result.h"
#include "tune/loop/loop_messages.h"
#include "tune/space/config.h"

namespace volador::tune {

enum class RequestAct : uint8_t { kStop, kPause, kResume, kAdd };
std::string_view to_string(RequestAct act);                       // "stop", "pause", "resume", "add"
std::optional<RequestAct> request_act_of(std::string_view word);  // No value: unknown word.

struct RequestAsked {
  RequestAct act = RequestAct::kStop;
  std::optional<TrialId> trial;  // No value: the whole experiment. kAdd: the trial that provides the values which
                                 // `config` leaves out.
  std::filesystem::path file;
  std::string config = {};  // kAdd: JSON.
};

// Returns the event for the loop; kAdd is validated and completed first (tune/space/given_config.h).
Event event_of(RequestAct act, std::optional<TrialId> trial);

// Writes a request and returns its file, which is removed once the program has accepted it. kUnavailable,
// kPermissionDenied: disk error.
[[nodiscard]] Result<std::filesystem::path> ask_of_experiment(const std::filesystem::path& experiment, RequestAct act,
                                                              std::optional<TrialId> trial, Random& random);
// Writes a request for a configuration, which may be partial: missing parameters come from the trial `like`, or are
// drawn. kInvalidArgument: not a map, or larger than 64 KiB.
[[nodiscard]] Result<std::filesystem::path> ask_to_add(const std::filesystem::path& experiment, const Config& config,
                                                       std::optional<TrialId> like, Random& random);
// Waits until the program has processed the request in that file; returns its error if it rejected the request.
// kNotFound: no program is running the experiment; kTimeout: it did not respond in time. In both cases the request is
// withdrawn.
[[nodiscard]] Result<void> await_request(const std::filesystem::path& experiment, const std::filesystem::path& file,
                                         std::chrono::milliseconds patience);

// Adds a configuration to the experiment that runs on this machine in the directory `experiment`, and waits until the
// program has accepted it. kInvalidArgument: it is not in the space; names path, value and rule. Other errors: as
// await_request().
[[nodiscard]] Result<void> add_configuration(const std::filesystem::path& experiment, const Config& config,
                                             std::chrono::milliseconds patience = std::chrono::seconds(10));
// Adds the configuration of `trial`, which may have ended, with the values of `changes` instead of its own; without
// changes the new trial is a repetition with its own seed. kNotFound: no such trial. Other errors: as await_request().
[[nodiscard]] Result<void> clone_trial(const std::filesystem::path& experiment, TrialId trial,
                                       const Config& changes = Config::map(),
                                       std::chrono::milliseconds patience = std::chrono::seconds(10));

// Error for an experiment that no program is running.
Error no_program(const std::filesystem::path& experiment);

// Returns the pending requests, at most 1,000 per call, oldest file first; removes files that are not requests. Very
// cheap if no request was ever made.
std::vector<RequestAsked> experiment_requests(const std::filesystem::path& experiment);
// Removes the request; if there is an error, records it for await_request().
void answer_request(const RequestAsked& asked, const std::optional<Error>& refusal = std::nullopt);

}  // namespace volador::tune
