// A storage in a folder of a local or shared file system. New folders and files have the results mode
// (runtime/files/results_mode.h) and belong to the user of the process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/storage/object_store.h"

namespace volador::storage {

class FolderStore final : public ObjectStore {
 public:
  explicit FolderStore(StorageUrl url) : url_(std::move(url)), root_(url_.prefix) {}

  const StorageUrl& url() const override { return url_; }
  Result<std::vector<StoredObject>> list(const std::string& key, const StorageCall& call) override;
  Result<void> put(const std::filesystem::path& folder, const std::vector<std::string>& files, const std::string& key,
                   const StorageCall& call) override;
  Result<void> get(const std::string& key, const std::vector<std::string>& files, const std::filesystem::path& folder,
                   const StorageCall& call) override;
  Result<void> write(const std::string& key, std::string_view bytes, const StorageCall& call) override;
  Result<std::string> read(const std::string& key, size_t bytes_max, const StorageCall& call) override;
  Result<std::unique_ptr<FilePieces>> open(const std::string& key, int64_t bytes, std::stop_token stop) override;
  Result<void> remove(const std::string& key, const std::vector<std::string>& files, const StorageCall& call) override;

 private:
  std::filesystem::path place(const std::string& key) const { return key.empty() ? root_ : root_ / key; }

  const StorageUrl url_;
  const std::filesystem::path root_;
};

}  // namespace volador::storage
