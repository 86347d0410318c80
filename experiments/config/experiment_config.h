// A complete experiment configuration as C++ types: every value is valid, every default is filled in.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "experiments/config/hyperparameter.h"
#include "experiments/config/length.h"
#include "runtime/yaml/value.h"

namespace volador::experiments {

struct SingleSearch {};
struct RandomSearch {
  int64_t max_trials = 1;
  int64_t max_concurrent_trials = 16;  // 0: no limit; likewise below.
};
struct GridSearch {
  int64_t max_concurrent_trials = 16;
};
enum class SearchMode : uint8_t { kAggressive, kStandard, kConservative };
struct AdaptiveAshaSearch {
  int64_t max_trials = 1;
  SearchMode mode = SearchMode::kStandard;
  double divisor = 4;  // Above 1.
  int64_t max_rungs = 5;
  std::vector<int64_t> bracket_rungs;  // Not empty: replaces mode and max_rungs.
  int64_t max_concurrent_trials = 16;
  bool stop_once = false;
};
struct AsyncHalvingSearch {
  int64_t num_rungs = 1;
  int64_t max_trials = 1;
  double divisor = 4;
  int64_t max_concurrent_trials = 16;
  bool stop_once = false;
};
// The trials are chosen by a program of the user.
struct CustomSearch {};

struct Searcher {
  std::string name;  // "adaptive_asha"; says which alternative `method` has.
  std::string metric;
  bool smaller_is_better = true;
  std::optional<int64_t> source_trial_id;
  std::optional<std::string> source_checkpoint_uuid;
  std::optional<Length> max_length;  // No value: the script decides.
  // Progress of scripts that decide their length, for adaptive_asha and async_halving without max_length.
  std::optional<std::string> time_metric;
  std::optional<int64_t> max_time;
  std::variant<SingleSearch, RandomSearch, GridSearch, AdaptiveAshaSearch, AsyncHalvingSearch, CustomSearch> method;
};

struct SharedFolderStorage {
  std::string host_path;
  std::optional<std::string> storage_path;
  std::string propagation = "rprivate";
};
struct DirectoryStorage {
  std::string container_path;
};
struct S3Storage {
  std::string bucket;
  std::optional<std::string> access_key, secret_key, endpoint_url, prefix;
};
struct GcsStorage {
  std::string bucket;
  std::optional<std::string> prefix;
};
struct AzureStorage {
  std::string container;
  std::optional<std::string> connection_string, account_url, credential;
};
struct CheckpointStorage {
  int64_t save_experiment_best = 0, save_trial_best = 1, save_trial_latest = 1;
  std::variant<SharedFolderStorage, DirectoryStorage, S3Storage, GcsStorage, AzureStorage> where;
};

struct Device {
  std::string host_path, container_path, mode;
};
struct Resources {
  int64_t slots_per_trial = 1;
  std::optional<int64_t> max_slots;
  double weight = 1;
  std::optional<int64_t> priority;
  std::string resource_pool;
  int64_t shm_size_bytes = 4'294'967'296;
  bool is_single_node = false;
  std::vector<Device> devices;
};

struct BindMount {
  std::string host_path, container_path;
  bool read_only = false;
  std::string propagation = "rprivate";
};

enum class DeviceKind : uint8_t { kCpu, kCuda, kRocm };
template <class T>
struct PerDevice {
  T cpu, cuda, rocm;

  const T& of(DeviceKind kind) const {
    return kind == DeviceKind::kCpu ? cpu : kind == DeviceKind::kCuda ? cuda : rocm;
  }
};
struct RegistryAuth {
  std::string username, password, serveraddress, auth, email, identitytoken, registrytoken;  // Empty: not given.
};
struct ProxyPort {
  int64_t port = 0;
  bool is_tcp = false, is_unauthenticated = false, is_default = false;
};
struct Environment {
  PerDevice<std::string> image;                               // Empty: the node's own environment.
  PerDevice<std::vector<std::string>> environment_variables;  // NAME=VALUE; the last one of a name counts.
  std::vector<ProxyPort> proxy_ports;
  bool force_pull_image = false;
  std::optional<RegistryAuth> registry_auth;
  std::vector<std::string> add_capabilities, drop_capabilities;
};

struct Profiling {
  bool enabled = false;
  int64_t begin_on_batch = 0;
  std::optional<int64_t> end_after_batch;
  bool sync_timings = true;
};

struct Optimizations {
  int64_t aggregation_frequency = 1;
  bool average_aggregated_gradients = true;
  bool average_training_metrics = true;
  bool gradient_compression = false;
  std::string mixed_precision = "O0";
  int64_t tensor_fusion_threshold_mb = 64;
  int64_t tensor_fusion_cycle_time_ms = 5;
  bool auto_tune_tensor_fusion = false;
};

enum class LogAction : uint8_t { kLabel, kCancelRetries, kExcludeNode };
struct LogPolicy {
  std::string name;     // Empty: none.
  std::string pattern;  // Empty: the policy is disabled.
  LogAction action = LogAction::kLabel;
};

enum class CheckpointPolicy : uint8_t { kBest, kAll, kNone };

struct Entrypoint {
  std::vector<std::string> words;          // One word: a shell command, unless it is a trial class.
  bool is_list = false;                    // The words are the arguments of one process, without a shell.
  std::optional<std::string> trial_class;  // "model_def:MNistTrial", also at the end of a launch command.
};

struct ExperimentConfig {
  std::string name;
  std::optional<std::string> description;
  std::vector<std::string> labels;
  yaml::Value data;
  std::string workspace, project;  // Both empty: uncategorized.
  Entrypoint entrypoint;
  int64_t scheduling_unit = 100;
  int64_t records_per_epoch = 0;
  int64_t max_restarts = 5;
  Length min_validation_period, min_checkpoint_period;
  bool perform_initial_validation = false;
  CheckpointPolicy checkpoint_policy = CheckpointPolicy::kBest;
  std::chrono::seconds preemption_timeout{3600};
  Searcher searcher;
  Hyperparameters hyperparameters;
  Resources resources;
  std::vector<BindMount> bind_mounts;
  Environment environment;
  std::optional<CheckpointStorage> checkpoint_storage;  // No value: the cluster's.
  int64_t experiment_seed = 0;
  Profiling profiling;
  Optimizations optimizations;
  std::vector<LogPolicy> log_policies;
  std::optional<int64_t> log_retention_days;  // -1: for ever.
  bool debug = false;

  // Everything above and what Volador does not use, as keys: the source of DET_EXPERIMENT_CONFIG.
  yaml::Value document;

  // The sizes with which lengths are converted. `global_batch_size`: of the trial, where it is not a constant.
  BatchSizes batch_sizes(std::optional<int64_t> global_batch_size = std::nullopt) const;
};

// `defaulted`: with_defaults() of a configuration without errors.
ExperimentConfig config_from(yaml::Value defaulted);
// `value`: `checkpoint_storage` of such a configuration.
CheckpointStorage checkpoint_storage_from(const yaml::Value& value);

}  // namespace volador::experiments
