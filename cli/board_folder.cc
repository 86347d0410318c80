#include "cli/board_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

#include "cli/render/experiment_view.h"
#include "experiments/config/checkpoint_target.h"
#include "runtime/control/cluster_api.h"
#include "runtime/files/durable_file.h"
#include "runtime/paths.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kTrialsAsked = 1000;  // In one request.
constexpr size_t kEventPieceBytes = size_t{1} << 20;

// Where the programs of a trial put event files, below the storage of the experiment.
std::string key_of_trials(int64_t experiment) { return fmt::format("tensorboard/experiment/{}/trial", experiment); }

bool has_event_files(const fs::path& folder) {
  std::error_code code;
  for (fs::recursive_directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    if (at->path().filename().string().find("tfevents") != std::string::npos) return true;
  }
  return false;
}

// Whether `to` is the start of `from`.
bool begins_with(const fs::path& from, const fs::path& to) {
  std::ifstream whole(from, std::ios::binary), start(to, std::ios::binary);
  std::string one(kEventPieceBytes, '\0'), other(kEventPieceBytes, '\0');
  while (start) {
    start.read(other.data(), static_cast<std::streamsize>(other.size()));
    whole.read(one.data(), start.gcount());
    const auto size = static_cast<size_t>(start.gcount());
    if (whole.gcount() != start.gcount() || one.compare(0, size, other, 0, size) != 0) return false;
  }
  return true;
}

}  // namespace

Result<void> take_over_file(const fs::path& from, const fs::path& to) {
  std::error_code code;
  const bool appends = fs::exists(to, code) && begins_with(from, to);
  if (!appends) {
    fs::create_directories(to.parent_path(), code);
    fs::rename(from, to, code);
    return code ? Result<void>(make_error(file_error("write", to, code.value()))) : Result<void>();
  }
  const auto known = static_cast<std::streamoff>(fs::file_size(to, code));
  std::ifstream in(from, std::ios::binary);
  in.seekg(known);
  auto file = FileHandle::open(to, O_WRONLY | O_APPEND);
  if (!file) return make_error(file.error());
  std::string piece(kEventPieceBytes, '\0');
  while (in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    VOLADOR_TRY(write_all(file->get(), std::string_view(piece).substr(0, static_cast<size_t>(in.gcount())), to));
  }
  return {};
}

void BoardFolder::note_once(const std::string& text) {
  if (noted_.insert(text).second) note_(text);
}

BoardFolder::Source& BoardFolder::source_of(control::ClusterApi& api, int64_t experiment) {
  const auto [found, is_new] = sources_.try_emplace(experiment);
  Source& source = found->second;
  if (!is_new) return source;
  // With its credentials if the token is one of its owner; otherwise with those of the environment.
  v1::GetGarbageRequest secret;
  secret.set_experiment(experiment);
  const auto settings = api.call<v1::GetGarbageReply>("Experiments/GetGarbage", secret);
  Result<storage::StorageTarget> target = make_error(ErrorCode::kNotFound, "");
  if (settings) {
    target = experiments::checkpoint_target(settings->storage());
  } else {
    v1::GetExperimentRequest request;
    request.set_id(experiment);
    const auto info = api.call<v1::ExperimentInfo>("Experiments/GetExperiment", request);
    if (!info) {
      sources_.erase(found);  // Asked again at the next look.
      static Source none;
      return none;
    }
    if (auto url = storage::parse_storage_url(info->storage())) target = storage::StorageTarget{.url = *url};
  }
  auto opened = target ? storage::Storage::open(*target) : Result<storage::Storage>(make_error(target.error()));
  if (opened) {
    source.storage = std::make_unique<storage::Storage>(std::move(*opened));
  } else {
    note_once(fmt::format("event files of experiment {} cannot be read, its metrics are shown: {}", experiment,
                          opened.error().message));
  }
  return source;
}

