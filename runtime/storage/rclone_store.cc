#include "runtime/storage/rclone_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/random.h"

namespace volador::storage {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr size_t kErrorsKept = 20;
constexpr size_t kObjectsMax = 1'000'000;

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> out;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    if (const char* equals = std::strchr(*at, '='))
      out.emplace(std::string(*at, static_cast<size_t>(equals - *at)), equals + 1);
  }
  return out;
}

// Requests a stop when `call` is stopped or its time is over.
class CallLimit {
 public:
  explicit CallLimit(const StorageCall& call)
      : limit_(call.time_limit), forward_(call.stop, Forward{source_}), begin_(steady_clock::now()) {
    if (limit_.count() <= 0) return;
    watch_ = std::jthread([this](const std::stop_token& over) {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, over, begin_ + limit_, [] { return false; });
      if (!over.stop_requested()) source_.request_stop();
    });
  }

  std::stop_token token() const { return source_.get_token(); }
  // Waits; false: stopped.
  bool pause(nanoseconds duration) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, token(), duration, [] { return false; });
    return !source_.stop_requested();
  }
  // Why the call was stopped.
  Error reason(std::string_view what, const StorageCall& call) const {
    if (call.stop.stop_requested()) return {ErrorCode::kCancelled, fmt::format("cancelled: {}", what)};
    return {ErrorCode::kTimeout,
            fmt::format(
                "cannot {} within the time limit of {} s; raise it, or repeat the call, which sends what is missing",
                what, std::chrono::duration_cast<std::chrono::seconds>(limit_).count())};
  }

 private:
  struct Forward {
    std::stop_source source;
    void operator()() { source.request_stop(); }
  };
  const nanoseconds limit_;
  std::stop_source source_;
  std::stop_callback<Forward> forward_;
  const steady_clock::time_point begin_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread watch_;
};

// A message for the log of errors, of which the first ones are kept: they name the cause.
void keep(std::vector<std::string>& errors, const RcloneLine& line) {
  if (line.is_error && errors.size() < kErrorsKept) errors.push_back(line.message);
}

std::string lines_of(const std::vector<std::string>& files) {
  std::string out;
  for (const std::string& file : files) out += file + "\n";
  return out;
}

Result<void> check_names(const std::vector<std::string>& files) {
  for (const std::string& file : files) VOLADOR_TRY(check_key("name of a file", file));
  return {};
}

}  // namespace

Result<std::string> find_rclone() {
  const char* named = std::getenv("VOLADOR_RCLONE");
  if (named != nullptr && *named != '\0') {
    if (::access(named, X_OK) == 0) return std::string(named);
    return make_error(ErrorCode::kNotFound,
                      fmt::format("VOLADOR_RCLONE={}: there is no such program; {}", named, rclone_advice()));
  }
  const char* path = std::getenv("PATH");
  std::string found = find_in_path("rclone", path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path);
  if (!found.empty()) return found;
  return make_error(
      ErrorCode::kNotFound,
      fmt::format("storage in S3, GCS and Azure needs the program rclone, which is not in PATH; {}", rclone_advice()));
}

Result<RcloneVersion> version_of_rclone(const std::string& program) {
  static std::mutex mutex;
  static std::map<std::string, RcloneVersion> known;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(program); found != known.end()) return found->second;
  }
  auto child = ChildProcess::start({{program, "version"}, {"RCLONE_CONFIG=/dev/null", "HOME=/"}});
  if (!child) return make_error(child.error());
  std::string output;
  const auto code = child->run({.on_output = [&](std::string_view bytes) -> Result<void> {
                                 if (output.size() < 4096) output += bytes;
                                 return {};
                               }},
                               {});
  if (!code) return make_error(code.error());
  const auto version = parse_rclone_version(output);
  if (*code != 0 || !version)
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: \"{} version\" does not print a version of rclone; {}", program, program, rclone_advice()));
  const std::lock_guard lock(mutex);
  return known.emplace(program, *version).first->second;
}

Result<std::unique_ptr<RcloneStore>> RcloneStore::create(StorageTarget target, const RcloneLimits& limits) {
  auto program = find_rclone();
  if (!program) return make_error(program.error());
  const auto version = version_of_rclone(*program);
  if (!version) return make_error(version.error());
  VOLADOR_TRY(check_rclone_version(*version, target.url));
  const auto own = own_environment();
  auto variables = rclone_environment(own, target);
  if (!variables) return make_error(variables.error());
  auto store = std::unique_ptr<RcloneStore>(new RcloneStore());
  store->secrets_ = secrets_of(own, target);
  store->target_ = std::move(target);
  store->limits_ = limits;
  store->version_ = *version;
  store->program_ = std::move(*program);
  store->variables_ = std::move(*variables);
  return store;
}

