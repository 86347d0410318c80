// Asking the program that runs an experiment, through the experiment's directory, to stop, pause or go on with it or
// one of its trials, or to try a configuration besides those of its searcher. No cluster is needed; a request outlives
// both sides.
//
//   requests/pause-1a2b3c4d.json: {"act": "pause", "trial": "3f2a90c1"}; without a trial the whole experiment
//   requests/add-1a2b3c4d.json:   {"act": "add", "config": {"lr": 0.01}}; with a trial its values, and these instead of
//                                 its own
//
// The program looks several times a second, writes the request to its journal, and removes the file. Where it refuses
// one it says why in a file of the same name that ends in .refused.
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
std::optional<RequestAct> request_act_of(std::string_view word);  // None: another word.

struct RequestAsked {
  RequestAct act = RequestAct::kStop;
  std::optional<TrialId> trial;  // None: the whole experiment. Of kAdd: whose values the new trial has where `config` has none.
  std::filesystem::path file;
  std::string config = {};  // Of kAdd: JSON.
};

// What the loop is told of it; kAdd is checked and completed first (tune/space/given_config.h).
Event event_of(RequestAct act, std::optional<TrialId> trial);

// The file that was written: it is gone once the program has taken it. kUnavailable, kPermissionDenied: the disk.
[[nodiscard]] Result<std::filesystem::path> ask_of_experiment(const std::filesystem::path& experiment, RequestAct act,
                                                              std::optional<TrialId> trial, Random& random);
// The same for a configuration, which may leave parameters out: those of the trial `like`, or drawn where there is none.
// kInvalidArgument: it is no map, or larger than 64 KiB.
[[nodiscard]] Result<std::filesystem::path> ask_to_add(const std::filesystem::path& experiment, const Config& config,
                                                       std::optional<TrialId> like, Random& random);
// Waits until the program has taken the request of that file. kNotFound: no program runs the experiment now; kTimeout: it
// did not look in time; either takes the request back. Else why the program refused it.
[[nodiscard]] Result<void> await_request(const std::filesystem::path& experiment, const std::filesystem::path& file,
                                         std::chrono::milliseconds patience);

// Has the program that runs an experiment on this machine try a configuration besides those of its searcher: `experiment` is
// the directory of its run. Waits until the program has it.
// kInvalidArgument: the space would not draw it; names path, value and rule. Other errors: as above.
[[nodiscard]] Result<void> add_configuration(const std::filesystem::path& experiment, const Config& config,
                                             std::chrono::milliseconds patience = std::chrono::seconds(10));
// Has it try once more the configuration of `trial`, which may have ended, with the values of `changes` instead of its own; without changes
// the new trial is a repetition with a seed of its own. kNotFound: no such trial. Other errors: as above.
[[nodiscard]] Result<void> clone_trial(const std::filesystem::path& experiment, TrialId trial, const Config& changes = Config::map(),
                                       std::chrono::milliseconds patience = std::chrono::seconds(10));

// What to say where nothing runs it.
Error no_program(const std::filesystem::path& experiment);

// What was asked since, at most 1,000 of it at a time, oldest file first; files that are no request are removed. Costs
// next to nothing where nobody ever asked.
std::vector<RequestAsked> experiment_requests(const std::filesystem::path& experiment);
// Takes it away, refused where there is an error: who asked finds that.
void answer_request(const RequestAsked& asked, const std::optional<Error>& refusal = std::nullopt);

}  // namespace volador::tune
