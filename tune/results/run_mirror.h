// A copy of a run's directory in a storage (runtime/storage/), for runs with `storage_path="s3://bucket/prefix"`, of
// tuning and of training. The program writes its results and checkpoints to its own disk as always, and a thread copies them:
// <storage_path>/<key of the run>/… has the same files. A failing storage does not stop the run.
//
//   <run>/storage.json      {"url": "s3://bucket/prefix/digits_2026-11-27_10-00-00"}: a resumed run goes on with the copy
//   <run>/.mirror/          the journal while it is transferred
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "runtime/result.h"
#include "runtime/storage/object_store.h"
#include "tune/results/experiment_directory.h"
#include "tune/results/mirror_plan.h"

namespace volador::tune {

// Where new runs with a storage_path lie.
struct RunsPlace {
  std::filesystem::path folder;                    // Parent of their directories; empty: the default one.
  std::optional<storage::StorageUrl> copies = {};  // Parent of their copies; none: the folder is all.
};
// `storage_path`: a path, or an address; empty: the default folder. A folder's address needs no copy. kInvalidArgument:
// it is no valid address.
[[nodiscard]] Result<RunsPlace> place_of_runs(const std::string& storage_path);

struct MirrorTimes {
  std::chrono::milliseconds after_checkpoint{1'000};  // From a new checkpoint to its transfer,
  std::chrono::milliseconds otherwise{15'000};        // and from other changes.
  int cost_share = 4;  // A pause is at least so many times as long as the transfer before it.
};

class RunMirror {
 public:
  // Copies what is there before it returns, so that errors of the storage are known before a trial starts. `store` is the
  // place of this run.
  [[nodiscard]] static Result<std::unique_ptr<RunMirror>> start(std::unique_ptr<storage::ObjectStore> store,
                                                                std::filesystem::path directory,
                                                                const MirrorTimes& times = {});
  // Starts the copy of a new run below `copies`, and notes its place in the directory.
  [[nodiscard]] static Result<std::unique_ptr<RunMirror>> start_new(const storage::StorageUrl& copies,
                                                                    const ExperimentDirectory& directory);
  // Goes on with the copy of a resumed run; null: it has none.
  [[nodiscard]] static Result<std::unique_ptr<RunMirror>> resume(const ExperimentDirectory& directory);
  // Ends a transfer that is in progress.
  ~RunMirror();

  // A checkpoint is complete. Any thread.
  void note_checkpoint();
  // Copies the rest and stops; `is_interrupted` is asked several times a second and ends it early. Call once, when
  // nothing writes to the directory any more. kUnavailable and so on: not everything is in the storage; says what to do.
  [[nodiscard]] Result<void> finish(const std::function<bool()>& is_interrupted);
  // Messages for the user since the last call: transfers began to fail, or work again.
  std::vector<std::string> take_notices();

  const storage::StorageUrl& url() const { return store_->url(); }

 private:
  RunMirror(std::unique_ptr<storage::ObjectStore> store, std::filesystem::path directory, const MirrorTimes& times);
  void follow(const std::stop_token& stop);
  Result<void> copy(bool last, const std::stop_token& stop);
  void note(const Result<void>& copied);

  const std::unique_ptr<storage::ObjectStore> store_;
  const std::filesystem::path directory_;
  const MirrorTimes times_;
  MirrorPlan plan_;  // Used by one thread at a time.
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool checkpoint_ = false, failing_ = false;
  std::vector<std::string> notices_;
  std::jthread thread_;
};

// Reads the run that is stored at `url`, an address of <storage_path>/<key>, into a folder of that name in `folder`, and
// returns its path. A directory that is there already is used if its journal is at least as long, otherwise completed.
// kNotFound: there is no run.
[[nodiscard]] Result<std::filesystem::path> fetch_run(const std::string& url, const std::filesystem::path& folder);

}  // namespace volador::tune
