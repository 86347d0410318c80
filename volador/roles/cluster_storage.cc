#include "volador/roles/cluster_storage.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/storage/storage_url.h"

namespace volador {

Result<std::string> experiment_defaults(std::string_view storage) {
  if (!storage::is_storage_url(storage) && !storage.starts_with('/')) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("expected an absolute folder or an address such as s3://bucket/prefix, got \"{}\"", storage));
  }
  const auto url = storage::parse_storage_url(storage);
  if (!url) return make_error(url.error());
  nlohmann::ordered_json where;
  const auto set = [&where](const char* key, const std::string& value) {
    if (!value.empty()) where[key] = value;
  };
  const auto cannot = [](const char* what, const char* instead) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a configuration of an experiment has no {}; {}", what, instead));
  };
  switch (url->kind) {
    case storage::StorageKind::kFolder:
      set("type", "shared_fs");
      set("host_path", url->prefix);
      break;
    case storage::StorageKind::kS3:
      if (!url->region.empty()) return cannot("region", "set AWS_REGION in the environment of the nodes");
      set("type", "s3");
      set("bucket", url->container);
      set("prefix", url->prefix);
      set("endpoint_url", url->endpoint);
      break;
    case storage::StorageKind::kGcs:
      if (!url->endpoint.empty()) return cannot("endpoint for gs", "leave it out");
      set("type", "gcs");
      set("bucket", url->container);
      set("prefix", url->prefix);
      break;
    case storage::StorageKind::kAzure:
      if (!url->prefix.empty()) return cannot("prefix for azure", "name only the container");
      set("type", "azure");
      set("container", url->container);
      set("account_url", !url->endpoint.empty()  ? url->endpoint
                         : !url->account.empty() ? fmt::format("https://{}.blob.core.windows.net", url->account)
                                                 : std::string());
      break;
  }
  return nlohmann::ordered_json{{"checkpoint_storage", where}}.dump();
}

}  // namespace volador
