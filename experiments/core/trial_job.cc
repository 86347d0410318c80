#include "experiments/core/trial_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "experiments/config/config_reader.h"
#include "experiments/config/forms.h"
#include "runtime/utf8.h"
#include "runtime/yaml/writer.h"

namespace volador::experiments {
namespace {

constexpr size_t kJobNameBytesMax = 128;
constexpr size_t kLabelBytesMax = 200;
constexpr int64_t kDefaultPriority = 42;
constexpr int64_t kGracefulMaxS = 3600;
constexpr std::string_view kGarbagePrefix = "garbage-";

bool read_number(std::string_view text, int64_t& number) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc() && end == text.data() + text.size() && number > 0;
}

std::string job_name(const std::string& experiment, const std::string& suffix) {
  return plain_text(experiment, kJobNameBytesMax - suffix.size()) + suffix;
}

// JobSpec.environment of an image: names of registries get the scheme that jobs write before them.
std::string environment_of(const std::string& image) {
  const bool is_reference = image.find_first_of("/:") != std::string::npos && !image.starts_with('/') &&
                            image.find("://") == std::string::npos && !image.starts_with("oci") &&
                            !image.starts_with("docker-archive:");
  return is_reference ? "docker://" + image : image;
}

bool is_below(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

void add_mounts(const ExperimentConfig& config, v1::JobSpec& spec) {
  for (const BindMount& mount : config.bind_mounts)
    spec.add_mounts(mount.host_path + ":" + mount.container_path + (mount.read_only ? ":ro" : ""));
  const bool isolated = spec.mounts_size() > 0 || spec.environment().find(':') != std::string::npos ||
                        spec.environment().ends_with(".tar");
  if (!isolated) return;
  spec.set_isolated(true);
  spec.set_shm_bytes(config.resources.shm_size_bytes);
  // Its checkpoints go to a folder of the node, which an isolated job could not write otherwise.
  const auto& storage = config.checkpoint_storage;
  const auto* shared = storage ? std::get_if<SharedFolderStorage>(&storage->where) : nullptr;
  if (shared == nullptr) return;
  const bool is_mounted = std::ranges::any_of(
      config.bind_mounts, [&](const BindMount& mount) { return is_below(shared->host_path, mount.container_path); });
  if (!is_mounted) spec.add_mounts(shared->host_path + ":" + shared->host_path);
}

void add_variables(const ExperimentConfig& config, bool gpus, v1::JobSpec& spec) {
  for (const std::string& text :
       config.environment.environment_variables.of(gpus ? DeviceKind::kCuda : DeviceKind::kCpu)) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
    (names_secret(name) ? *spec.mutable_secrets() : *spec.mutable_env())[name] = value;
  }
}

void add_policies(const ExperimentConfig& config, v1::JobSpec& spec) {
  for (const LogPolicy& policy : config.log_policies) {
    if (policy.pattern.empty()) continue;
    v1::LogPolicy& added = *spec.add_log_policies();
    added.set_pattern(policy.pattern);
    added.set_label(label_of(policy));
    added.set_action(policy.action == LogAction::kCancelRetries ? "cancel_retries"
                     : policy.action == LogAction::kExcludeNode ? "exclude_node"
                                                                : "label");
  }
}

void set_command(std::string_view words, v1::JobSpec& spec) {
  spec.add_command("bash");
  spec.add_command("-c");
  spec.add_command(fmt::format("exec \"$VOLADOR_EXECUTABLE\" experiment {}", words));
}

}  // namespace

std::string trial_text(int64_t trial, int64_t run) { return fmt::format("{}.{}", trial, run); }
std::string garbage_text(int64_t experiment, int64_t run) {
  return fmt::format("{}{}.{}", kGarbagePrefix, experiment, run);
}

std::optional<TrialText> parse_trial_text(std::string_view text) {
  TrialText out;
  out.is_garbage = text.starts_with(kGarbagePrefix);
  if (out.is_garbage) text.remove_prefix(kGarbagePrefix.size());
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  if (!read_number(text.substr(0, dot), out.id) || !read_number(text.substr(dot + 1), out.run)) return std::nullopt;
  return out;
}

