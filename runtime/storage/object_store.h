// Files under keys in one storage, without the notion of a folder that is complete (storage.h adds it). Implemented by
// a folder of a file system (folder_store.h) and by rclone (rclone_store.h). Blocking; thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/files/run_files.h"
#include "runtime/result.h"
#include "runtime/storage/storage_url.h"

namespace volador::storage {

struct StorageProgress {
  int64_t bytes = 0;  // Transferred so far.
  int64_t total_bytes = 0;
};

// How an operation is bounded, ended and followed.
struct StorageCall {
  std::stop_token stop = {};               // Ends the operation: kCancelled.
  std::chrono::nanoseconds time_limit{0};  // For the whole operation with its retries: kTimeout; 0: none.
  std::function<void(const StorageProgress&)> on_progress = {};  // On the calling thread, about once per second.
  // get(): called on the calling thread for files that have arrived, for some of them at least. The caller compares their
  // contents, so that the store need not.
  std::function<void(const std::string&)> on_file = {};
};

struct StoredObject {
  std::string path;  // Below the listed key.
  int64_t bytes = 0;

  bool operator==(const StoredObject&) const = default;
};

// Common errors. kUnauthenticated, kPermissionDenied: credentials; kNotFound: no such bucket; kUnavailable: not
// reachable, no space, truncated, after retries; kTimeout, kCancelled: as the call demands. Messages have no secrets.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  virtual const StorageUrl& url() const = 0;

  // Everything below `key` (empty: all), by path; empty if there is nothing.
  [[nodiscard]] virtual Result<std::vector<StoredObject>> list(const std::string& key, const StorageCall& call) = 0;
  // Stores these files of `folder` below `key`. A file that is there with the same content is not sent again. An error
  // may leave some of them there, each of which is whole.
  [[nodiscard]] virtual Result<void> put(const std::filesystem::path& folder, const std::vector<std::string>& files,
                                         const std::string& key, const StorageCall& call) = 0;
  // Reads these files below `key` into `folder`, which exists. An error may leave some of them there, incomplete ones
  // too.
  [[nodiscard]] virtual Result<void> get(const std::string& key, const std::vector<std::string>& files,
                                         const std::filesystem::path& folder, const StorageCall& call) = 0;
  // Replaces one object.
  [[nodiscard]] virtual Result<void> write(const std::string& key, std::string_view bytes, const StorageCall& call) = 0;
  // kNotFound; kInvalidArgument: longer than `bytes_max`.
  [[nodiscard]] virtual Result<std::string> read(const std::string& key, size_t bytes_max, const StorageCall& call) = 0;
  // Opens an object of `bytes` bytes for reading in constant memory. Errors may come with the first piece.
  [[nodiscard]] virtual Result<std::unique_ptr<FilePieces>> open(const std::string& key, int64_t bytes,
                                                                 std::stop_token stop) = 0;
  // Succeeds for those that are absent.
  [[nodiscard]] virtual Result<void> remove(const std::string& key, const std::vector<std::string>& files,
                                            const StorageCall& call) = 0;
};

// kNotFound: rclone is needed and not there; kInvalidArgument: it is too old.
[[nodiscard]] Result<std::unique_ptr<ObjectStore>> open_object_store(const StorageTarget& target);

}  // namespace volador::storage
