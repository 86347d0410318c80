// The model registry of a cluster: models, their versions, each of which names a checkpoint of an experiment, and aliases
// of versions, such as "production". A checkpoint that a version names is kept from deletion.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/core/experiment_core.h"
#include "runtime/protocol/models.pb.h"
#include "runtime/protocol/volador/v1/models.pb.h"
#include "runtime/result.h"

namespace volador::experiments {

// Tables of the journal of experiments.
inline constexpr std::string_view kModelsTable = "models";  // protocol::ModelRecord; key: the id, as 8 bytes.
// protocol::ModelVersionRecord; key: the id of the model, and the number of the version.
inline constexpr std::string_view kModelVersionsTable = "model_versions";
inline constexpr std::string_view kModelsHeadTable = "models_head";  // "last": the highest id of a model, decimal.

struct ModelLimits {
  size_t models = 100'000;
  size_t versions = 10'000;  // Versions of one model.
};

struct ModelActions {
  std::vector<ExperimentRow> rows;
  std::vector<ExperimentEvent> events;
};

class ModelRegistry {
 public:
  // Versions name checkpoints of `experiments`, which must outlive it; it becomes their keeper, see
  // ExperimentCore::set_keeper().
  ModelRegistry(const ModelLimits& limits, ExperimentCore& experiments);
  ModelRegistry(const ModelRegistry&) = delete;
  ModelRegistry& operator=(const ModelRegistry&) = delete;

  static bool has_table(std::string_view table);
  // Loads a row of these tables, in any order; call before start(). Returns false if it cannot be read.
  bool load(std::string_view table, std::string_view key, std::string_view value);
  // Call before ExperimentCore::start(), which asks what it may delete.
  void start();

  // A model is named by its name or id. kNotFound: there is no such model, version, alias or checkpoint; the message has
  // the nearest name. kPermissionDenied: only the model's owner (user, else token) and operators may change it.
  // kInvalidArgument: a rule does not allow it; archived models change only after `archived` is set to false.
  // A repeated request_id gets the same model or version.

  Result<v1::Model> create(const v1::CreateModelRequest& request, const ExperimentRequester& by, int64_t now_ms);
  Result<v1::Model> get(const std::string& model) const;
  Result<v1::ListModelsReply> list(const v1::ListModelsRequest& request) const;
  Result<v1::Model> edit(const v1::EditModelRequest& request, const ExperimentRequester& by, int64_t now_ms);
  // With its versions; checkpoints stay until their experiments' policies or their owners delete them.
  Result<void> remove(const v1::DeleteModelRequest& request, const ExperimentRequester& by);

  // `checkpoint` may be the start of an id. It must be COMPLETED, and its experiment must not be deleted.
  Result<v1::ModelVersion> register_version(const v1::RegisterModelVersionRequest& request,
                                            const ExperimentRequester& by, int64_t now_ms);
  Result<v1::ModelVersion> version(const v1::GetModelVersionRequest& request, const ExperimentRequester& by) const;
  Result<v1::ListModelVersionsReply> versions(const v1::ListModelVersionsRequest& request,
                                              const ExperimentRequester& by) const;
  Result<v1::ModelVersion> edit_version(const v1::EditModelVersionRequest& request, const ExperimentRequester& by,
                                        int64_t now_ms);
  // Removes its aliases too.
  Result<void> remove_version(const v1::DeleteModelVersionRequest& request, const ExperimentRequester& by,
                              int64_t now_ms);

  // "version 3 of model digits", the first of those that name the checkpoint; empty: none.
  std::string keeper_of(const std::string& checkpoint) const;

  ModelActions take();
  // Aborts if the tables are inconsistent.
  void check_invariants() const;

 private:
  using Record = protocol::ModelRecord;
  using VersionRecord = protocol::ModelVersionRecord;
  struct Entry {
    Record record;
    std::map<int64_t, VersionRecord> versions = {};
  };
  using Key = std::pair<int64_t, int64_t>;  // Model and version.

  Result<int64_t> id_of(const std::string& model) const;
  // The model that `by` changes. `verb`: "edit", for "edit model digits".
  Result<Entry*> to_change(std::string_view verb, const std::string& model, const ExperimentRequester& by);
  Result<void> check_open(const Entry& entry) const;
  Result<void> check_name(const std::string& name, int64_t id) const;
  Result<void> check_version(const Entry& entry, int64_t version) const;
  Result<int64_t> version_named(const Entry& entry, const std::string& version) const;
  v1::Model shown(const Entry& entry) const;
  v1::ModelVersion shown(const Entry& entry, const VersionRecord& record, const ExperimentRequester& by) const;
  void forget(Entry& entry, int64_t version);
  void put(const Entry& entry);
  void put(const VersionRecord& record);
  void event(std::string text, std::vector<std::pair<std::string, std::string>> fields);

  const ModelLimits limits_;
  ExperimentCore& experiments_;
  std::map<int64_t, Entry> models_;
  std::map<std::string, int64_t, std::less<>> by_name_;
  std::map<std::string, std::set<Key>, std::less<>> by_checkpoint_;
  int64_t last_model_ = 0;
  ModelActions actions_;
};

}  // namespace volador::experiments