std::string_view job_priority(const std::optional<int64_t>& priority) {
  return priority && *priority < kDefaultPriority ? "urgent" : "normal";
}

std::string label_of(const LogPolicy& policy) {
  return plain_text(policy.name.empty() ? policy.pattern : policy.name, kLabelBytesMax);
}

v1::JobSpec job_of_trial(const protocol::ExperimentDefinition& experiment, const ExperimentConfig& config,
                         const v1::TrialInfo& trial) {
  v1::JobSpec spec;
  spec.set_name(job_name(experiment.info().name(), fmt::format("-trial-{}", trial.id())));
  set_command("run-trial", spec);
  add_variables(config, experiment.gpus(), spec);
  (*spec.mutable_env())["VOLADOR_TRIAL"] = std::to_string(trial.id());
  (*spec.mutable_env())["VOLADOR_TRIAL_RUN"] = std::to_string(trial.run());
  (*spec.mutable_secrets())["VOLADOR_TOKEN"] = experiment.token();
  spec.set_nodes(std::max(1, experiment.nodes()));
  // Slots without GPUs are CPUs. The CPUs beside GPUs are not counted, as a trial uses as many as its loaders want.
  spec.set_cpus(experiment.gpus() ? 1 : std::max(1, experiment.slots_on_node()));
  if (experiment.gpus()) spec.set_gpus(experiment.slots_on_node());
  spec.set_priority(experiment.priority().empty() ? std::string(job_priority(config.resources.priority))
                                                  : experiment.priority());
  spec.set_pool(config.resources.resource_pool);
  spec.set_graceful_s(std::clamp<int64_t>(config.preemption_timeout.count(), 1, kGracefulMaxS));
  spec.set_stop_signal("TERM");
  spec.set_files_sha256(experiment.info().files_sha256());
  spec.set_environment(
      environment_of(config.environment.image.of(experiment.gpus() ? DeviceKind::kCuda : DeviceKind::kCpu)));
  spec.set_note(fmt::format("trial {} of experiment {}", trial.id(), experiment.id()));
  spec.set_trial(trial_text(trial.id(), trial.run()));
  add_mounts(config, spec);
  add_policies(config, spec);
  return spec;
}

v1::JobSpec job_of_program(const protocol::ExperimentDefinition& experiment, const protocol::KatibTrialProgram& program,
                           const v1::TrialInfo& trial) {
  v1::JobSpec spec = program.job();
  spec.set_name(program.name());
  spec.clear_command();
  // The launcher's own command starts MPI; without the word mpirun, the mode would start this one by MPI.
  set_command(spec.mode() == "mpi" ? "run-trial  # which runs mpirun" : "run-trial", spec);
  (*spec.mutable_env())["KATIB_TRIAL_NAME"] = program.name();
  (*spec.mutable_env())["VOLADOR_TRIAL"] = std::to_string(trial.id());
  (*spec.mutable_env())["VOLADOR_TRIAL_RUN"] = std::to_string(trial.run());
  (*spec.mutable_secrets())["VOLADOR_TOKEN"] = experiment.token();
  spec.set_files_sha256(experiment.info().files_sha256());
  if (spec.note().empty()) spec.set_note(fmt::format("trial {} of experiment {}", trial.id(), experiment.id()));
  if (!experiment.priority().empty()) spec.set_priority(experiment.priority());
  spec.set_trial(trial_text(trial.id(), trial.run()));
  return spec;
}

void start_program(const protocol::KatibTrialProgram& program, v1::StartTrialRunReply& reply) {
  *reply.mutable_command() = program.job().command();
  reply.clear_trial_class();
  reply.set_collection(program.collection());
}

