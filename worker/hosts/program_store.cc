#include "worker/hosts/program_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/log.h"
#include "runtime/paths.h"
#include "runtime/resources.h"
#include "worker/hosts/program_check.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

// Identity of a file's content: equal values mean unchanged content.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  int64_t written_ns = 0;

  bool operator==(const Identity&) const = default;
};

std::optional<Identity> identity_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return Identity{info.st_dev, info.st_ino, info.st_size,
                  int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

Result<security::Digest> digest_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return make_error(ErrorCode::kUnavailable, fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  security::Sha256 hash;
  std::string buffer(1 << 20, '\0');
  while (in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    hash.update(std::string_view(buffer.data(), static_cast<size_t>(in.gcount())));
  }
  return hash.finish();
}

std::string library_path(const Environment& env) {
  const auto found = env.find("LD_LIBRARY_PATH");
  return found == env.end() ? std::string() : found->second;
}

}  // namespace

struct ProgramStore::State {
  struct Checked {
    PreparedProgram program;
    Identity identity;
  };
  struct Work {
    std::vector<Done> waiting;
  };

  ProgramStoreOptions options;
  std::mutex mutex;
  std::condition_variable idle;
  bool closed = false;
  std::map<std::string, Checked> checked;  // By request key.
  std::map<std::string, Work> working;

  Result<PreparedProgram> prepare(const protocol::Program& program, const Environment& env, const std::string& key);
  Result<std::string> find(const protocol::Program& program, const security::Digest& sha256, const Environment& env,
                           const std::string& cwd);
  void use(const fs::path& path);
  void evict(const fs::path& keep);
};

ProgramStore::ProgramStore(ProgramStoreOptions options) : state_(std::make_shared<State>()) {
  state_->options = std::move(options);
}

ProgramStore::~ProgramStore() {
  std::unique_lock lock(state_->mutex);
  state_->closed = true;
  state_->idle.wait_for(lock, std::chrono::milliseconds(200), [&] { return state_->working.empty(); });
  for (auto& [key, work] : state_->working) work.waiting.clear();
}

void ProgramStore::prepare(const protocol::Program& program, const Environment& env, Done done) {
  if (program.sha256().size() != sizeof(security::Digest)) {
    return done(make_error(ErrorCode::kInvalidArgument,
                           "the program's SHA-256 is missing; the driver that made this request is broken"));
  }
  const std::string key = program.sha256() + '\0' + program.path() + '\0' + program.machine_id() + '\0' +
                          library_path(env) + '\0' + program.cwd();
  {
    const std::lock_guard guard(state_->mutex);
    const auto [work, fresh] = state_->working.try_emplace(key);
    work->second.waiting.push_back(std::move(done));
    if (!fresh) return;
  }
  // One thread per program, so that a hanging file system does not delay other programs.
  std::thread([state = state_, program, env, key] {
    const auto prepared = state->prepare(program, env, key);
    std::vector<Done> waiting;
    {
      const std::lock_guard guard(state->mutex);
      waiting = std::move(state->working[key].waiting);
      state->working.erase(key);
    }
    for (Done& each : waiting) each(prepared);
    state->idle.notify_all();
  }).detach();
}

Result<PreparedProgram> ProgramStore::State::prepare(const protocol::Program& program, const Environment& env,
                                                     const std::string& key) {
  std::error_code ignored;
  const bool has_cwd = !program.cwd().empty() && fs::is_directory(program.cwd(), ignored);
  PreparedProgram prepared{.path = {}, .cwd = has_cwd ? program.cwd() : "/"};
  std::optional<Checked> known;
  {
    const std::lock_guard guard(mutex);
    if (const auto found = checked.find(key); found != checked.end()) known = found->second;
  }
  if (known && known->program.cwd == prepared.cwd && identity_of(known->program.path) == known->identity)
    return known->program;
  security::Digest sha256{};
  std::memcpy(sha256.data(), program.sha256().data(), sha256.size());
  auto path = find(program, sha256, env, prepared.cwd);
  if (!path) return make_error(path.error());
  prepared.path = std::move(*path);
  const auto identity = identity_of(prepared.path);
  const std::lock_guard guard(mutex);
  if (identity) checked[key] = {prepared, *identity};
  if (checked.size() > 256) checked.erase(checked.begin());
  return prepared;
}

Result<std::string> ProgramStore::State::find(const protocol::Program& program, const security::Digest& sha256,
                                              const Environment& env, const std::string& cwd) {
  if (program.size_bytes() > options.program_bytes_max) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("program {} has {}; nodes take at most {}; link large parts as shared libraries", program.path(),
                    format_bytes(program.size_bytes()), format_bytes(options.program_bytes_max)));
  }
  fs::path path;
  if (program.machine_id() == options.machine_id && !program.path().empty()) {
    const auto found = identity_of(program.path());
    if (found && (program.size_bytes() == 0 || found->size == program.size_bytes())) {
      const auto content = digest_of(program.path());
      if (content && *content == sha256) path = program.path();
    }
  }
  if (path.empty()) {
    VOLADOR_TRY(make_private_directory(options.cache));
    const fs::path cached = options.cache / security::hex(sha256);
    bool good = false;
    if (identity_of(cached)) {
      const auto content = digest_of(cached);
      good = content && *content == sha256;
      if (!good) log::warn("worker", "a cached program is damaged and fetched again", {{"file", cached.string()}});
    }
    if (!good) {
      VOLADOR_TRY(options.fetch(sha256, cached, options.program_bytes_max));
      const auto content = digest_of(cached);
      if (!content) return make_error(content.error());
      if (*content != sha256) {
        std::error_code ignored;
        fs::remove(cached, ignored);
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("program {} arrived with another content than announced", program.path()));
      }
      ::chmod(cached.c_str(), 0700);
      evict(cached);
    }
    use(cached);
    path = cached;
  }
  if (!program.data()) VOLADOR_TRY(check_program(path, env, cwd, options.node_name));
  return path.string();
}

// The access time orders the cache; the modification time is kept, because it shows whether the content changed.
void ProgramStore::State::use(const fs::path& path) {
  const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  ::utimensat(AT_FDCWD, path.c_str(), times, 0);
}

void ProgramStore::State::evict(const fs::path& keep) {
  struct Entry {
    fs::path path;
    int64_t used_ns;
    int64_t bytes;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(options.cache, error)) {
    struct stat info {};
    if (::stat(item.path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    total += info.st_size;
    if (item.path() != keep)
      entries.push_back(
          {item.path(), int64_t{info.st_atim.tv_sec} * 1'000'000'000 + info.st_atim.tv_nsec, info.st_size});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used_ns < b.used_ns; });
  for (const Entry& entry : entries) {
    if (total <= options.cache_bytes_max) break;
    if (fs::remove(entry.path, error)) total -= entry.bytes;
  }
}

}  // namespace volador::worker
