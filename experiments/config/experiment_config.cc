#include "experiments/config/experiment_config.h"

#include <utility>

#include "experiments/config/forms.h"
#include "runtime/result.h"

namespace volador::experiments {
namespace {

using yaml::Kind;
using yaml::Value;

// Reads the keys of a checked object: an absent one is our own bug.
const Value& part(const Value& object, std::string_view key) {
  const Value* value = object.find(key);
  VOLADOR_CHECK(value != nullptr, std::string(key));
  return *value;
}

std::string text(const Value& object, std::string_view key) { return part(object, key).text; }
bool flag(const Value& object, std::string_view key) { return part(object, key).boolean; }
int64_t integer(const Value& object, std::string_view key) { return part(object, key).integer; }
double number(const Value& object, std::string_view key) { return part(object, key).as_number(); }
std::optional<std::string> maybe_text(const Value& object, std::string_view key) {
  const Value& value = part(object, key);
  return value.is_null() ? std::nullopt : std::optional(value.text);
}
std::optional<int64_t> maybe_integer(const Value& object, std::string_view key) {
  const Value& value = part(object, key);
  return value.is_null() ? std::nullopt : std::optional(value.integer);
}
std::vector<std::string> texts(const Value& list) {
  std::vector<std::string> read;
  for (const Value& item : list.items) read.push_back(item.text);
  return read;
}

Length length_from(const Value& value) {
  if (value.kind == Kind::kInteger) return {LengthUnit::kUnitless, value.integer};
  for (const LengthUnit unit : {LengthUnit::kBatches, LengthUnit::kRecords, LengthUnit::kEpochs})
    if (const Value* amount = value.find(name_of(unit))) return {unit, amount->integer};
  VOLADOR_CHECK(false, "a length without a unit");
  return {};
}

SearchMode mode_from(const std::string& mode) {
  return mode == "aggressive"     ? SearchMode::kAggressive
         : mode == "conservative" ? SearchMode::kConservative
                                  : SearchMode::kStandard;
}

Searcher searcher_from(const Value& value) {
  Searcher searcher;
  searcher.name = text(value, "name");
  searcher.metric = text(value, "metric");
  searcher.smaller_is_better = flag(value, "smaller_is_better");
  searcher.source_trial_id = maybe_integer(value, "source_trial_id");
  searcher.source_checkpoint_uuid = maybe_text(value, "source_checkpoint_uuid");
  if (const Value* length = value.find("max_length"); length != nullptr && !length->is_null())
    searcher.max_length = length_from(*length);
  if (value.find("time_metric") != nullptr) {
    searcher.time_metric = maybe_text(value, "time_metric");
    searcher.max_time = maybe_integer(value, "max_time");
  }
  if (searcher.name == "random") {
    searcher.method = RandomSearch{integer(value, "max_trials"), integer(value, "max_concurrent_trials")};
  } else if (searcher.name == "grid") {
    searcher.method = GridSearch{integer(value, "max_concurrent_trials")};
  } else if (searcher.name == "adaptive_asha") {
    AdaptiveAshaSearch search{.max_trials = integer(value, "max_trials"),
                              .mode = mode_from(text(value, "mode")),
                              .divisor = number(value, "divisor"),
                              .max_rungs = integer(value, "max_rungs"),
                              .bracket_rungs = {},
                              .max_concurrent_trials = integer(value, "max_concurrent_trials"),
                              .stop_once = flag(value, "stop_once")};
    for (const Value& rungs : part(value, "bracket_rungs").items) search.bracket_rungs.push_back(rungs.integer);
    searcher.method = std::move(search);
  } else if (searcher.name == "async_halving") {
    searcher.method =
        AsyncHalvingSearch{integer(value, "num_rungs"), integer(value, "max_trials"), number(value, "divisor"),
                           integer(value, "max_concurrent_trials"), flag(value, "stop_once")};
  } else if (searcher.name == "custom") {
    searcher.method = CustomSearch{};
  }
  return searcher;
}

Resources resources_from(const Value& value) {
  Resources resources{.slots_per_trial = integer(value, "slots_per_trial"),
                      .max_slots = maybe_integer(value, "max_slots"),
                      .weight = number(value, "weight"),
                      .priority = maybe_integer(value, "priority"),
                      .resource_pool = text(value, "resource_pool"),
                      .is_single_node = flag(value, "is_single_node"),
                      .devices = {}};
  if (const auto bytes = maybe_integer(value, "shm_size")) resources.shm_size_bytes = *bytes;
  for (const Value& device : part(value, "devices").items) {
    resources.devices.push_back({text(device, "host_path"), text(device, "container_path"), text(device, "mode")});
  }
  return resources;
}

Environment environment_from(const Value& value) {
  const Value& image = part(value, "image");
  const Value& variables = part(value, "environment_variables");
  Environment environment{.image = {text(image, "cpu"), text(image, "cuda"), text(image, "rocm")},
                          .environment_variables = {texts(part(variables, "cpu")), texts(part(variables, "cuda")),
                                                    texts(part(variables, "rocm"))},
                          .proxy_ports = {},
                          .force_pull_image = flag(value, "force_pull_image"),
                          .registry_auth = {},
                          .add_capabilities = texts(part(value, "add_capabilities")),
                          .drop_capabilities = texts(part(value, "drop_capabilities"))};
  for (const Value& port : part(value, "proxy_ports").items) {
    environment.proxy_ports.push_back({integer(port, "proxy_port"), flag(port, "proxy_tcp"),
                                       flag(port, "unauthenticated"), flag(port, "default_service_id")});
  }
  if (const Value& auth = part(value, "registry_auth"); !auth.is_null()) {
    environment.registry_auth = RegistryAuth{
        text(auth, "username"), text(auth, "password"),      text(auth, "serveraddress"), text(auth, "auth"),
        text(auth, "email"),    text(auth, "identitytoken"), text(auth, "registrytoken")};
  }
  return environment;
}

Optimizations optimizations_from(const Value& value) {
  return {.aggregation_frequency = integer(value, "aggregation_frequency"),
          .average_aggregated_gradients = flag(value, "average_aggregated_gradients"),
          .average_training_metrics = flag(value, "average_training_metrics"),
          .gradient_compression = flag(value, "gradient_compression"),
          .mixed_precision = text(value, "mixed_precision"),
          .tensor_fusion_threshold_mb = integer(value, "tensor_fusion_threshold"),
          .tensor_fusion_cycle_time_ms = integer(value, "tensor_fusion_cycle_time"),
          .auto_tune_tensor_fusion = flag(value, "auto_tune_tensor_fusion")};
}

// The items of policies are not defaulted: an absent pattern disables a policy.
LogPolicy policy_from(const Value& value) {
  const auto read = [&](std::string_view key) {
    const Value* found = value.find(key);
    return found == nullptr ? std::string() : found->text;
  };
  const std::string action = read("action");
  return {read("name"), read("pattern"),
          action == "cancel_retries" ? LogAction::kCancelRetries
          : action == "exclude_node" ? LogAction::kExcludeNode
                                     : LogAction::kLabel};
}

Entrypoint entrypoint_from(const Value& value) {
  Entrypoint entrypoint;
  entrypoint.is_list = value.is_list();
  entrypoint.words = value.is_list() ? texts(value) : std::vector<std::string>{value.text};
  entrypoint.trial_class = trial_class_of(entrypoint.words);
  return entrypoint;
}

}  // namespace

BatchSizes ExperimentConfig::batch_sizes(std::optional<int64_t> global_batch_size) const {
  if (!global_batch_size) {
    const auto found = hyperparameters.find("global_batch_size");
    const auto* constant =
        found == hyperparameters.end() ? nullptr : std::get_if<ConstHyperparameter>(&found->second.type);
    if (constant != nullptr && constant->val.kind == Kind::kInteger) global_batch_size = constant->val.integer;
  }
  return {.global_batch_size = global_batch_size.value_or(0), .records_per_epoch = records_per_epoch};
}

CheckpointStorage checkpoint_storage_from(const Value& value) {
  CheckpointStorage storage{integer(value, "save_experiment_best"),
                            integer(value, "save_trial_best"),
                            integer(value, "save_trial_latest"),
                            {}};
  const std::string type = text(value, "type");
  if (type == "shared_fs")
    storage.where =
        SharedFolderStorage{text(value, "host_path"), maybe_text(value, "storage_path"), text(value, "propagation")};
  if (type == "directory") storage.where = DirectoryStorage{text(value, "container_path")};
  if (type == "s3")
    storage.where = S3Storage{text(value, "bucket"), maybe_text(value, "access_key"), maybe_text(value, "secret_key"),
                              maybe_text(value, "endpoint_url"), maybe_text(value, "prefix")};
  if (type == "gcs") storage.where = GcsStorage{text(value, "bucket"), maybe_text(value, "prefix")};
  if (type == "azure")
    storage.where = AzureStorage{text(value, "container"), maybe_text(value, "connection_string"),
                                 maybe_text(value, "account_url"), maybe_text(value, "credential")};
  return storage;
}

ExperimentConfig config_from(yaml::Value defaulted) {
  const Value& root = defaulted;
  ExperimentConfig config;
  config.name = text(root, "name");
  config.description = maybe_text(root, "description");
  config.labels = texts(part(root, "labels"));
  config.data = part(root, "data");
  config.workspace = text(root, "workspace");
  config.project = text(root, "project");
  config.entrypoint = entrypoint_from(part(root, "entrypoint"));
  config.scheduling_unit = integer(root, "scheduling_unit");
  config.records_per_epoch = integer(root, "records_per_epoch");
  config.max_restarts = integer(root, "max_restarts");
  config.min_validation_period = length_from(part(root, "min_validation_period"));
  config.min_checkpoint_period = length_from(part(root, "min_checkpoint_period"));
  config.perform_initial_validation = flag(root, "perform_initial_validation");
  const std::string policy = text(root, "checkpoint_policy");
  config.checkpoint_policy = policy == "all"    ? CheckpointPolicy::kAll
                             : policy == "none" ? CheckpointPolicy::kNone
                                                : CheckpointPolicy::kBest;
  if (const auto seconds = maybe_integer(root, "preemption_timeout"))
    config.preemption_timeout = std::chrono::seconds(*seconds);
  config.searcher = searcher_from(part(root, "searcher"));
  config.hyperparameters = hyperparameters_from(part(root, "hyperparameters"));
  config.resources = resources_from(part(root, "resources"));
  for (const Value& mount : part(root, "bind_mounts").items) {
    config.bind_mounts.push_back({text(mount, "host_path"), text(mount, "container_path"), flag(mount, "read_only"),
                                  text(mount, "propagation")});
  }
  config.environment = environment_from(part(root, "environment"));
  // Without the defaults of the cluster the type may be missing.
  if (const Value& storage = part(root, "checkpoint_storage"); !storage.is_null() && !part(storage, "type").is_null())
    config.checkpoint_storage = checkpoint_storage_from(storage);
  config.experiment_seed = integer(part(root, "reproducibility"), "experiment_seed");
  const Value& profiling = part(root, "profiling");
  config.profiling = {flag(profiling, "enabled"), integer(profiling, "begin_on_batch"),
                      maybe_integer(profiling, "end_after_batch"), flag(profiling, "sync_timings")};
  config.optimizations = optimizations_from(part(root, "optimizations"));
  for (const Value& each : part(root, "log_policies").items) config.log_policies.push_back(policy_from(each));
  if (const Value& retention = part(root, "retention_policy"); !retention.is_null())
    config.log_retention_days = maybe_integer(retention, "log_retention_days");
  config.debug = flag(root, "debug");
  config.document = std::move(defaulted);
  return config;
}

}  // namespace volador::experiments
