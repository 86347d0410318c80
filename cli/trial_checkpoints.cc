#include "cli/trial_checkpoints.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/own_folder.h"
#include "experiments/config/checkpoint_target.h"
#include "runtime/paths.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/random.h"
#include "runtime/storage/storage.h"
#include "runtime/uuid.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;

// Whether the working directory is in the folder of the job. Another one is the user's own, and trials that run at the
// same time share it.
bool is_directory_of_job(const fs::path& job_folder) {
  std::error_code failed;
  // In a sandbox the same folder has another path.
  for (fs::path each = fs::current_path(failed); !failed && each.has_relative_path(); each = each.parent_path()) {
    if (fs::equivalent(each, job_folder, failed)) return true;
  }
  return false;
}

// Where the files are, under whatever name the program sees them.
fs::path stored_folder_of(const TrialCheckpoints& of) {
  const fs::path folder = fs::path(of.folder).lexically_normal();
  const fs::path info = of.info_folder;
  if (folder.is_relative() && is_directory_of_job(info.parent_path().parent_path())) return folder;
  return info / "checkpoints";
}

Result<void> check_folder(const TrialCheckpoints& of) {
  const fs::path folder = fs::path(of.folder).lexically_normal();
  if (folder.has_relative_path() && *folder.begin() != ".." && *folder.begin() != ".") return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("suggestion_trial_dir: expected a folder such as /opt/katib/data, or one below the "
                                "working directory, got \"{}\"",
                                of.folder));
}

Result<storage::Storage> storage_of(const TrialCheckpoints& of) {
  auto target = experiments::checkpoint_target(of.storage);
  if (!target) return make_error(target.error());
  return storage::Storage::open(*target);
}

Result<void> download_checkpoint(const TrialCheckpoints& of, const std::string& id, const fs::path& to) {
  auto storage = storage_of(of);
  if (!storage) return make_error(storage.error());
  const auto read = storage->download(id, to);
  if (read) return {};
  if (read.error().code != ErrorCode::kNotFound) return make_error(read.error());
  return make_error(
      ErrorCode::kNotFound,
      fmt::format("checkpoint {} with which trial {} begins is not in {} on node {}; where trials run on several "
                  "machines, the setting experiments.checkpoint_storage of the head must name storage that all of "
                  "them reach",
                  id, of.trial, storage->url().text(), of.node));
}

}  // namespace

Outcome restore_checkpoints(const TrialCheckpoints& of, HeadCalls& calls) {
  if (of.folder.empty()) return {};
  if (const auto good = check_folder(of); !good) return fail_here(good.error());
  std::string id = of.latest;
  if (id.empty() && of.parent != 0) {
    v1::GetTrialInfoRequest request;
    request.set_id(of.parent);
    v1::TrialInfo parent;
    if (auto asked = calls.call("Experiments/GetTrialInfo", request, parent); !asked) return asked;
    id = parent.latest_checkpoint();
  }
  const fs::path own = stored_folder_of(of), seen = fs::path(of.folder).lexically_normal();
  std::error_code failed;
  fs::remove_all(own, failed);  // What an earlier run left.
  if (!failed) fs::create_directories(own, failed);
  if (!failed && own != seen) fs::create_directories(seen, failed);
  if (failed) return fail_here(file_error("make", own, failed.value()));
  if (!id.empty()) {
    if (const auto read = download_checkpoint(of, id, own); !read) return fail_here(read.error());
  }
  if (own == seen || show_in_place(own, seen)) return {};
  return fail_here(
      Error{ErrorCode::kPermissionDenied,
            fmt::format("suggestion_trial_dir: trials on node {} would share the folder {}, since the worker has no "
                        "right to mount; name a relative folder, and no working directory in the trial template",
                        of.node, of.folder)});
}

Outcome keep_checkpoints(const TrialCheckpoints& of, HeadCalls& calls) {
  const fs::path own = stored_folder_of(of);
  std::error_code failed;
  if (of.folder.empty() || !fs::is_directory(own, failed) || fs::is_empty(own, failed)) return {};
  auto storage = storage_of(of);
  if (!storage) return fail_here(storage.error());
  v1::ReportCheckpointRequest request;
  request.set_trial(of.trial);
  request.set_run(of.run);
  v1::CheckpointInfo& made = *request.mutable_checkpoint();
  SystemRandom random;
  made.set_id(uuid_text(random));
  made.set_batches(1);
  const auto stored = storage->upload(own, made.id());
  if (!stored) return fail_here(stored.error());
  for (const auto& file : stored->manifest.files) (*made.mutable_resources())[file.path] = file.bytes;
  v1::ReportCheckpointReply reply;
  return calls.call("Experiments/ReportCheckpoint", request, reply);
}

}  // namespace volador::cli