ChildProcess::Command RcloneStore::command(const std::vector<std::string>& words) const {
  ChildProcess::Command command{{program_}, variables_};
  for (std::string& flag : rclone_flags(limits_, version_, target_.url)) command.words.push_back(std::move(flag));
  command.words.insert(command.words.end(), words.begin(), words.end());  // The last of two equal flags counts.
  return command;
}

Result<void> RcloneStore::attempt(const Step& step, const StorageCall& call, const std::stop_token& stop) const {
  if (step.begin) step.begin();
  auto child = ChildProcess::start(command(step.words));
  if (!child) return make_error(child.error());
  std::vector<std::string> errors;
  const auto code = child->run({.input = step.input,
                                .on_output = step.on_output,
                                .on_line =
                                    [&](std::string_view text) {
                                      const RcloneLine line = parse_rclone_line(text);
                                      keep(errors, line);
                                      if (call.on_progress && line.bytes && line.total_bytes)
                                        call.on_progress({*line.bytes, *line.total_bytes});
                                      if (call.on_file && !line.copied.empty()) call.on_file(line.copied);
                                    }},
                               stop);
  if (!code) return make_error(code.error());
  if (*code != 0) return make_error(rclone_error(step.what, target_.url, secrets_, *code, errors));
  return {};
}

Result<void> RcloneStore::run(const Step& step, const StorageCall& call) const {
  CallLimit limit(call);
  SystemRandom random;
  for (int attempts = 1;; ++attempts) {
    auto done = attempt(step, call, limit.token());
    if (done) return {};
    if (done.error().code == ErrorCode::kCancelled) return make_error(limit.reason(step.what, call));
    if (!may_help_to_repeat(done.error())) return make_error(done.error());
    const auto pause = pause_before_retry(attempts, random.real());
    if (!pause)
      return make_error(done.error().code, fmt::format("{}; {} attempts failed", done.error().message, attempts));
    if (!limit.pause(*pause)) return make_error(limit.reason(step.what, call));
  }
}

Result<std::vector<StoredObject>> RcloneStore::list(const std::string& key, const StorageCall& call) {
  std::vector<StoredObject> objects;
  std::string line;
  const auto take = [&](std::string_view text) -> Result<void> {
    while (!text.empty() && (text.back() == ',' || text.back() == ' ')) text.remove_suffix(1);
    if (!text.starts_with('{')) return {};
    const auto row = nlohmann::json::parse(text, nullptr, false);
    if (!row.is_object() || !row.contains("Path") || !row["Path"].is_string())
      return make_error(ErrorCode::kUnavailable, fmt::format("list {}: rclone printed what is no entry", url().text()));
    if (objects.size() == kObjectsMax)
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("{}: it has more than {} objects; name a place below it", url().below(key).text(), kObjectsMax));
    objects.push_back({row["Path"].get<std::string>(), row.value("Size", int64_t{0})});
    return {};
  };
  const auto lines = [&](std::string_view bytes) -> Result<void> {
    line += bytes;
    size_t from = 0;
    for (size_t end = line.find('\n'); end != line.npos; end = line.find('\n', from)) {
      VOLADOR_TRY(take(std::string_view(line).substr(from, end - from)));
      from = end + 1;
    }
    line.erase(0, from);
    return {};
  };
  const auto begin = [&] {
    objects.clear();
    line.clear();
  };
  VOLADOR_TRY(run({.what = fmt::format("list {}", url().below(key).text()),
                   .words = {"lsjson", "--recursive", "--files-only", "--no-modtime", "--no-mimetype",
                             rclone_place(url(), key, true)},
                   .begin = begin,
                   .on_output = lines},
                  call));
  std::ranges::sort(objects, {}, &StoredObject::path);
  return objects;
}

Result<void> RcloneStore::put(const std::filesystem::path& folder, const std::vector<std::string>& files,
                              const std::string& key, const StorageCall& call) {
  if (files.empty()) return {};
  VOLADOR_TRY(check_names(files));
  const std::string names = lines_of(files);
  // The size at the start counts: files that are appended to, such as journals, are stored up to there.
  return run({.what = fmt::format("store {} in {}", folder.string(), url().below(key).text()),
              .words = {"copy", folder.string(), rclone_place(url(), key, true), "--files-from-raw=-", "--checksum",
                        "--no-traverse", "--local-no-check-updated"},
              .input = names},
             call);
}

