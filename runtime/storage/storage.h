// Folders in a storage: checkpoints, results, weights. A folder is stored under a key, with a manifest of its files and
// their checksums that is written last: a folder without one is incomplete, and is not seen.
//
//   <url>/<key>/<file>…                    the files, by their names in the folder
//   <url>/<key>/volador-manifest.json      {"version", "files": [{"path", "bytes", "sha256", "mode"}…], "directories"}
//
// Operations may be repeated after any failure: uploads and downloads transfer what is missing. Memory does not depend
// on sizes. Blocking; thread safe for different keys.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/files/run_files.h"
#include "runtime/result.h"
#include "runtime/storage/manifest.h"
#include "runtime/storage/object_store.h"
#include "runtime/storage/storage_url.h"

namespace volador::storage {

struct UploadSummary {
  Manifest manifest;
  int64_t sent_files = 0;  // 0: everything was there already.
};

enum class ArchiveForm : uint8_t { kTar, kZip };

class Storage {
 public:
  explicit Storage(std::unique_ptr<ObjectStore> store) : store_(std::move(store)) {}
  // kInvalidArgument, kNotFound: as open_object_store().
  [[nodiscard]] static Result<Storage> open(const StorageTarget& target);

  const StorageUrl& url() const { return store_->url(); }
  ObjectStore& objects() { return *store_; }

  // Stores all of `folder`, which nothing may change meanwhile. The same folder under the same key: nothing is sent. Another
  // one replaces the earlier one, which is not seen from the first change on. kInvalidArgument: a symbolic link, a name
  // that a storage cannot have, or a file that changed.
  [[nodiscard]] Result<UploadSummary> upload(const std::filesystem::path& folder, const std::string& key,
                                             const StorageCall& call = {});

  // Reads the selected files (is_selected()) into `target`, which is absent or empty, through `<target>.partial`, which is
  // kept after a failure for the next call. Checksums are compared. kNotFound: nothing is stored under the key, or the
  // upload has not completed.
  [[nodiscard]] Result<Manifest> download(const std::string& key, const std::filesystem::path& target,
                                          const std::vector<std::string>& selectors = {}, const StorageCall& call = {});

  // The manifest. kNotFound: as download().
  [[nodiscard]] Result<Manifest> describe(const std::string& key, const StorageCall& call = {});
  [[nodiscard]] Result<bool> exists(const std::string& key, const StorageCall& call = {});
  // Keys below `key` with a complete folder; "" for `key` itself.
  [[nodiscard]] Result<std::vector<std::string>> keys(const std::string& key, const StorageCall& call = {});
  // Removes a folder, complete or not; the manifest goes first. Succeeds if it is absent.
  [[nodiscard]] Result<void> remove(const std::string& key, const StorageCall& call = {});

  // Reads the selected files as one tar or zip file, in constant memory. The checksum of each file is compared at its end: an
  // error means that the earlier pieces are not the whole archive. The storage must outlive the reader, and so must the thread
  // that calls, with which the processes behind it end.
  [[nodiscard]] Result<std::unique_ptr<FilePieces>> archive(const std::string& key, ArchiveForm form,
                                                            const std::vector<std::string>& selectors = {},
                                                            const StorageCall& call = {});

 private:
  std::unique_ptr<ObjectStore> store_;
};

// The checks of `volador storage check`: each line is a step that works, in order; stops at the first that fails.
struct StorageCheck {
  std::vector<std::string> passed;
  std::optional<Error> failed;
};
// Writes, reads, lists and deletes a small folder under a key of its own, which is named by `unique`.
StorageCheck check_storage(Storage& storage, const std::filesystem::path& scratch, const std::string& unique,
                           const StorageCall& call = {});

}  // namespace volador::storage
