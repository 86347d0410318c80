#include "runtime/storage/storage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/files/directory_archive.h"
#include "runtime/files/durable_file.h"
#include "runtime/files/results_mode.h"
#include "runtime/security/digest.h"
#include "runtime/storage/archive_stream.h"
#include "runtime/storage/folder_store.h"
#include "runtime/storage/rclone_store.h"

namespace volador::storage {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHashPieceBytes = 1 << 20;

std::string manifest_key(const std::string& key) { return fmt::format("{}/{}", key, kManifestName); }

struct FileState {
  int64_t bytes = 0;
  int64_t changed_ns = 0;
  unsigned mode = 0;

  bool operator==(const FileState&) const = default;
};
Result<FileState> state_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return make_error(file_error("read", path, errno));
  return FileState{info.st_size, info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec, info.st_mode & 0777};
}

Result<std::string> hash_of(const fs::path& path, const std::stop_token& stop) {
  auto file = FileHandle::open(path, O_RDONLY);
  if (!file) return make_error(file.error());
  security::Sha256 hash;
  std::string piece(kHashPieceBytes, '\0');
  for (;;) {
    if (stop.stop_requested())
      return make_error(ErrorCode::kCancelled, fmt::format("cancelled: read {}", path.string()));
    const auto count = read_some(file->get(), piece.data(), piece.size(), path);
    if (!count) return make_error(count.error());
    if (*count == 0) return security::hex(hash.finish());
    hash.update({piece.data(), *count});
  }
}

// Computes checksums of files on a thread of its own, in the order of add().
class Hasher {
 public:
  Hasher(fs::path folder, std::stop_token stop)
      : folder_(std::move(folder)),
        stop_(std::move(stop)),
        thread_([this](const std::stop_token& end) { work(end); }) {}

  void add(const std::string& path) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(path);
    changed_.notify_all();
  }
  // The checksums of all files so far. Call once.
  std::map<std::string, Result<std::string>> finish() {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return waiting_.empty() && !busy_; });
    }
    thread_.request_stop();
    thread_.join();
    return std::move(hashes_);
  }

 private:
  void work(const std::stop_token& end) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, end, [this] { return !waiting_.empty(); })) {
      const std::string path = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
      lock.unlock();
      auto hash = hash_of(folder_ / path, stop_);
      lock.lock();
      hashes_.insert_or_assign(path, std::move(hash));
      busy_ = false;
      changed_.notify_all();
    }
  }

  const fs::path folder_;
  const std::stop_token stop_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::string> waiting_;
  std::map<std::string, Result<std::string>> hashes_;
  bool busy_ = false;
  std::jthread thread_;
};

// What is in a folder: its files without their checksums.
struct Contents {
  Manifest manifest;
  std::vector<FileState> states;  // One for each file.
};
Result<Contents> contents_of(const fs::path& folder) {
  const auto entries = list_entries(folder);
  if (!entries) return make_error(entries.error());
  Contents contents;
  std::set<std::string> with_entries;
  for (const ArchiveEntry& entry : *entries) {
    if (auto good = check_key(folder.string(), entry.name); !good) return make_error(good.error());
    if (entry.name == kManifestName)
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: a folder that is stored may not have a file {}, which the storage writes; "
                                    "rename or remove it",
                                    folder.string(), kManifestName));
    if (const size_t slash = entry.name.rfind('/'); slash != entry.name.npos)
      with_entries.insert(entry.name.substr(0, slash));
    if (entry.is_directory) continue;
    const auto state = state_of(folder / entry.name);
    if (!state) return make_error(state.error());
    contents.states.push_back(*state);
    contents.manifest.files.push_back({entry.name, state->bytes, "", state->mode});
  }
  for (const ArchiveEntry& entry : *entries) {
    if (entry.is_directory && !with_entries.contains(entry.name)) contents.manifest.directories.push_back(entry.name);
  }
  return contents;
}