v1::JobSpec job_of_garbage(const protocol::ExperimentDefinition& experiment, const ExperimentConfig& config,
                           const std::string& token) {
  v1::JobSpec spec;
  spec.set_name(job_name(experiment.info().name(), fmt::format("-garbage-{}", experiment.id())));
  set_command("run-gc", spec);
  add_variables(config, false, spec);
  (*spec.mutable_env())["VOLADOR_EXPERIMENT"] = std::to_string(experiment.id());
  (*spec.mutable_secrets())["VOLADOR_TOKEN"] = token;
  spec.set_nodes(1);
  spec.set_cpus(1);
  spec.set_pool(config.resources.resource_pool);
  spec.set_note(fmt::format("deletes checkpoints of experiment {}", experiment.id()));
  spec.set_trial(garbage_text(experiment.id(), experiment.garbage_run()));
  add_mounts(config, spec);
  return spec;
}

v1::StartTrialRunReply start_of_trial(const protocol::ExperimentDefinition& experiment, const ExperimentConfig& config,
                                      const v1::TrialInfo& trial, const StartingPoint& from) {
  v1::StartTrialRunReply reply;
  *reply.mutable_trial() = trial;
  const std::string task = fmt::format("{}.{}", experiment.id(), trial.request_id());
  auto& env = *reply.mutable_env();
  env["DET_EXPERIMENT_ID"] = std::to_string(experiment.id());
  env["DET_TRIAL_ID"] = std::to_string(trial.id());
  env["DET_TRIAL_SEED"] = std::to_string(trial.seed());
  env["DET_TRIAL_RUN_ID"] = std::to_string(trial.run());
  env["DET_HPARAMS"] = trial.hparams();
  env["DET_EXPERIMENT_CONFIG"] = experiment.config();
  env["DET_STEPS_COMPLETED"] = std::to_string(from.batches);
  if (!from.checkpoint.empty()) env["DET_LATEST_CHECKPOINT"] = from.checkpoint;
  env["DET_TASK_TYPE"] = "TRIAL";
  env["DET_TASK_ID"] = task;
  env["DET_ALLOCATION_ID"] = fmt::format("{}.{}", task, trial.run());
  env["DET_RESOURCES_TYPE"] = "docker-container";
  const Entrypoint& entrypoint = config.entrypoint;
  if (entrypoint.is_list) {
    for (const std::string& word : entrypoint.words) reply.add_command(word);
  } else {
    for (const std::string& word : {std::string("bash"), std::string("-c"), entrypoint.words.front()})
      reply.add_command(word);
  }
  // A launch command with a class at its end is a command as it is.
  const bool is_class =
      entrypoint.trial_class && entrypoint.words.size() == 1 && entrypoint.words.front() == *entrypoint.trial_class;
  if (is_class) reply.set_trial_class(*entrypoint.trial_class);
  reply.set_config(experiment.config());
  reply.set_slots(experiment.nodes() * experiment.slots_on_node());
  reply.set_slots_on_node(std::max(1, experiment.slots_on_node()));
  reply.set_preemption_timeout_s(config.preemption_timeout.count());
  reply.set_latest_checkpoint(from.checkpoint);
  reply.set_storage(storage_json(config));
  reply.set_gpu(experiment.gpus());
  reply.set_batches(from.batches);
  reply.set_debug(config.debug);
  return reply;
}

std::string storage_text(const ExperimentConfig& config) {
  if (!config.checkpoint_storage) return {};
  const auto below = [](const std::string& where, const std::optional<std::string>& path) {
    if (!path || path->empty()) return where;
    if (path->starts_with('/') && where.starts_with('/')) return *path;
    return where + (path->starts_with('/') ? "" : "/") + *path;
  };
  struct Text {
    const decltype(below)& join;
    std::string operator()(const SharedFolderStorage& where) const { return join(where.host_path, where.storage_path); }
    std::string operator()(const DirectoryStorage& where) const { return where.container_path; }
    std::string operator()(const S3Storage& where) const { return join("s3://" + where.bucket, where.prefix); }
    std::string operator()(const GcsStorage& where) const { return join("gs://" + where.bucket, where.prefix); }
    std::string operator()(const AzureStorage& where) const { return "azure://" + where.container; }
  };
  return std::visit(Text{below}, config.checkpoint_storage->where);
}

std::string storage_json(const ExperimentConfig& config) {
  const yaml::Value* storage = config.document.find("checkpoint_storage");
  return storage == nullptr ? "null" : yaml::json_text(*storage);
}

}  // namespace volador::experiments
