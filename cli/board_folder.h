// The folder that TensorBoard reads: experiment-7/trial-12/… with the event files of trials. Those that a program wrote
// are linked, or copied from an object store; for trials without any the metrics of the head are written.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/event_export.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/result.h"
#include "runtime/storage/storage.h"

namespace volador::control {
class ClusterApi;
}

namespace volador::cli {

class BoardFolder {
 public:
  // `note`: what could not be read; each text once.
  BoardFolder(std::filesystem::path root, std::vector<int64_t> experiments, std::vector<int64_t> trials,
              std::function<void(const std::string& text)> note)
      : root_(std::move(root)), experiments_(std::move(experiments)), trials_(std::move(trials)), note_(note) {}

  // Brings the folder up to date. A trial whose files cannot be read does not keep the others from it. Errors as
  // ClusterApi::call().
  [[nodiscard]] Result<void> update(control::ClusterApi& api);
  // Whether all trials have ended and everything of them is there.
  bool is_complete() const { return complete_; }

 private:
  // Where the programs of an experiment put event files.
  struct Source {
    std::unique_ptr<storage::Storage> storage;  // Null: it cannot be opened.
    std::set<std::string> stored;               // Keys of trials' folders in an object store, at the last look.
  };
  struct Copied {
    std::string manifest;
    bool complete = false;
  };

  Result<void> add(control::ClusterApi& api, const v1::TrialInfo& trial);
  Source& source_of(control::ClusterApi& api, int64_t experiment);
  Result<void> copy(Source& source, const std::string& key, const v1::TrialInfo& trial,
                    const std::filesystem::path& folder);
  void note_once(const std::string& text);

  const std::filesystem::path root_;
  const std::vector<int64_t> experiments_, trials_;
  const std::function<void(const std::string& text)> note_;
  std::map<int64_t, Source> sources_;  // By experiment.
  std::map<int64_t, Copied> copied_;   // By trial.
  EventExport exported_;
  std::set<std::string> noted_;
  bool complete_ = false;
};

// Replaces `to` by the file `from`: what `to` has already stays as it is, and only what is new is appended, as a reader
// goes on where it has stopped.
[[nodiscard]] Result<void> take_over_file(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace volador::cli
