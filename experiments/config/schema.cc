#include "experiments/config/schema.h"

#include <algorithm>
#include <limits>
#include <set>

#include "experiments/config/forms.h"

namespace volador::experiments {
namespace {

using yaml::Value;

constexpr double kSeedMax = 2147483647;
constexpr double kRetentionDaysMax = 32767;

TypePtr shared(Type type) { return std::make_shared<const Type>(std::move(type)); }
TypePtr any() { return shared({.shape = Shape::kAny}); }
TypePtr boolean() { return shared({.shape = Shape::kBoolean}); }
TypePtr integer() { return shared({.shape = Shape::kInteger}); }
TypePtr integer_from(double min, std::optional<double> max = std::nullopt) {
  return shared({.shape = Shape::kInteger, .min = min, .max = max});
}
TypePtr number() { return shared({.shape = Shape::kNumber}); }
TypePtr number_above(double min) { return shared({.shape = Shape::kNumber, .min = min, .above_min = true}); }
TypePtr text() { return shared({.shape = Shape::kText}); }
TypePtr secret_text() { return shared({.shape = Shape::kText, .secret = true}); }
TypePtr checked_text(TextCheck check) { return shared({.shape = Shape::kText, .text_check = check}); }
TypePtr choice(std::vector<std::string> choices, std::vector<std::pair<std::string, std::string>> aliases = {}) {
  return shared({.shape = Shape::kText, .choices = std::move(choices), .choice_aliases = std::move(aliases)});
}
TypePtr required(const TypePtr& type) {
  Type copy = *type;
  copy.not_null = true;
  return shared(std::move(copy));
}
TypePtr list_of(TypePtr item, MergeRule merge = MergeRule::kReplace, std::string key = {}) {
  return shared({.shape = Shape::kList, .item = std::move(item), .merge = merge, .merge_key = std::move(key)});
}
TypePtr free_map(TypePtr item = nullptr) { return shared({.shape = Shape::kFreeMap, .item = std::move(item)}); }
TypePtr length() { return shared({.shape = Shape::kLength, .min = 0}); }
TypePtr positive_length() { return shared({.shape = Shape::kSearcherLength, .min = 1}); }
TypePtr per_device(TypePtr item) { return shared({.shape = Shape::kPerDevice, .item = std::move(item)}); }
TypePtr object(std::string name, std::vector<Field> fields, ObjectCheck check = nullptr) {
  return shared({.shape = Shape::kObject, .name = std::move(name), .fields = std::move(fields), .check = check});
}

std::string absolute_host_path(std::string_view path) {
  return path.starts_with('/') ? "" : "host_path must be an absolute path";
}
std::string not_the_work_directory(std::string_view path) {
  return path == "." ? "container_path must not be \".\"" : "";
}
std::string prefix_without_parent(std::string_view prefix) {
  return has_parent_component(prefix) ? "prefix cannot contain /../" : "";
}
std::string name_and_value(std::string_view variable) { return variable_name(variable) ? "" : "expected NAME=VALUE"; }

// minval < maxval.
void check_range(const Value& object, std::string_view path, Findings& findings) {
  const Value* low = object.find("minval");
  const Value* high = object.find("maxval");
  if (low == nullptr || high == nullptr || !low->is_number() || !high->is_number()) return;
  if (low->as_number() < high->as_number()) return;
  findings.error(path, low->place, "minval must be less than maxval");
}

void check_categories(const Value& object, std::string_view path, Findings& findings) {
  const Value* vals = object.find("vals");
  if (vals != nullptr && vals->is_list() && vals->items.empty())
    findings.error(path_below(path, "vals"), vals->place, "expected at least one value, got an empty list");
}

void check_profiling(const Value& object, std::string_view path, Findings& findings) {
  const Value* begin = object.find("begin_on_batch");
  const Value* end = object.find("end_after_batch");
  if (begin == nullptr || end == nullptr || !begin->is_number() || !end->is_number()) return;
  if (begin->integer > end->integer)
    findings.error(path, begin->place, "begin_on_batch must be less than end_after_batch");
}

void check_shared_folder(const Value& object, std::string_view path, Findings& findings) {
  const Value* storage = object.find("storage_path");
  const Value* host = object.find("host_path");
  if (storage == nullptr || host == nullptr || !storage->is_text() || !host->is_text()) return;
  if (is_inside(storage->text, host->text)) return;
  findings.error(path_below(path, "storage_path"), storage->place,
                 "storage_path must either be a relative directory or a subdirectory of host_path");
}

void check_azure(const Value& object, std::string_view path, Findings& findings) {
  const Value* connection = object.find("connection_string");
  const Value* credential = object.find("credential");
  if (connection != nullptr && credential != nullptr && connection->is_text() && credential->is_text())
    findings.error(path, credential->place, "credential and connection_string must not both be set");
}

void check_storage(const Value& object, std::string_view path, Findings& findings) {
  const Value* type = object.find("type");
  if (type == nullptr || !type->is_text()) return;
  if (type->text == "shared_fs") check_shared_folder(object, path, findings);
  if (type->text == "azure") check_azure(object, path, findings);
}

void check_log_policy(const Value& object, std::string_view path, Findings& findings) {
  const auto given = [&](std::string_view key) {
    const Value* value = object.find(key);
    return value != nullptr && !value->is_null();
  };
  if (given("name") || (given("pattern") && given("action"))) return;
  findings.error(path, object.place,
                 "\"name\" must be set, and \"pattern\" is also required unless you intend to disable an existing "
                 "policy");
}

std::vector<Field> experiment_storage_counts() {
  return {
      {.key = "save_experiment_best",
       .type = integer_from(0),
       .initial = "0",
       .help = "Checkpoints of the whole experiment that are kept, the best ones by the searcher's metric."},
      {.key = "save_trial_best",
       .type = integer_from(0),
       .initial = "1",
       .help = "Checkpoints of each trial that are kept, the best ones by the searcher's metric."},
      {.key = "save_trial_latest",
       .type = integer_from(0),
       .initial = "1",
       .help = "Checkpoints of each trial that are kept, the latest ones."},
  };
}

TypePtr storage() {
  std::vector<Field> common{{.key = "type",
                             .type = choice({"shared_fs", "directory", "s3", "gcs", "azure"}),
                             .help = "Kind of storage; decides which of the other keys are permitted.",
                             .need = Need::kEventually}};
  for (Field& field : experiment_storage_counts()) common.push_back(std::move(field));
  const auto prefix = checked_text(prefix_without_parent);
  std::vector<Variant> variants{
      {"shared_fs",
       {{.key = "host_path",
         .type = text(),
         .help = "Folder of the nodes, on a file system that they share.",
         .need = Need::kEventually},
        {.key = "storage_path", .type = text(), .help = "Folder in host_path, relative or absolute."},
        {.key = "propagation", .type = text(), .initial = "\"rprivate\"", .help = "Propagation of the bind mount."},
        {.key = "container_path",
         .type = text(),
         .help = "Formerly the place of the mount.",
         .effect = Effect::kUnused},
        {.key = "checkpoint_path", .type = text(), .help = "Formerly storage_path.", .effect = Effect::kUnused},
        {.key = "tensorboard_path",
         .type = text(),
         .help = "Formerly the folder of TensorBoard's files.",
         .effect = Effect::kUnused}}},
      {"directory",
       {{.key = "container_path",
         .type = text(),
         .help = "Folder that each trial has, by a mount or its image.",
         .need = Need::kEventually}}},
      {"s3",
       {{.key = "bucket", .type = text(), .help = "Bucket of S3 or of a compatible store.", .need = Need::kEventually},
        {.key = "access_key", .type = secret_text(), .help = "Access key; by default that of the node's environment."},
        {.key = "secret_key", .type = secret_text(), .help = "Secret of the access key."},
        {.key = "endpoint_url", .type = text(), .help = "Address of a compatible store such as MinIO."},
        {.key = "prefix", .type = prefix, .help = "Beginning of all keys in the bucket."}}},
      {"gcs",
       {{.key = "bucket", .type = text(), .help = "Bucket of Google Cloud Storage.", .need = Need::kEventually},
        {.key = "prefix", .type = prefix, .help = "Beginning of all names in the bucket."}}},
      {"azure",
       {{.key = "container", .type = text(), .help = "Container of the storage account.", .need = Need::kEventually},
        {.key = "connection_string",
         .type = secret_text(),
         .help = "Connection string of the account; excludes account_url and credential."},
        {.key = "account_url", .type = text(), .help = "Address of the account; excludes connection_string."},
        {.key = "credential", .type = secret_text(), .help = "Key or token for account_url."}}},
  };
  return shared({.shape = Shape::kUnion,
                 .name = "checkpoint_storage",
                 .fields = std::move(common),
                 .variant_key = "type",
                 .variants = std::move(variants),
                 .check = check_storage});
}

Field max_length() {
  return {.key = "max_length",
          .type = positive_length(),
          .help = "Length of a trial's training. A trial class needs it; a script may decide itself."};
}
Field max_trials(std::optional<double> most = std::nullopt) {
  return {.key = "max_trials", .type = integer_from(1, most), .help = "Number of trials.", .need = Need::kEventually};
}
Field max_concurrent_trials() {
  return {.key = "max_concurrent_trials",
          .type = integer_from(0),
          .initial = "16",
          .help = "Trials that run at the same time at most; 0: no limit."};
}
Field divisor() {
  return {.key = "divisor",
          .type = number_above(1),
          .initial = "4",
          .help = "One in so many trials of a rung goes on to the next."};
}
Field mode() {
  return {.key = "mode",
          .type = choice({"aggressive", "standard", "conservative"}, {{"agressive", "aggressive"}}),
          .initial = "\"standard\"",
          .help = "How early trials are stopped; conservative uses the most brackets."};
}
Field max_rungs() {
  return {.key = "max_rungs", .type = integer_from(1), .initial = "5", .help = "Rungs of the longest bracket at most."};
}
Field bracket_rungs() {
  return {.key = "bracket_rungs",
          .type = list_of(required(integer_from(1))),
          .initial = "[]",
          .help = "Rungs of each bracket; replaces mode and max_rungs."};
}
Field num_rungs() {
  return {.key = "num_rungs", .type = integer_from(1), .help = "Number of rungs.", .need = Need::kEventually};
}
Field stop_once() {
  return {.key = "stop_once",
          .type = boolean(),
          .initial = "false",
          .help = "Whether a trial that was stopped at a rung is never continued."};
}
std::vector<Field> time_fields() {
  return {{.key = "time_metric",
           .type = text(),
           .help = "Metric that counts the progress of a script that decides its length itself."},
          {.key = "max_time", .type = integer_from(1), .help = "Largest value of time_metric."}};
}
Field budget() {
  return {.key = "budget", .type = length(), .help = "Length of all trials together.", .need = Need::kEventually};
}
Field train_stragglers() {
  return {.key = "train_stragglers",
          .type = boolean(),
          .initial = "true",
          .help = "Whether late trials of a rung are trained on.",
          .effect = Effect::kUnused};
}

TypePtr searcher() {
  std::vector<Field> common{
      {.key = "name",
       .type = choice({"single", "random", "grid", "adaptive_asha", "async_halving", "custom", "adaptive",
                       "adaptive_simple", "sync_halving"}),
       .help = "Method of the search; decides which of the other keys are permitted.",
       .need = Need::kEventually},
      {.key = "metric",
       .type = text(),
       .help = "Validation metric that compares checkpoints and trials.",
       .need = Need::kEventually},
      {.key = "smaller_is_better",
       .type = boolean(),
       .initial = "true",
       .help = "Whether a smaller value of the metric is better."},
      {.key = "source_trial_id",
       .type = integer(),
       .help = "Trial whose latest checkpoint each trial starts from; excludes source_checkpoint_uuid."},
      {.key = "source_checkpoint_uuid", .type = text(), .help = "Checkpoint that each trial starts from."}};
  const auto with_time = [](std::vector<Field> fields) {
    for (Field& field : time_fields()) fields.push_back(std::move(field));
    return fields;
  };
  std::vector<Variant> variants{
      {"single", {max_length()}},
      {"random", {max_trials(), max_concurrent_trials(), max_length()}},
      {"grid", {max_concurrent_trials(), max_length()}},
      {"adaptive_asha", with_time({max_trials(), mode(), divisor(), max_rungs(), bracket_rungs(),
                                   max_concurrent_trials(), max_length(), stop_once()})},
      {"async_halving",
       with_time({num_rungs(), max_trials(), divisor(), max_concurrent_trials(), max_length(), stop_once()})},
      {"custom",
       {{.key = "unit",
         .type = choice({"batches", "records", "epochs"}),
         .help = "Unit in which the program that runs the search counts lengths."}},
       /*is_open=*/true},
      {"adaptive", {budget(), mode(), divisor(), max_rungs(), bracket_rungs(), max_length(), train_stragglers()}},
      {"adaptive_simple", {max_trials(2000), mode(), divisor(), max_rungs(), max_length()}},
      {"sync_halving", {num_rungs(), budget(), divisor(), max_length(), train_stragglers()}},
  };
  return shared({.shape = Shape::kUnion,
                 .name = "searcher",
                 .fields = std::move(common),
                 .variant_key = "name",
                 .variants = std::move(variants)});
}

TypePtr resources() {
  return object(
      "resources",
      {{.key = "slots_per_trial",
        .type = integer_from(0),
        .initial = "1",
        .help = "GPUs of a trial, on as many nodes as it takes; 0: CPUs only."},
       {.key = "max_slots",
        .type = integer_from(0),
        .help = "GPUs of all trials of the experiment together at most; null: no limit."},
       {.key = "weight", .type = number_above(0), .initial = "1", .help = "Share of the cluster relative to others."},
       {.key = "priority", .type = integer_from(1, 99), .help = "Priority in the queue, 1 to 99; 1 is the highest."},
       {.key = "resource_pool", .type = text(), .initial = "\"\"", .help = "Pool of nodes; empty: the default pool."},
       {.key = "shm_size",
        .type = shared({.shape = Shape::kMemory}),
        .help = "Shared memory of a container: bytes, or a text such as 128M or 1.5G in powers of 1024; null: 4 GiB."},
       {.key = "is_single_node", .type = boolean(), .help = "Whether all GPUs of a trial must be on one node."},
       {.key = "native_parallel",
        .type = boolean(),
        .initial = "false",
        .help = "Formerly: the framework distributes the training.",
        .effect = Effect::kUnused},
       {.key = "devices",
        .type = list_of(shared({.shape = Shape::kDevice,
                                .name = "devices[]",
                                .fields = {{.key = "host_path",
                                            .type = required(text()),
                                            .help = "Device of the node.",
                                            .need = Need::kRequired},
                                           {.key = "container_path",
                                            .type = required(text()),
                                            .help = "Its path in the container.",
                                            .need = Need::kRequired},
                                           {.key = "mode",
                                            .type = text(),
                                            .initial = "\"mrw\"",
                                            .help = "Any of m (make), r (read) and w (write)."}}}),
                        MergeRule::kByKey, "container_path"),
        .initial = "[]",
        .help = "Devices of the nodes that trials may use, as maps or as /host:/container:mode."},
       {.key = "agent_label", .type = text(), .help = "Formerly labels of nodes.", .effect = Effect::kDropped},
       {.key = "slots", .type = integer(), .help = "For commands only.", .effect = Effect::kDropped}});
}

TypePtr bind_mounts() {
  return list_of(
      object("bind_mounts[]",
             {{.key = "host_path",
               .type = required(checked_text(absolute_host_path)),
               .help = "Absolute path on the nodes.",
               .need = Need::kRequired},
              {.key = "container_path",
               .type = required(checked_text(not_the_work_directory)),
               .help = "Path in the container; relative ones begin in the work directory.",
               .need = Need::kRequired},
              {.key = "read_only", .type = boolean(), .initial = "false", .help = "Whether trials cannot write there."},
              {.key = "propagation", .type = text(), .initial = "\"rprivate\"", .help = "Propagation of the mount."}}),
      MergeRule::kByKey, "container_path");
}

TypePtr registry_auth() {
  return object("environment.registry_auth",
                {{.key = "username", .type = text(), .help = "User of the registry."},
                 {.key = "password", .type = secret_text(), .help = "Password of the user."},
                 {.key = "serveraddress", .type = text(), .help = "Address of the registry."},
                 {.key = "auth", .type = secret_text(), .help = "User and password in base64."},
                 {.key = "email", .type = text(), .help = "Address of the user."},
                 {.key = "identitytoken", .type = secret_text(), .help = "Token instead of a password."},
                 {.key = "registrytoken", .type = secret_text(), .help = "Bearer token of the registry."}});
}

TypePtr environment() {
  const auto variables =
      list_of(shared({.shape = Shape::kText, .not_null = true, .unshown = true, .text_check = name_and_value}),
              MergeRule::kConcatenate);
  return object(
      "environment",
      {{.key = "image",
        .type = per_device(text()),
        .initial = "{\"cpu\": null, \"cuda\": null, \"rocm\": null}",
        .help =
            "Image of the trials: one text, or one for each of cpu, cuda and rocm; null: the node's own environment."},
       {.key = "environment_variables",
        .type = per_device(variables),
        .initial = "{\"cpu\": [], \"cuda\": [], \"rocm\": []}",
        .help = "Variables as NAME=VALUE: one list, or one for each of cpu, cuda and rocm."},
       {.key = "proxy_ports",
        .type = list_of(object("environment.proxy_ports[]",
                               {{.key = "proxy_port",
                                 .type = required(integer_from(1, 65535)),
                                 .help = "Port of a server in the trial.",
                                 .need = Need::kRequired},
                                {.key = "proxy_tcp",
                                 .type = boolean(),
                                 .initial = "false",
                                 .help = "Whether the port is passed on as TCP rather than HTTP."},
                                {.key = "unauthenticated",
                                 .type = boolean(),
                                 .initial = "false",
                                 .help = "Whether anyone may connect."},
                                {.key = "default_service_id",
                                 .type = boolean(),
                                 .initial = "false",
                                 .help = "Whether the port is the one that is used when none is named."}}),
                        MergeRule::kByKey, "proxy_port"),
        .initial = "[]",
        .help = "Ports of servers in trials that the head passes on."},
       {.key = "ports",
        .type = free_map(required(integer())),
        .initial = "{}",
        .help = "Formerly ports by name.",
        .effect = Effect::kUnused},
       {.key = "force_pull_image",
        .type = boolean(),
        .initial = "false",
        .help = "Whether the image is fetched although the node has it."},
       {.key = "registry_auth",
        .type = registry_auth(),
        .help = "Login of the image's registry.",
        .aliases = {"registrt_auth"}},
       {.key = "add_capabilities",
        .type = list_of(required(text())),
        .initial = "[]",
        .help = "Linux capabilities that containers get."},
       {.key = "drop_capabilities",
        .type = list_of(required(text())),
        .initial = "[]",
        .help = "Linux capabilities that containers lose."},
       {.key = "pod_spec",
        .type = free_map(),
        .help = "Specification of a Kubernetes pod.",
        .effect = Effect::kUnused}});
}

TypePtr optimizations() {
  return object("optimizations",
                {{.key = "aggregation_frequency",
                  .type = integer_from(1),
                  .initial = "1",
                  .help = "Batches whose gradients are added up before they are exchanged."},
                 {.key = "average_aggregated_gradients",
                  .type = boolean(),
                  .initial = "true",
                  .help = "Whether the added gradients are divided by aggregation_frequency."},
                 {.key = "average_training_metrics",
                  .type = boolean(),
                  .initial = "true",
                  .help = "Whether training metrics are averaged over all GPUs."},
                 {.key = "gradient_compression",
                  .type = boolean(),
                  .initial = "false",
                  .help = "Whether gradients are exchanged as 16-bit numbers."},
                 {.key = "mixed_precision",
                  .type = choice({"O0", "O1", "O2", "O3"}),
                  .initial = "\"O0\"",
                  .help = "Level of mixed precision, with an uppercase O."},
                 {.key = "tensor_fusion_threshold",
                  .type = integer_from(0),
                  .initial = "64",
                  .help = "MB of gradients that are exchanged at once."},
                 {.key = "tensor_fusion_cycle_time",
                  .type = integer_from(0),
                  .initial = "5",
                  .help = "Milliseconds between two exchanges."},
                 {.key = "auto_tune_tensor_fusion",
                  .type = boolean(),
                  .initial = "false",
                  .help = "Whether both are tuned while the training runs."},
                 {.key = "grad_updates_size_file", .type = text(), .help = "File for the sizes of gradients."}});
}

TypePtr log_policies() {
  return shared({.shape = Shape::kList,
                 .item = object("log_policies[]",
                                {{.key = "name", .type = text(), .help = "Name, unique in the list."},
                                 {.key = "pattern",
                                  .type = text(),
                                  .help = "Regular expression for a line of the log; null disables a policy of a lower "
                                          "layer."},
                                 {.key = "action",
                                  .type = shared({.shape = Shape::kLogAction}),
                                  .help = "cancel_retries or exclude_node; null labels the trial only."}},
                                check_log_policy),
                 .merge = MergeRule::kLogPolicies,
                 .merge_key = "name"});
}

TypePtr integrations() {
  const auto needed = [](std::string key, TypePtr type, std::string help) {
    return Field{.key = std::move(key), .type = required(type), .help = std::move(help), .need = Need::kRequired};
  };
  const auto pachyderm = object(
      "integrations.pachyderm",
      {needed("pachd", object("", {needed("host", text(), "Host."), needed("port", integer(), "Port.")}), "Server."),
       needed("proxy",
              object("", {needed("scheme", text(), "http or https."), needed("host", text(), "Host."),
                          needed("port", integer(), "Port.")}),
              "Proxy."),
       needed("dataset",
              object("", {needed("project", text(), "Project."), needed("repo", text(), "Repository."),
                          needed("commit", text(), "Commit."), needed("branch", text(), "Branch."),
                          needed("token", secret_text(), "Token.")}),
              "Data set.")});
  const auto webhooks =
      object("integrations.webhooks", {{.key = "webhook_id", .type = list_of(required(integer())), .help = "Ids."},
                                       {.key = "webhook_name", .type = list_of(required(text())), .help = "Names."},
                                       {.key = "exclude",
                                        .type = boolean(),
                                        .initial = "false",
                                        .help = "Whether no webhook is told of the experiment."}});
  return object("integrations", {{.key = "pachyderm", .type = pachyderm, .help = "Data sets of Pachyderm."},
                                 {.key = "webhooks", .type = webhooks, .help = "Webhooks of the experiment."}});
}

TypePtr experiment() {
  const auto batch_system = [](std::string name, std::string arguments) {
    return object(name, {{.key = "slots_per_node", .type = integer_from(1), .help = "GPUs of a node."},
                         {.key = "gpu_type", .type = text(), .help = "Kind of GPU."},
                         {.key = arguments, .type = list_of(required(text())), .help = "Further arguments."}});
  };
  return object(
      "",
      {{.key = "name", .type = text(), .help = "Name of the experiment; one is made up by default."},
       {.key = "description", .type = text(), .help = "Text for people."},
       {.key = "labels", .type = list_of(required(text()), MergeRule::kSet), .initial = "[]", .help = "Labels."},
       {.key = "data",
        .type = free_map(),
        .initial = "{}",
        .help = "The program's own settings of its data. Values below data.secrets are never shown."},
       {.key = "workspace", .type = text(), .initial = "\"\"", .help = "Workspace; needs project as well."},
       {.key = "project", .type = text(), .initial = "\"\"", .help = "Project; needs workspace as well."},
       {.key = "entrypoint",
        .type = shared({.shape = Shape::kTextOrTexts}),
        .help = "What runs: a trial class as file:Class, a shell command, or a list of words.",
        .need = Need::kEventually},
       {.key = "scheduling_unit",
        .type = integer_from(1),
        .initial = "100",
        .help = "Batches between two reports of training metrics, and between two looks whether to pause."},
       {.key = "records_per_epoch",
        .type = integer_from(0),
        .initial = "0",
        .help = "Records of the training data; lengths in epochs need it."},
       {.key = "max_restarts",
        .type = integer_from(0),
        .initial = "5",
        .help = "How often a trial that failed starts again from its latest checkpoint. Lost nodes do not count."},
       {.key = "min_validation_period",
        .type = length(),
        .initial = "{\"batches\": 0}",
        .help = "A trial is validated at least so often; 0: when the searcher asks for it."},
       {.key = "min_checkpoint_period",
        .type = length(),
        .initial = "{\"batches\": 0}",
        .help = "A checkpoint is saved at least so often; 0: when the searcher or the policy asks for it."},
       {.key = "perform_initial_validation",
        .type = boolean(),
        .initial = "false",
        .help = "Whether each trial is validated before its first batch."},
       {.key = "checkpoint_policy",
        .type = choice({"best", "all", "none"}),
        .initial = "\"best\"",
        .help = "After which validations a checkpoint is saved: the best one so far, all, or none."},
       {.key = "preemption_timeout",
        .type = integer_from(0),
        .help = "Seconds that a trial has to save itself before it is ended; null: one hour."},
       {.key = "searcher", .type = searcher(), .help = "See below.", .need = Need::kEventually},
       {.key = "hyperparameters",
        .type = shared({.shape = Shape::kHyperparameters, .name = "hyperparameters"}),
        .initial = "{}",
        .help = "See below.",
        .need = Need::kEventually},
       {.key = "resources", .type = resources(), .initial = "{}", .help = "See below.", .aliases = {"resource"}},
       {.key = "bind_mounts", .type = bind_mounts(), .initial = "[]", .help = "See below."},
       {.key = "environment", .type = environment(), .initial = "{}", .help = "See below."},
       {.key = "checkpoint_storage",
        .type = storage(),
        .help = "See below; by default that of the cluster.",
        .need = Need::kEventually},
       {.key = "reproducibility",
        .type = object("reproducibility", {{.key = "experiment_seed",
                                            .type = integer_from(0, kSeedMax),
                                            .help = "Seed of the search and of each trial; by default the time of "
                                                    "submission in seconds.",
                                            .need = Need::kEventually}}),
        .initial = "{}",
        .help = "See below.",
        .need = Need::kEventually},
       {.key = "profiling",
        .type = object("profiling",
                       {{.key = "enabled", .type = boolean(), .initial = "false", .help = "Whether to profile."},
                        {.key = "begin_on_batch", .type = integer_from(0), .initial = "0", .help = "First batch."},
                        {.key = "end_after_batch", .type = integer_from(0), .help = "Last batch; null: no end."},
                        {.key = "sync_timings",
                         .type = boolean(),
                         .initial = "true",
                         .help = "Whether the device finishes its work before a time is taken."}},
                       check_profiling),
        .initial = "{}",
        .help = "See below."},
       {.key = "optimizations", .type = optimizations(), .initial = "{}", .help = "See below."},
       {.key = "log_policies",
        .type = log_policies(),
        .initial = "[]",
        .help = "See below.",
        .aliases = {"log_pattern_policies"}},
       {.key = "retention_policy",
        .type = object("retention_policy", {{.key = "log_retention_days",
                                             .type = integer_from(-1, kRetentionDaysMax),
                                             .help = "Days that logs are kept; -1: for ever; null: as the cluster "
                                                     "decides."}}),
        .help = "See below."},
       {.key = "debug", .type = boolean(), .initial = "false", .help = "Whether trials log more."},
       {.key = "slurm",
        .type = batch_system("slurm", "sbatch_args"),
        .initial = "{}",
        .help = "Settings of Slurm.",
        .effect = Effect::kUnused},
       {.key = "pbs",
        .type = batch_system("pbs", "pbsbatch_args"),
        .initial = "{}",
        .help = "Settings of PBS.",
        .effect = Effect::kUnused},
       {.key = "integrations", .type = integrations(), .help = "Links to other systems.", .effect = Effect::kUnused},
       {.key = "security",
        .type = object(
            "security",
            {{.key = "kerberos",
              .type = object(
                  "", {{.key = "config_file", .type = required(text()), .help = "File.", .need = Need::kRequired}}),
              .help = "Kerberos."}}),
        .help = "Formerly Kerberos.",
        .effect = Effect::kDropped},
       {.key = "data_layer", .type = any(), .help = "Formerly caches of data.", .effect = Effect::kDropped},
       {.key = "tensorboard_storage",
        .type = any(),
        .help = "Formerly a storage of TensorBoard's files.",
        .effect = Effect::kDropped},
       {.key = "internal", .type = any(), .help = "Formerly internal settings.", .effect = Effect::kDropped}});
}

}  // namespace

const Field* Type::field(std::string_view key) const {
  const auto found = std::ranges::find(fields, key, &Field::key);
  return found == fields.end() ? nullptr : &*found;
}

const Variant* Type::variant(std::string_view key) const {
  const auto found = std::ranges::find(variants, key, &Variant::name);
  return found == variants.end() ? nullptr : &*found;
}

const Variant* chosen_variant(const Type& type, const Value& object) {
  const Value* chosen = object.find(type.variant_key);
  return chosen == nullptr || !chosen->is_text() ? nullptr : type.variant(chosen->text);
}

std::vector<const Field*> fields_of(const Type& type, const Value& object) {
  std::vector<const Field*> fields;
  std::set<std::string_view> keys;
  const auto add = [&](const std::vector<Field>& of) {
    for (const Field& field : of)
      if (keys.insert(field.key).second) fields.push_back(&field);
  };
  add(type.fields);
  if (const Variant* chosen = chosen_variant(type, object)) {
    add(chosen->fields);
  } else {
    for (const Variant& variant : type.variants) add(variant.fields);
  }
  return fields;
}

const Type& experiment_type() {
  static const TypePtr type = experiment();
  return *type;
}

const std::vector<Variant>& hyperparameter_types() {
  const auto needed = [](std::string key, const TypePtr& type, std::string help) {
    return Field{.key = std::move(key), .type = required(type), .help = std::move(help), .need = Need::kRequired};
  };
  const auto count = [] {
    return Field{.key = "count",
                 .type = integer_from(1),
                 .help = "Points of a grid, both bounds among them; the searcher grid needs it."};
  };
  static const std::vector<Variant> types{
      {"const", {{.key = "val", .type = any(), .help = "Any value.", .need = Need::kRequired}}},
      {"int", {needed("minval", integer(), "Smallest value."), needed("maxval", integer(), "Largest value."), count()}},
      {"double",
       {needed("minval", number(), "Smallest value."), needed("maxval", number(), "Largest value."), count()}},
      {"log",
       {needed("base", number_above(0), "Base of the power."), needed("minval", number(), "Smallest exponent."),
        needed("maxval", number(), "Largest exponent."), count()}},
      {"categorical",
       {{.key = "vals",
         .type = required(list_of(any())),
         .help = "The values, at least one, of any kind.",
         .need = Need::kRequired,
         .aliases = {"val"}}}},
  };
  return types;
}

void check_hyperparameter(const Value& object, std::string_view path, Findings& findings) {
  check_range(object, path, findings);
  check_categories(object, path, findings);
}

}  // namespace volador::experiments
