#include "tune/results/run_mirror.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/files/durable_file.h"
#include "runtime/files/passing_folder.h"
#include "runtime/files/results_mode.h"
#include "tune/results/experiment_journal.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kStorageFile = "storage.json";
constexpr size_t kStorageFileBytesMax = 64 << 10;
constexpr milliseconds kInterruptInterval{100};

std::vector<SeenFile> files_of(const fs::path& directory) {
  std::vector<SeenFile> seen;
  std::error_code code;
  for (fs::recursive_directory_iterator at(directory, code), end; !code && at != end; at.increment(code)) {
    std::string path = at->path().lexically_relative(directory).string();
    if (!MirrorPlan::belongs(path)) {
      if (at->is_directory(code)) at.disable_recursion_pending();
      code.clear();
      continue;
    }
    struct stat info {};
    if (::lstat(at->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    seen.push_back({std::move(path), info.st_size, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec});
  }
  std::ranges::sort(seen, {}, &SeenFile::path);
  return seen;
}

// rclone gives new files the usual permissions.
Result<void> give_results_mode(const fs::path& directory) {
  const auto& mode = results_mode();
  if (!mode) return make_error(mode.error());
  std::error_code code;
  for (fs::recursive_directory_iterator at(directory, code), end; !code && at != end; at.increment(code)) {
    const unsigned wanted = at->is_directory(code) ? mode->directory : mode->file;
    fs::permissions(at->path(), static_cast<fs::perms>(wanted), code);
  }
  return {};
}

// The storage of the run in this directory, from its storage.json; nullopt: none.
Result<std::optional<storage::StorageUrl>> storage_of_run(const fs::path& directory) {
  std::error_code code;
  if (!fs::exists(directory / kStorageFile, code)) return std::nullopt;
  const auto text = read_file(directory / kStorageFile, kStorageFileBytesMax);
  if (!text) return make_error(text.error());
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("url") || !json["url"].is_string())
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: it has no url; remove the file to go on without a storage",
                                  (directory / kStorageFile).string()));
  auto url = storage::parse_storage_url(json["url"].get<std::string>());
  if (!url) return make_error(url.error());
  return *url;
}

Result<void> write_storage_of_run(const fs::path& directory, const storage::StorageUrl& url) {
  return write_file_atomically(directory / kStorageFile, nlohmann::json{{"url", url.text()}}.dump() + "\n");
}

}  // namespace

Result<RunsPlace> place_of_runs(const std::string& storage_path) {
  if (!storage::is_storage_url(storage_path)) return RunsPlace{storage_path};
  auto url = storage::parse_storage_url(storage_path);
  if (!url) return make_error(url.error());
  if (url->kind == storage::StorageKind::kFolder) return RunsPlace{url->prefix};
  return RunsPlace{.folder = {}, .copies = std::move(*url)};
}

RunMirror::RunMirror(std::unique_ptr<storage::ObjectStore> store, fs::path directory, const MirrorTimes& times)
    : store_(std::move(store)), directory_(std::move(directory)), times_(times) {}

Result<std::unique_ptr<RunMirror>> RunMirror::start(std::unique_ptr<storage::ObjectStore> store, fs::path directory,
                                                    const MirrorTimes& times) {
  auto mirror = std::unique_ptr<RunMirror>(new RunMirror(std::move(store), std::move(directory), times));
  // Listing tells apart what is wrong with a storage better than a transfer does.
  if (const auto there = mirror->store_->list("", {}); !there) return make_error(there.error());
  VOLADOR_TRY(mirror->copy(false, {}));
  mirror->thread_ = std::jthread([one = mirror.get()](const std::stop_token& stop) { one->follow(stop); });
  return mirror;
}

Result<std::unique_ptr<RunMirror>> RunMirror::start_new(const storage::StorageUrl& copies,
                                                        const ExperimentDirectory& directory) {
  const storage::StorageUrl url = copies.below(directory.key());
  VOLADOR_TRY(write_storage_of_run(directory.path(), url));
  auto store = storage::open_object_store({url});
  if (!store) return make_error(store.error());
  return start(std::move(*store), directory.path());
}

Result<std::unique_ptr<RunMirror>> RunMirror::resume(const ExperimentDirectory& directory) {
  const auto url = storage_of_run(directory.path());
  if (!url) return make_error(url.error());
  if (!*url) return nullptr;
  auto store = storage::open_object_store({**url});
  if (!store) return make_error(store.error());
  return start(std::move(*store), directory.path());
}

RunMirror::~RunMirror() = default;

void RunMirror::note_checkpoint() {
  const std::lock_guard lock(mutex_);
  checkpoint_ = true;
  changed_.notify_all();
}