Result<void> BoardFolder::update(control::ClusterApi& api) {
  bool complete = true;
  std::set<int64_t> experiments(experiments_.begin(), experiments_.end());
  std::vector<v1::TrialInfo> trials;
  for (const int64_t experiment : experiments_) {
    v1::GetExperimentRequest about;
    about.set_id(experiment);
    const auto info = api.call<v1::ExperimentInfo>("Experiments/GetExperiment", about);
    if (!info) return make_error(info.error());
    complete = complete && is_final_state(info->state());
    v1::ListTrialInfosRequest request;
    request.set_experiment(experiment);
    request.set_limit(kTrialsAsked);
    while (true) {
      auto some = api.call<v1::ListTrialInfosReply>("Experiments/ListTrialInfos", request);
      if (!some) return make_error(some.error());
      if (some->trials().empty()) break;
      request.set_after(some->trials(some->trials_size() - 1).id());
      for (v1::TrialInfo& trial : *some->mutable_trials()) trials.push_back(std::move(trial));
    }
  }
  for (const int64_t number : trials_) {
    v1::GetTrialInfoRequest request;
    request.set_id(number);
    auto trial = api.call<v1::TrialInfo>("Experiments/GetTrialInfo", request);
    if (!trial) return make_error(trial.error());
    experiments.insert(trial->experiment());
    trials.push_back(std::move(*trial));
  }
  for (const int64_t experiment : experiments) {
    Source& source = source_of(api, experiment);
    if (source.storage == nullptr || source.storage->url().kind == storage::StorageKind::kFolder) continue;
    const auto keys = source.storage->keys(key_of_trials(experiment));
    if (keys) {
      source.stored = {keys->begin(), keys->end()};
    } else {
      note_once(fmt::format("event files of experiment {} cannot be listed: {}", experiment, keys.error().message));
    }
  }
  for (const v1::TrialInfo& trial : trials) {
    const auto added = add(api, trial);
    if (!added)
      note_once(fmt::format("trial {}: its event files are not up to date: {}", trial.id(), added.error().message));
    const auto copied = copied_.find(trial.id());
    complete = complete && added && is_final_state(trial.state()) &&
               (exported_.is_complete(trial.id()) || (copied != copied_.end() && copied->second.complete));
  }
  complete_ = complete;
  return {};
}

Result<void> BoardFolder::add(control::ClusterApi& api, const v1::TrialInfo& trial) {
  const fs::path folder =
      root_ / fmt::format("experiment-{}", trial.experiment()) / fmt::format("trial-{}", trial.id());
  Source& source = source_of(api, trial.experiment());
  const std::string name = std::to_string(trial.id());
  const std::string key = fmt::format("{}/{}", key_of_trials(trial.experiment()), name);
  std::error_code code;
  if (source.storage != nullptr && source.storage->url().kind == storage::StorageKind::kFolder) {
    const fs::path written = fs::path(source.storage->url().prefix) / key;
    const bool is_linked = fs::is_symlink(folder, code);
    if (is_linked || has_event_files(written)) {
      copied_[trial.id()].complete = is_final_state(trial.state());
      if (is_linked) return {};
      fs::remove_all(folder, code);  // What was exported before.
      exported_.forget(trial.id());
      fs::create_directories(folder.parent_path(), code);
      fs::create_directory_symlink(written, folder, code);
      return code ? Result<void>(make_error(file_error("link", folder, code.value()))) : Result<void>();
    }
  }
  if (source.stored.contains(name) || source.stored.contains(key)) return copy(source, key, trial, folder);
  const auto added = exported_.add(api, trial, folder);
  return added ? Result<void>() : make_error(added.error());
}

Result<void> BoardFolder::copy(Source& source, const std::string& key, const v1::TrialInfo& trial,
                               const fs::path& folder) {
  Copied& copied = copied_[trial.id()];
  const auto manifest = source.storage->describe(key);
  if (!manifest) return make_error(manifest.error());
  const std::string now = manifest->to_json();
  std::error_code code;
  if (now != copied.manifest) {
    const fs::path passing = root_.string() + ".passing";
    fs::remove_all(passing, code);
    const auto got = source.storage->download(key, passing);
    if (!got) return make_error(got.error());
    if (copied.manifest.empty()) {
      fs::remove_all(folder, code);  // What was exported before.
      exported_.forget(trial.id());
    }
    for (const storage::ManifestFile& file : got->files)
      VOLADOR_TRY(take_over_file(passing / file.path, folder / file.path));
    copied.manifest = got->to_json();
    fs::remove_all(passing, code);
  }
  // The program stores its files a last time before it ends.
  copied.complete = is_final_state(trial.state());
  return {};
}

}  // namespace volador::cli