Result<void> add_hashes(const fs::path& folder, Manifest& manifest, const std::stop_token& stop) {
  for (ManifestFile& file : manifest.files) {
    auto hash = hash_of(folder / file.path, stop);
    if (!hash) return make_error(hash.error());
    file.sha256 = std::move(*hash);
  }
  return {};
}

Result<void> check_unchanged(const fs::path& folder, const Contents& contents) {
  for (size_t at = 0; at < contents.states.size(); ++at) {
    const auto now = state_of(folder / contents.manifest.files[at].path);
    if (now && *now == contents.states[at]) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: {} changed while it was stored; store the folder when nothing writes to it",
                                  folder.string(), contents.manifest.files[at].path));
  }
  return {};
}

std::vector<std::string> paths_of(const Manifest& manifest) {
  std::vector<std::string> paths;
  for (const ManifestFile& file : manifest.files) paths.push_back(file.path);
  return paths;
}

tl::unexpected<Error> not_stored(const StorageUrl& url, const std::string& key, bool incomplete) {
  return make_error(
      ErrorCode::kNotFound,
      incomplete ? fmt::format("{}: its upload has not completed; upload it again", url.below(key).text())
                 : fmt::format("{}: nothing is stored there; volador storage ls lists what is", url.below(key).text()));
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> open_object_store(const StorageTarget& target) {
  if (target.url.kind == StorageKind::kFolder) return std::make_unique<FolderStore>(target.url);
  auto store = RcloneStore::create(target);
  if (!store) return make_error(store.error());
  return std::unique_ptr<ObjectStore>(std::move(*store));
}

Result<Storage> Storage::open(const StorageTarget& target) {
  auto store = open_object_store(target);
  if (!store) return make_error(store.error());
  return Storage(std::move(*store));
}

Result<UploadSummary> Storage::upload(const fs::path& folder, const std::string& key, const StorageCall& call) {
  VOLADOR_TRY(check_key("key", key));
  auto contents = contents_of(folder);
  if (!contents) return make_error(contents.error());
  Manifest& manifest = contents->manifest;
  // Listing first also tells wrong credentials and a missing bucket apart from other failures.
  const auto there = store_->list(key, call);
  if (!there) return make_error(there.error());
  std::vector<std::string> files = paths_of(manifest);
  const std::set<std::string> wanted(files.begin(), files.end());
  bool complete = false;
  std::vector<std::string> extra;
  for (const StoredObject& object : *there) {
    if (object.path == kManifestName) {
      complete = true;
    } else if (!wanted.contains(object.path)) {
      extra.push_back(object.path);
    }
  }
  if (complete) {
    VOLADOR_TRY(add_hashes(folder, manifest, call.stop));
    const auto earlier = describe(key, call);
    if (earlier && *earlier == manifest) return UploadSummary{std::move(manifest), 0};
    if (!earlier && earlier.error().code != ErrorCode::kInvalidArgument) return make_error(earlier.error());
    VOLADOR_TRY(store_->remove(key, {std::string(kManifestName)}, call));
    // Files of equal size may be taken for unchanged by stores that have no checksum of them.
    std::vector<std::string> changed;
    for (const ManifestFile& file : earlier ? earlier->files : std::vector<ManifestFile>()) {
      const auto now = std::ranges::find(manifest.files, file.path, &ManifestFile::path);
      if (now != manifest.files.end() && now->sha256 != file.sha256) changed.push_back(file.path);
    }
    VOLADOR_TRY(store_->remove(key, changed, call));
  }
  VOLADOR_TRY(store_->remove(key, extra, call));
  // Checksums are computed while the files are sent.
  std::stop_source ended;
  const std::stop_callback forward(call.stop, [&] { ended.request_stop(); });
  std::future<Result<void>> hashes;
  if (!complete) {
    hashes = std::async(std::launch::async, [&] { return add_hashes(folder, manifest, ended.get_token()); });
  }
  auto sent = store_->put(folder, files, key, call);
  if (!sent) ended.request_stop();
  Result<void> hashed = hashes.valid() ? hashes.get() : Result<void>();
  if (!sent) return make_error(sent.error());
  if (!hashed) return make_error(hashed.error());
  VOLADOR_TRY(check_unchanged(folder, *contents));
  VOLADOR_TRY(store_->write(manifest_key(key), manifest.to_json(), call));
  const auto count = static_cast<int64_t>(manifest.files.size());
  return UploadSummary{std::move(manifest), count};
}

Result<Manifest> Storage::describe(const std::string& key, const StorageCall& call) {
  VOLADOR_TRY(check_key("key", key));
  auto text = store_->read(manifest_key(key), kManifestBytesMax, call);
  if (text) return parse_manifest(url().below(key).text(), *text);
  if (text.error().code != ErrorCode::kNotFound) return make_error(text.error());
  const auto there = store_->list(key, call);
  if (!there) return make_error(there.error());
  return not_stored(url(), key, !there->empty());
}

Result<bool> Storage::exists(const std::string& key, const StorageCall& call) {
  VOLADOR_TRY(check_key("key", key));
  const auto there = store_->list(key, call);
  if (!there) return make_error(there.error());
  return std::ranges::any_of(*there, [](const StoredObject& object) { return object.path == kManifestName; });
}

Result<std::vector<std::string>> Storage::keys(const std::string& key, const StorageCall& call) {
  const auto there = store_->list(key, call);
  if (!there) return make_error(there.error());
  std::vector<std::string> out;
  for (const StoredObject& object : *there) {
    if (object.path == kManifestName) out.emplace_back();
    const std::string ending = fmt::format("/{}", kManifestName);
    if (object.path.ends_with(ending)) out.push_back(object.path.substr(0, object.path.size() - ending.size()));
  }
  return out;
}

Result<void> Storage::remove(const std::string& key, const StorageCall& call) {
  VOLADOR_TRY(check_key("key", key));
  const auto there = store_->list(key, call);
  if (!there) return make_error(there.error());
  std::vector<std::string> files;
  bool complete = false;
  for (const StoredObject& object : *there) {
    if (object.path == kManifestName) {
      complete = true;
    } else {
      files.push_back(object.path);
    }
  }
  if (complete) VOLADOR_TRY(store_->remove(key, {std::string(kManifestName)}, call));
  return store_->remove(key, files, call);
}

Result<Manifest> Storage::download(const std::string& key, const fs::path& target,
                                   const std::vector<std::string>& selectors, const StorageCall& call) {
  std::error_code code;
  if (fs::exists(target, code) && !(fs::is_directory(target, code) && fs::is_empty(target, code)))
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} is there and not an empty folder; name another one", target.string()));
  auto stored = describe(key, call);
  if (!stored) return make_error(stored.error());
  Manifest chosen;
  for (ManifestFile& file : stored->files) {
    if (is_selected(selectors, file.path)) chosen.files.push_back(std::move(file));
  }
  for (std::string& path : stored->directories) {
    if (is_selected(selectors, path)) chosen.directories.push_back(std::move(path));
  }
  if (chosen.files.empty() && !selectors.empty())
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: no file of it is selected by {}; volador storage ls lists them",
                                  url().below(key).text(), fmt::join(selectors, ", ")));
  const fs::path partial = target.string() + ".partial";
  VOLADOR_TRY(make_results_directory(partial));
  std::vector<std::string> missing;
  for (const ManifestFile& file : chosen.files) {
    const auto state = state_of(partial / file.path);
    if (state && state->bytes == file.bytes) {
      const auto hash = hash_of(partial / file.path, call.stop);
      if (hash && *hash == file.sha256) continue;
      if (!hash && hash.error().code == ErrorCode::kCancelled) return make_error(hash.error());
    }
    fs::remove(partial / file.path, code);
    missing.push_back(file.path);
  }
  // Checksums are computed while other files arrive. Those that did not change since an earlier call were compared above.
  std::set<std::string> unseen(missing.begin(), missing.end());
  Hasher hasher(partial, call.stop);
  StorageCall reading = call;
  reading.on_file = [&](const std::string& path) {
    if (unseen.erase(path) > 0) hasher.add(path);
  };
  VOLADOR_TRY(store_->get(key, missing, partial, reading));
  for (const std::string& path : unseen) hasher.add(path);
  const auto hashes = hasher.finish();
  for (const ManifestFile& file : chosen.files) {
    const fs::path path = partial / file.path;
    const auto found = hashes.find(file.path);
    const Result<std::string> hash = found == hashes.end() ? Result<std::string>(file.sha256) : found->second;
    if (!hash && hash.error().code == ErrorCode::kCancelled) return make_error(hash.error());
    if (!hash || *hash != file.sha256) {
      fs::remove(path, code);
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("{}: {} arrived with other contents than its manifest names, or is gone; read it "
                                    "again, and if that does not help, store the folder again",
                                    url().below(key).text(), file.path));
    }
    fs::permissions(path, static_cast<fs::perms>(file.mode), code);
  }
  for (const std::string& path : chosen.directories) VOLADOR_TRY(make_results_directory(partial / path));
  fs::remove(target, code);
  fs::rename(partial, target, code);
  if (code) return make_error(file_error("write", target, code.value()));
  return chosen;
}