void RunMirror::follow(const std::stop_token& stop) {
  steady_clock::duration least{};
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, std::max<steady_clock::duration>(least, times_.otherwise),
                        [this] { return checkpoint_; });
      // Checkpoints of several trials go together.
      changed_.wait_for(lock, stop, std::max<steady_clock::duration>(least, times_.after_checkpoint),
                        [] { return false; });
      if (stop.stop_requested()) return;
      checkpoint_ = false;
    }
    const auto begin = steady_clock::now();
    const auto copied = copy(false, stop);
    least = (steady_clock::now() - begin) * times_.cost_share;
    if (!stop.stop_requested()) note(copied);
  }
}

void RunMirror::note(const Result<void>& copied) {
  const std::lock_guard lock(mutex_);
  if (copied.has_value() != failing_) return;
  failing_ = !copied;
  notices_.push_back(
      copied ? fmt::format("results and checkpoints are stored in {} again", url().text())
             : fmt::format("results and checkpoints are not stored: {}; the run goes on, keeps them in {} and "
                           "tries again",
                           copied.error().message, display_path(directory_)));
}

Result<void> RunMirror::copy(bool last, const std::stop_token& stop) {
  const storage::StorageCall call{.stop = stop};
  const PassingFolder passing(directory_ / ".mirror");
  const std::string journal = journal_path(directory_).filename();
  std::error_code code;
  fs::create_directory(passing.path(), code);
  std::set<std::string> states;
  for (fs::directory_iterator at(directory_, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename();
    if (!MirrorPlan::is_state(name)) continue;
    fs::copy_file(at->path(), passing.path() / name, code);
    if (code) return make_error(file_error("copy", at->path(), code.value()));
    states.insert(name);
  }
  fs::copy_file(directory_ / journal, passing.path() / journal, code);
  if (code) return make_error(file_error("copy", directory_ / journal, code.value()));
  std::vector<SeenFile> seen = files_of(directory_);
  std::erase_if(seen, [&](const SeenFile& file) {
    return MirrorPlan::is_state(file.path) && !states.contains(file.path);  // It is new: the next time.
  });
  const MirrorBatch batch = plan_.next(seen, last);
  if (batch.empty()) return {};
  VOLADOR_TRY(store_->put(directory_, batch.data, "", call));
  VOLADOR_TRY(store_->put(directory_, batch.marks, "", call));
  if (batch.journal) VOLADOR_TRY(store_->put(passing.path(), {journal}, "", call));
  VOLADOR_TRY(store_->put(passing.path(), batch.states, "", call));
  VOLADOR_TRY(store_->remove("", batch.removed_marks, call));
  VOLADOR_TRY(store_->remove("", batch.removed_data, call));
  plan_.stored(seen, batch);
  return {};
}

Result<void> RunMirror::finish(const std::function<bool()>& is_interrupted) {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  std::stop_source stop;
  auto copied = std::async(std::launch::async, [&] { return copy(true, stop.get_token()); });
  while (copied.wait_for(kInterruptInterval) != std::future_status::ready) {
    if (is_interrupted()) stop.request_stop();
  }
  if (auto done = copied.get(); !done)
    return make_error(
        done.error().code,
        fmt::format("not all results and checkpoints are stored: {}; store them with: volador storage cp {} "
                    "'{}'",
                    done.error().message, display_path(directory_), url().text()));
  return {};
}

std::vector<std::string> RunMirror::take_notices() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notices_, {});
}

Result<fs::path> fetch_run(const std::string& text, const fs::path& folder) {
  const auto url = storage::parse_storage_url(text);
  if (!url) return make_error(url.error());
  const auto split = url->parent();
  if (!split)
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: expected the place of a run in it", url->text()));
  const fs::path local = folder / split->second, partial = folder / (split->second + ".partial");
  const std::string journal = journal_path(local).filename();
  auto store = storage::open_object_store({*url});
  if (!store) return make_error(store.error());
  const auto objects = (*store)->list("", {});
  if (!objects) return make_error(objects.error());
  std::vector<std::string> files;
  std::optional<int64_t> journal_bytes;
  for (const storage::StoredObject& object : *objects) {
    if (object.path == journal) journal_bytes = object.bytes;
    if (object.path != journal && MirrorPlan::belongs(object.path)) files.push_back(object.path);
  }
  if (!journal_bytes)
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: there is no run; volador storage ls {} lists what is there", url->text(),
                                  split->first.text()));
  std::error_code code;
  const bool is_there = fs::exists(local, code);
  const auto own = fs::file_size(journal_path(local), code);
  if (is_there && !code && static_cast<int64_t>(own) >= *journal_bytes) return local;
  if (is_there && is_driven(local))
    return make_error(ErrorCode::kUnavailable, fmt::format("{}: a program runs it", local.string()));
  const fs::path target = is_there ? local : partial;
  VOLADOR_TRY(make_results_directory(target));
  VOLADOR_TRY((*store)->get("", files, target, {}));
  VOLADOR_TRY((*store)->get("", {journal}, target, {}));  // Last: it names the checkpoints.
  VOLADOR_TRY(give_results_mode(target));
  if (!is_there) fs::rename(partial, local, code);
  if (!is_there && code) return make_error(file_error("write", local, code.value()));
  return local;
}

}  // namespace volador::tune