Result<void> RcloneStore::get(const std::string& key, const std::vector<std::string>& files,
                              const std::filesystem::path& folder, const StorageCall& call) {
  if (files.empty()) return {};
  VOLADOR_TRY(check_names(files));
  const std::string names = lines_of(files);
  Step step{.what = fmt::format("read {} into {}", url().below(key).text(), folder.string()),
            .words = {"copy", rclone_place(url(), key, true), folder.string(), "--files-from-raw=-", "--checksum",
                      "--no-traverse"},
            .input = names};
  if (call.on_file) step.words.insert(step.words.end(), {"--ignore-checksum", "--log-level=INFO"});
  return run(step, call);
}

Result<void> RcloneStore::write(const std::string& key, std::string_view bytes, const StorageCall& call) {
  VOLADOR_TRY(check_key("key", key));
  return run({.what = fmt::format("write {}", url().below(key).text()),
              .words = {"rcat", rclone_place(url(), key, false), fmt::format("--size={}", bytes.size())},
              .input = bytes},
             call);
}

Result<std::string> RcloneStore::read(const std::string& key, size_t bytes_max, const StorageCall& call) {
  VOLADOR_TRY(check_key("key", key));
  const size_t slash = key.rfind('/');
  const std::string folder = slash == key.npos ? "" : key.substr(0, slash);
  const std::string name = key.substr(slash == key.npos ? 0 : slash + 1) + "\n";
  // "cat" of an absent object succeeds and prints nothing, as for an empty one.
  std::string text;
  VOLADOR_TRY(run({.what = fmt::format("read {}", url().below(key).text()),
                   .words = {"cat", rclone_place(url(), folder, true), "--files-from-raw=-"},
                   .input = name,
                   .begin = [&] { text.clear(); },
                   .on_output = [&](std::string_view bytes) -> Result<void> {
                     text += bytes;
                     if (text.size() <= bytes_max) return {};
                     return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: it has more than {} bytes",
                                                                                url().below(key).text(), bytes_max));
                   }},
                  call));
  if (text.empty())
    return make_error(ErrorCode::kNotFound, fmt::format("{}: there is no such object", url().below(key).text()));
  return text;
}

// The output of "cat", which is read as slowly as the caller does.
class RcloneStore::Pieces final : public FilePieces {
 public:
  Pieces(const RcloneStore& store, std::string what, ChildProcess child, int64_t bytes, std::stop_token stop)
      : store_(store),
        what_(std::move(what)),
        child_(std::move(child)),
        left_(bytes),
        bytes_(bytes),
        stop_(std::move(stop)) {}

  std::optional<uint64_t> length() const override { return static_cast<uint64_t>(bytes_); }
  Result<std::string> next() override {
    if (ended_) return std::string();
    std::string piece(kPieceBytes, '\0');
    auto count = child_.read(piece.data(), piece.size(), stop_);
    if (!count) return make_error(count.error());
    piece.resize(*count);
    left_ -= static_cast<int64_t>(*count);
    if (*count == kPieceBytes) return piece;
    ended_ = true;
    std::vector<std::string> errors;
    const auto code = child_.finish([&](std::string_view text) { keep(errors, parse_rclone_line(text)); }, stop_);
    if (!code) return make_error(code.error());
    if (*code != 0) return make_error(rclone_error(what_, store_.target_.url, store_.secrets_, *code, errors));
    if (left_ != 0)
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("cannot {}: {} of {} bytes arrived; it changed, or the connection broke", what_,
                                    bytes_ - left_, bytes_));
    return piece;
  }

 private:
  const RcloneStore& store_;
  const std::string what_;
  ChildProcess child_;
  int64_t left_;
  const int64_t bytes_;
  const std::stop_token stop_;
  bool ended_ = false;
};

Result<std::unique_ptr<FilePieces>> RcloneStore::open(const std::string& key, int64_t bytes, std::stop_token stop) {
  VOLADOR_TRY(check_key("key", key));
  auto child = ChildProcess::start(command({"cat", rclone_place(url(), key, false)}));
  if (!child) return make_error(child.error());
  return std::make_unique<Pieces>(*this, fmt::format("read {}", url().below(key).text()), std::move(*child), bytes,
                                  std::move(stop));
}

Result<void> RcloneStore::remove(const std::string& key, const std::vector<std::string>& files,
                                 const StorageCall& call) {
  if (files.empty()) return {};
  VOLADOR_TRY(check_names(files));
  const std::string names = lines_of(files);
  return run({.what = fmt::format("delete {}", url().below(key).text()),
              .words = {"delete", rclone_place(url(), key, true), "--files-from-raw=-"},
              .input = names},
             call);
}

}  // namespace volador::storage