Result<std::unique_ptr<FilePieces>> Storage::archive(const std::string& key, ArchiveForm form,
                                                     const std::vector<std::string>& selectors,
                                                     const StorageCall& call) {
  auto stored = describe(key, call);
  if (!stored) return make_error(stored.error());
  std::erase_if(stored->files, [&](const ManifestFile& file) { return !is_selected(selectors, file.path); });
  std::erase_if(stored->directories, [&](const std::string& path) { return !is_selected(selectors, path); });
  return stream_archive(std::move(*stored), form == ArchiveForm::kZip,
                        [this, key, stop = call.stop](const ManifestFile& file) {
                          return store_->open(fmt::format("{}/{}", key, file.path), file.bytes, stop);
                        });
}

StorageCheck check_storage(Storage& storage, const fs::path& scratch, const std::string& unique,
                           const StorageCall& call) {
  StorageCheck check;
  const std::string key = fmt::format(".volador-check-{}", unique);
  const fs::path folder = scratch / "written", back = scratch / "read";
  const auto step = [&](const char* name, auto&& work) {
    if (check.failed) return;
    if (Result<void> done = work(); done) {
      check.passed.emplace_back(name);
    } else {
      check.failed = done.error();
    }
  };
  bool wrote = false;
  step("reach the storage and list", [&]() -> Result<void> {
    const auto there = storage.keys(key, call);
    return there ? Result<void>() : make_error(there.error());
  });
  step("write a folder of two files", [&]() -> Result<void> {
    VOLADOR_TRY(make_results_directory(folder / "inner"));
    VOLADOR_TRY(write_file_atomically(folder / "small.txt", "volador\n"));
    VOLADOR_TRY(write_file_atomically(folder / "inner" / "a name with spaces", std::string(100'000, 'x')));
    wrote = true;
    const auto sent = storage.upload(folder, key, call);
    return sent ? Result<void>() : make_error(sent.error());
  });
  step("see that it is complete", [&]() -> Result<void> {
    const auto there = storage.exists(key, call);
    if (!there) return make_error(there.error());
    if (*there) return {};
    return make_error(ErrorCode::kUnavailable, "the folder is not listed after it was written");
  });
  step("read it back and compare checksums", [&]() -> Result<void> {
    const auto got = storage.download(key, back, {}, call);
    return got ? Result<void>() : make_error(got.error());
  });
  if (!wrote) return check;
  const auto removed = storage.remove(key, call);
  if (removed && !check.failed) {
    check.passed.emplace_back("delete it");
  } else if (!check.failed) {
    check.failed = removed.error();
  }
  return check;
}

}  // namespace volador::storage
