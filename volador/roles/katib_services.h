// Algorithms of resources of kind Experiment for the head: ours, and external services that speak Katib's gRPC API. An
// external service is registered by configuration under the name of its algorithm, as a command that this process
// starts and watches, or as an address. A registered name comes before ours.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/katib/experiment_spec.h"
#include "experiments/katib/median_stop.h"
#include "runtime/protocol/katib/v1beta1/api.pb.h"
#include "runtime/protocol/volador/v1/katib.pb.h"
#include "runtime/result.h"

namespace volador {

struct KatibServiceEntry {
  // "{port}" in an argument is replaced by the port on which the service must listen on 127.0.0.1, which is also in the
  // environment variable PORT. Empty: `address` is set.
  std::vector<std::string> command;
  std::string address;  // host:port, without TLS.
};
using KatibServiceEntries = std::map<std::string, KatibServiceEntry>;  // By name of the algorithm.

// Reads the settings katib.suggestions and katib.early_stopping: a map in YAML or JSON, or the path of a file with one.
// kInvalidArgument: names the entry and the rule.
[[nodiscard]] Result<KatibServiceEntries> katib_service_entries(std::string_view setting);

struct KatibServicesOptions {
  KatibServiceEntries suggestions, early_stopping;
  std::string
      db_manager_address;  // For external early stopping services: host:port of a service DBManager without TLS.
  // The head's: processes that an earlier one with this owner left behind are killed at the start. Empty: none are.
  std::string owner = {};
  std::filesystem::path logs;              // Folder for the output of processes, a file each; empty: it is discarded.
  int attempts = 10;                       // A call to an external service is made so often, …
  std::chrono::milliseconds pause{3'000};  // … with this pause between them.
  std::chrono::milliseconds deadline{120'000};       // For one attempt.
  std::chrono::milliseconds start_patience{60'000};  // Until a process that was started answers.
  size_t calls = 1'024;                              // Queued for each service.
  size_t processes = 64;
};

// Thread safe. Each service has a thread of its own; `done` is called there, or by the caller's thread if the call is
// refused at once. Services that are commands are started at the first call, one process for each experiment, since
// Katib's services keep the state of one.
class KatibSuggestions {
 public:
  template <class T>
  using Done = std::function<void(Result<T>)>;

  explicit KatibSuggestions(KatibServicesOptions options);
  // Calls stop().
  ~KatibSuggestions();

  // `of`: the experiment, as namespace/name.

  // See SuggestionService. kNotFound: no such algorithm, neither registered nor ours. kUnavailable: the service did not
  // answer; kCancelled: stop() was called.
  void suggest(const std::string& of, const std::string& algorithm, api::v1::beta1::GetSuggestionsRequest request,
               Done<api::v1::beta1::GetSuggestionsReply> done);
  void validate(const std::string& of, const std::string& algorithm, api::v1::beta1::Experiment experiment,
                Done<void> done);

  // All algorithms that an experiment may name.
  v1::ListKatibAlgorithmsReply algorithms() const;

  // Rules for the next trial of an experiment with early stopping. The algorithm is the experiment's; `logs` are for
  // ours (medianstop).
  void rules(const std::string& of, api::v1::beta1::GetEarlyStoppingRulesRequest request,
             experiments::katib::ObjectiveLogs logs, Done<api::v1::beta1::GetEarlyStoppingRulesReply> done);
  void validate_early_stopping(const api::v1::beta1::EarlyStoppingSpec& spec, Done<void> done);

  // The experiment has ended, or was refused: its processes end and what is kept for it is dropped. A later call starts
  // another process.
  void end(const std::string& of);

  // Ends the processes; calls that have not ended get kCancelled. Idempotent.
  void stop();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace volador
