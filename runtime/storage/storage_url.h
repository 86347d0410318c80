// Addresses of storage for checkpoints and results, and the credentials for them. Pure.
//
//   /data/checkpoints, file:///data/checkpoints            a folder: a local one, or one that all nodes share
//   s3://bucket/prefix?endpoint=http://minio:9000&region=eu-west-1
//   gs://bucket/prefix?endpoint=http://127.0.0.1:4443
//   azure://container/prefix?account=name&endpoint=https://name.blob.core.windows.net
//
// An address has no credentials, so it can be printed and stored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/result.h"

namespace volador::storage {

enum class StorageKind : uint8_t { kFolder, kS3, kGcs, kAzure };

std::string_view to_string(StorageKind kind);  // "folder", "s3", "gcs", "azure".

// A place in a storage. The parsers below make valid ones.
struct StorageUrl {
  StorageKind kind = StorageKind::kFolder;
  std::string container;  // Bucket (S3, GCS) or container (Azure); empty for a folder.
  std::string prefix;  // Precedes all keys, without slashes at its ends; may be empty. For a folder: its absolute path.
  std::string endpoint;  // Address of the server; empty: that of the provider.
  std::string region;    // S3 only; empty: that of the environment, else us-east-1.
  std::string account;   // Azure only; empty: that of the credentials.

  bool operator==(const StorageUrl&) const = default;

  // The form that parse_storage_url reads; for a folder its path.
  std::string text() const;
  // The address of a key below this one.
  StorageUrl below(std::string_view key) const;
  // The address without the last part of its prefix, and that part; nothing for a whole bucket or the root folder.
  std::optional<std::pair<StorageUrl, std::string>> parent() const;
};

// Whether the text has the form of an address, "scheme://…", and not that of a path.
bool is_storage_url(std::string_view text);

// `text`: an address or a path. A path that is not absolute is relative to the working directory. kInvalidArgument: an
// unknown scheme or parameter, an invalid bucket, "..", credentials in the address (the message does not repeat them).
[[nodiscard]] Result<StorageUrl> parse_storage_url(std::string_view text);

// Access to a storage. Empty fields: as the providers' own tools find them (environment, profiles, the identity of
// the machine).
struct StorageCredentials {
  std::string access_key, secret_key, session_token;  // S3.
  std::string service_account_file;                   // GCS: path of a key in JSON. "anonymous": none are sent.
  std::string connection_string;                      // Azure.
  std::string credential;                             // Azure: key of the account, or a SAS token.

  // All texts that must not be printed.
  std::vector<std::string> secrets() const;
};

// An address with its credentials.
struct StorageTarget {
  StorageUrl url;
  StorageCredentials credentials = {};
};

// The keys of `checkpoint_storage` in configurations of Determined. Absent fields are empty.
struct StorageSettings {
  std::string type;  // shared_fs, directory, s3, gcs, azure.
  std::optional<std::string> host_path, storage_path, container_path;
  std::optional<std::string> bucket, prefix, access_key, secret_key, endpoint_url, region;
  std::optional<std::string> container, connection_string, account_url, credential;
};
// kInvalidArgument: names the key and the rule.
[[nodiscard]] Result<StorageTarget> storage_target(const StorageSettings& settings);

// The parts of an Azure connection string.
struct AzureAccount {
  std::string account, key, sas;  // `sas` without the leading question mark.
  std::string endpoint;           // With the account's name; empty: that of the public cloud.
};
// kInvalidArgument: does not repeat the text.
[[nodiscard]] Result<AzureAccount> parse_connection_string(std::string_view text);
[[nodiscard]] Result<AzureAccount> parse_account_url(std::string_view url);

// Rule for keys and names of files below an address: relative, with slashes, without empty parts, "." and "..", in
// UTF-8 without control characters, at most 1024 bytes. kInvalidArgument: names `what`.
[[nodiscard]] Result<void> check_key(std::string_view what, std::string_view key);

}  // namespace volador::storage
