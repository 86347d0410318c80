#include "experiments/config/checkpoint_target.h"

#include <fmt/format.h>

#include "runtime/yaml/reader.h"

namespace volador::experiments {
namespace {

using storage::StorageSettings;

struct SettingsOf {
  StorageSettings operator()(const SharedFolderStorage& folder) const {
    return {.type = "shared_fs", .host_path = folder.host_path, .storage_path = folder.storage_path};
  }
  StorageSettings operator()(const DirectoryStorage& folder) const {
    return {.type = "directory", .container_path = folder.container_path};
  }
  StorageSettings operator()(const S3Storage& s3) const {
    return {.type = "s3",
            .bucket = s3.bucket,
            .prefix = s3.prefix,
            .access_key = s3.access_key,
            .secret_key = s3.secret_key,
            .endpoint_url = s3.endpoint_url};
  }
  StorageSettings operator()(const GcsStorage& gcs) const {
    return {.type = "gcs", .bucket = gcs.bucket, .prefix = gcs.prefix};
  }
  StorageSettings operator()(const AzureStorage& azure) const {
    return {.type = "azure",
            .container = azure.container,
            .connection_string = azure.connection_string,
            .account_url = azure.account_url,
            .credential = azure.credential};
  }
};

}  // namespace

Result<storage::StorageTarget> checkpoint_target(const CheckpointStorage& storage) {
  return storage::storage_target(std::visit(SettingsOf(), storage.where));
}

Result<storage::StorageTarget> checkpoint_target(std::string_view json) {
  auto document = yaml::read(json, "checkpoint_storage");
  if (!document) return make_error(ErrorCode::kInvalidArgument, document.error().text());
  yaml::Value& storage = document->root;
  const std::string type = storage.is_map() && storage.find("type") != nullptr ? storage.find("type")->text : "";
  // What a complete configuration has.
  for (const char* key : {"save_experiment_best", "save_trial_best", "save_trial_latest", "host_path", "storage_path",
                          "propagation", "container_path", "bucket", "access_key", "secret_key", "endpoint_url",
                          "prefix", "container", "connection_string", "account_url", "credential"})
    if (storage.is_map() && storage.find(key) == nullptr) storage.set(key, yaml::Value());
  for (const char* known : {"shared_fs", "directory", "s3", "gcs", "azure"}) {
    if (type == known) return checkpoint_target(checkpoint_storage_from(storage));
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "checkpoint_storage: expected a type: shared_fs, directory, s3, gcs or azure");
}

}  // namespace volador::experiments
