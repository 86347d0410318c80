// A storage behind rclone, one child process for each step of an operation.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/storage/child_process.h"
#include "runtime/storage/object_store.h"
#include "runtime/storage/rclone_plan.h"

namespace volador::storage {

// Where the program is: VOLADOR_RCLONE, else rclone in PATH. kNotFound: says how to install it.
[[nodiscard]] Result<std::string> find_rclone();
// Starts it to ask for its version; remembered for later calls of this process.
[[nodiscard]] Result<RcloneVersion> version_of_rclone(const std::string& program);

class RcloneStore final : public ObjectStore {
 public:
  [[nodiscard]] static Result<std::unique_ptr<RcloneStore>> create(StorageTarget target,
                                                                   const RcloneLimits& limits = {});

  const StorageUrl& url() const override { return target_.url; }
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
  class Pieces;
  struct Step {
    std::string what;                // For messages.
    std::vector<std::string> words;  // Without the program and the common flags.
    std::string_view input = {};
    std::function<void()> begin = {};  // Before each attempt.
    std::function<Result<void>(std::string_view)> on_output = {};
  };
  RcloneStore() = default;
  ChildProcess::Command command(const std::vector<std::string>& words) const;
  // Runs it until it succeeds, with retries.
  Result<void> run(const Step& step, const StorageCall& call) const;
  Result<void> attempt(const Step& step, const StorageCall& call, const std::stop_token& stop) const;

  StorageTarget target_;
  RcloneLimits limits_;
  RcloneVersion version_;
  std::string program_;
  std::vector<std::string> variables_, secrets_;
};

}  // namespace volador::storage
