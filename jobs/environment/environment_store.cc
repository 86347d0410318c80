#include "jobs/environment/environment_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "jobs/group_spawn.h"
#include "runtime/control/program_transfer.h"
#include "runtime/paths.h"
#include "runtime/quantities.h"
#include "runtime/security/digest.h"

namespace volador::jobs {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kLockPause{50};
constexpr milliseconds kLockSilence{1000};
constexpr int64_t kRemovalEveryMs = 3'600'000;
constexpr size_t kListBytesMax = 16 << 20;
constexpr size_t kMarkBytesMax = 4096;
constexpr size_t kShownBytes = 6000;  // At most this much output of a failed build is shown.

// The interpreter, its version, and whether it can run uv.
constexpr std::string_view kPythonProbe =
    "import importlib.util, platform, sys\n"
    "print(sys.executable)\n"
    "print(sys.implementation.name, platform.python_version(), platform.machine())\n"
    "print(importlib.util.find_spec('uv') is not None)\n";

Error system_error(std::string_view action, const fs::path& path) { return file_error(action, path, errno); }

std::string read_descriptor(int fd) {
  std::string text;
  std::array<char, 4096> piece{};
  ssize_t got = 0;
  while ((got = ::pread(fd, piece.data(), piece.size(), static_cast<off_t>(text.size()))) > 0)
    text.append(piece.data(), static_cast<size_t>(got));
  return text;
}

std::vector<std::string> lines_in(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The end of a build's output, in whole lines.
std::string last_lines(const fs::path& file) {
  const net::UniqueFd in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text = in ? read_descriptor(in.get()) : "";
  if (text.size() > kShownBytes) {
    const size_t line = text.find('\n', text.size() - kShownBytes);
    text = "...\n" + text.substr(line == std::string::npos ? text.size() - kShownBytes : line + 1);
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// Disk space of a folder; a file with several names counts in parts.
int64_t disk_bytes(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    struct stat info {};
    if (::lstat(it->path().c_str(), &info) != 0) continue;
    const int64_t names = S_ISREG(info.st_mode) ? static_cast<int64_t>(info.st_nlink) : 1;
    bytes += info.st_blocks * 512 / std::max<int64_t>(names, 1);
  }
  return bytes;
}

// What <entry>/complete says.
struct CompleteMark {
  fs::path folder;
  int64_t bytes = 0;
};

std::optional<CompleteMark> complete_mark(const fs::path& entry) {
  const auto text = read_file_limited(entry / "complete", kMarkBytesMax);
  if (!text) return std::nullopt;
  const std::vector<std::string> lines = lines_in(*text);
  if (lines.size() < 2 || lines[0].empty() || lines[0].find('/') != std::string::npos) return std::nullopt;
  CompleteMark mark{.folder = entry / lines[0]};
  std::from_chars(lines[1].data(), lines[1].data() + lines[1].size(), mark.bytes);
  std::error_code failed;
  if (!fs::is_directory(mark.folder, failed)) return std::nullopt;
  return mark;
}

int64_t modified_ms(const fs::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return 0;
  return int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000;
}

void set_modified(const fs::path& file, int64_t ms) {
  const net::UniqueFd out(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const struct timespec at { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000 };
  const std::array<struct timespec, 2> times = {at, at};
  if (out) ::futimens(out.get(), times.data());
}

// Opens the lock file; invalid if it was removed meanwhile or is locked otherwise.
net::UniqueFd try_lock(const fs::path& file, int operation) {
  net::UniqueFd lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct stat opened {};
  struct stat named {};
  if (!lock || ::flock(lock.get(), operation | LOCK_NB) != 0) return {};
  if (::fstat(lock.get(), &opened) != 0 || ::stat(file.c_str(), &named) != 0 || opened.st_ino != named.st_ino)
    return {};
  return lock;
}

// Adds the hashes of a file, or of all files of a folder.
Result<void> hash_contents(const fs::path& path, const std::string& name, std::map<std::string, std::string>& out) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) {
    const auto hash = control::sha256_of_file(path);
    if (!hash) return make_error(hash.error());
    out[name] = security::hex(*hash);
    return {};
  }
  for (const auto& child : fs::directory_iterator(path, failed)) {
    const std::string base = child.path().filename().string();
    if (base == ".git" || base == "__pycache__") continue;
    VOLADOR_TRY(hash_contents(child.path(), name + "/" + base, out));
  }
  return {};
}

// Adds the hashes of a list and of what it takes from the code folder.
Result<void> hash_list(EnvironmentKind kind, const fs::path& list, const std::string& name,
                       std::map<std::string, std::string>& out) {
  if (out.contains(name)) return {};
  const auto text = read_file_limited(list, kListBytesMax);
  if (!text) return make_error(text.error());
  out[name] = security::hex(security::sha256(*text));
  const auto references = local_references(kind, *text);
  if (!references)
    return make_error(references.error().code,
                      fmt::format("{}: {}", list.filename().string(), references.error().message));
  const fs::path folder = list.parent_path();
  for (const std::string& each : references->lists) VOLADOR_TRY(hash_list(kind, folder / each, each, out));
  std::error_code failed;
  for (const std::string& each : references->contents) {
    // What is missing is the tool's error.
    if (fs::exists(folder / each, failed)) VOLADOR_TRY(hash_contents(folder / each, each, out));
  }
  return {};
}

// `credentials`: a file, because other users see the words of a running program; empty: none.
std::vector<std::string> skopeo_words(const char* action, const std::string& credentials,
                                      const std::vector<std::string>& more) {
  std::vector<std::string> words = {"skopeo", action};
  if (!credentials.empty()) words.insert(words.end(), {"--authfile", credentials});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Whether the folder has an entry of this name; without a name: whether the path exists.
bool has(const fs::path& folder, const char* name) {
  std::error_code failed;
  return fs::exists(*name == '\0' ? folder : folder / name, failed);
}

}  // namespace

PreparedEnvironment::~PreparedEnvironment() {
  if (lock_ && !used_.empty()) ::utimensat(AT_FDCWD, used_.c_str(), nullptr, 0);
}

EnvironmentStore::EnvironmentStore(fs::path folder, const EnvironmentLimits& limits, const Clock& clock,
                                   std::function<void(const std::string&)> say)
    : folder_(std::move(folder)), limits_(limits), clock_(clock), say_(std::move(say)) {}

Result<PreparedEnvironment> EnvironmentStore::prepare(const EnvironmentRequest& request) {
  switch (request.environment.kind) {
    case EnvironmentKind::kHost:
      return PreparedEnvironment();
    case EnvironmentKind::kName:
      return make_error(ErrorCode::kNotFound,
                        fmt::format("environment \"{}\": the queue's settings have no environment of this name; name "
                                    "one that they have, or a file of the code folder such as requirements.txt",
                                    request.environment.text));
    case EnvironmentKind::kFolder:
      return prepare_folder(request);
    case EnvironmentKind::kImage:
      return prepare_image(request);
    default:
      return prepare_built(request);
  }
}

void EnvironmentStore::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

bool EnvironmentStore::is_cancelled() {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

int64_t EnvironmentStore::now_ms() const { return unix_ms(clock_.wall()); }

Result<PreparedEnvironment> EnvironmentStore::prepare_folder(const EnvironmentRequest& request) const {
  const std::string& text = request.environment.text;
  std::error_code failed;
  const fs::path path = fs::canonical(text, failed);
  if (failed || !fs::is_directory(path, failed)) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("environment {}: node {} has no such folder; create it there, or select the nodes "
                                  "that have it with --node or --label",
                                  text, request.node));
  }
  PreparedEnvironment prepared;
  // As it was named: the path of a link stays right when its target is replaced.
  std::string prefix = text;
  while (prefix.size() > 1 && prefix.ends_with('/')) prefix.pop_back();
  if (has(path, "pyvenv.cfg")) {
    prepared.change = change_for_venv(prefix);
    prepared.folder = prefix;
  } else if (has(path, "conda-meta")) {
    prepared.change = change_for_conda(prefix);
    prepared.folder = prefix;
  } else if (fs::is_directory(path / "usr/bin", failed) || has(path, "bin/sh")) {
    prepared.change = change_for_root({});
    prepared.root = path;
  } else {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("environment {}: on node {} it is neither a virtual environment (pyvenv.cfg), nor a "
                                  "conda environment (conda-meta), nor a root file system (usr/bin); name one of these",
                                  text, request.node));
  }
  return prepared;
}

Result<PreparedEnvironment> EnvironmentStore::prepare_built(const EnvironmentRequest& request) {
  const Environment& environment = request.environment;
  const fs::path file = request.base / environment.text;
  std::error_code failed;
  if (!fs::is_regular_file(file, failed)) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("environment {}: node {} has no file {}; submit the job with the code folder that "
                                  "has it",
                                  environment.text, request.node, file.string()));
  }
  const BuildTools tools = find_tools(request);
  if (is_cancelled()) return make_error(ErrorCode::kCancelled, "the job ends");
  const auto tool = tool_for(environment, tools, request.node);
  if (!tool) return make_error(tool.error());
  std::map<std::string, std::string> contents;
  VOLADOR_TRY(hash_list(environment.kind, file, "", contents));
  if (environment.kind == EnvironmentKind::kUvLock)
    VOLADOR_TRY(hash_contents(file.parent_path() / "pyproject.toml", "pyproject.toml", contents));
  const bool conda = environment.kind == EnvironmentKind::kConda;
  const std::string note =
      fmt::format("{} with {}{}", environment.text, *tool, conda ? "" : ", " + tools.python_version);
  const std::vector<std::string> variables = changed(
      request.variables,
      {.unset = {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH", "UV_PROJECT_ENVIRONMENT", "UV_PYTHON"}});
  const auto build = [&](const fs::path& attempt) -> Result<void> {
    const fs::path log = attempt / "log";
    for (const BuildStep& step :
         build_steps(environment.kind, *tool, tools, file.string(), (attempt / "env").string())) {
      const auto code = run(step, variables, file.parent_path(), log);
      if (!code) return make_error(code.error());
      if (*code == 0) continue;
      say_(last_lines(log));
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("environment {}: it cannot be built on node {}: {} ended with exit code {}, its "
                                    "output is above; correct the file, or install what is missing on the node",
                                    environment.text, request.node, *tool, *code));
    }
    return {};
  };
  auto prepared = share(environment_key(environment.kind, *tool, tools.python_version, contents), note, build);
  if (!prepared) return prepared;
  const std::string prefix = (prepared->folder / "env").string();
  prepared->change = conda ? change_for_conda(prefix) : change_for_venv(prefix);
  return prepared;
}

Result<PreparedEnvironment> EnvironmentStore::prepare_image(const EnvironmentRequest& request) {
  const std::string& text = request.environment.text;
  for (const char* program : {"skopeo", "umoci"}) {
    if (find_program(program, request.variables).empty()) {
      return make_error(ErrorCode::kNotFound, fmt::format("environment {0}: node {1} has no {2} to unpack images; run "
                                                          "`apt-get install {2}` there, or name a folder with the "
                                                          "unpacked files",
                                                          text, request.node, program));
    }
  }
  if (text.starts_with('/') && !has(text, "")) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("environment {}: node {} has no such file; put it there, or select the nodes that "
                                  "have it with --node or --label",
                                  text, request.node));
  }
  const std::string credentials = value_of(request.variables, "HOME") + "/.docker/config.json";
  std::string digest;
  std::string image;
  Error refused;
  for (const std::string& name : image_names(request.environment)) {
    auto words = skopeo_words("inspect", has(credentials, "") ? credentials : "", {"--format", "{{.Digest}}", name});
    const auto said = output_of(words, request.variables);
    if (!said && said.error().code == ErrorCode::kCancelled) return make_error(said.error());
    if (!said) {
      refused = said.error();
      continue;
    }
    for (const std::string& line : lines_in(*said)) {
      if (line.starts_with("sha256:")) digest = line;
    }
    image = name;
    break;
  }
  if (digest.empty()) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("environment {}: node {} cannot read the image: {}; correct the name, or put the "
                                  "credentials of the registry into ~/.docker/config.json there",
                                  text, request.node, refused.message));
  }
  const auto build = [&](const fs::path& attempt) -> Result<void> {
    const fs::path log = attempt / "log";
    const std::string layout = (attempt / "layout").string();
    auto unpack = std::vector<std::string>{"umoci", "unpack", "--image", layout + ":image", (attempt / "env").string()};
    if (::geteuid() != 0) unpack.insert(unpack.begin() + 2, "--rootless");
    for (const std::vector<std::string>& words :
         {skopeo_words("copy", has(credentials, "") ? credentials : "", {image, "oci:" + layout + ":image"}), unpack}) {
      const auto code = run({.words = words}, request.variables, attempt, log);
      if (!code) return make_error(code.error());
      if (*code == 0) continue;
      say_(last_lines(log));
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("environment {}: it cannot be unpacked on node {}: {} ended with exit code {}, its "
                                    "output is above",
                                    text, request.node, words.front(), *code));
    }
    std::error_code failed;
    fs::remove_all(layout, failed);
    return {};
  };
  auto prepared = share(environment_key(EnvironmentKind::kImage, "umoci", "", {{"", digest}}), text, build);
  if (!prepared) return prepared;
  const fs::path bundle = prepared->folder / "env";
  const auto config = read_file_limited(bundle / "config.json", kListBytesMax);
  prepared->root = bundle / "rootfs";
  prepared->folder.clear();
  prepared->change = change_for_root(config ? image_variables(*config) : std::vector<std::string>());
  return prepared;
}

Result<PreparedEnvironment> EnvironmentStore::share(const std::string& key, const std::string& note,
                                                    const std::function<Result<void>(const fs::path&)>& build) {
  VOLADOR_TRY(make_private_directory(folder_));
  const fs::path entry = folder_ / key;
  const fs::path lock_file = folder_ / (key + ".lock");
  if (const net::UniqueFd writable(::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)); !writable)
    return make_error(system_error("open", lock_file));
  std::optional<BootTime> waits_since;
  bool built = false;
  while (true) {
    if (is_cancelled()) return make_error(ErrorCode::kCancelled, "the job ends");
    net::UniqueFd lock = try_lock(lock_file, LOCK_EX);
    if (lock && !complete_mark(entry)) {
      VOLADOR_TRY(build_once(entry, note, build));
      built = true;
    }
    // Others may hold the lock between the exclusive and the shared lock.
    if (lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0) lock.reset();
    if (!lock) lock = try_lock(lock_file, LOCK_SH);
    if (const auto mark = lock ? complete_mark(entry) : std::nullopt) {
      PreparedEnvironment prepared;
      prepared.folder = mark->folder;
      prepared.used_ = entry / "used";
      prepared.lock_ = std::move(lock);
      set_modified(prepared.used_, now_ms());
      if (built || now_ms() - modified_ms(folder_ / "swept") > kRemovalEveryMs) remove_unused();
      return prepared;
    }
    lock.reset();
    const BootTime now = clock_.now();
    if (!waits_since) waits_since = now;
    if (*waits_since != BootTime::max() && now - *waits_since > kLockSilence) {
      say_(fmt::format("volador: waiting for another job that builds environment {}", note));
      waits_since = BootTime::max();
    }
    std::this_thread::sleep_for(kLockPause);
  }
}

Result<void> EnvironmentStore::build_once(const fs::path& entry, const std::string& note,
                                          const std::function<Result<void>(const fs::path&)>& build) {
  std::error_code failed;
  fs::remove_all(entry, failed);  // What a killed build has left.
  VOLADOR_TRY(make_private_directory(entry));
  std::string path = (entry / "XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) return make_error(system_error("create", entry));
  say_(fmt::format("volador: building environment {}", note));
  const BootTime began = clock_.now();
  if (auto done = build(path); !done) {
    fs::remove_all(entry, failed);
    return done;
  }
  fs::remove(fs::path(path) / "log", failed);
  const auto marked =
      write_file_atomic(entry / "complete",
                        fmt::format("{}\n{}\n{}\n", fs::path(path).filename().string(), disk_bytes(entry), note), 0600);
  if (!marked) return marked;
  say_(fmt::format("volador: the environment is built ({})", format_duration(clock_.now() - began)));
  return {};
}

Result<int> EnvironmentStore::run(const BuildStep& step, const std::vector<std::string>& variables,
                                  const fs::path& directory, const fs::path& output) {
  GroupSpawn spawn;
  spawn.open(STDIN_FILENO, "/dev/null", O_RDONLY);
  spawn.open(STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_APPEND, 0600);
  spawn.duplicate(STDOUT_FILENO, STDERR_FILENO);
  spawn.change_directory(directory);
  pid_t child = 0;
  int failed = ECANCELED;
  {
    const std::lock_guard lock(mutex_);
    if (!cancelled_) failed = spawn.start(step.words, changed(variables, {.set = step.variables}), child);
    if (failed == 0) pid_ = child;
  }
  if (is_cancelled() && failed != 0) return make_error(ErrorCode::kCancelled, "the job ends");
  if (failed != 0)
    return make_error(ErrorCode::kUnavailable, fmt::format("{}: {}", step.words.front(), std::strerror(failed)));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  {
    const std::lock_guard lock(mutex_);
    ::kill(-child, SIGKILL);  // What it left in its group.
    pid_ = 0;
  }
  if (is_cancelled()) return make_error(ErrorCode::kCancelled, "the job ends");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result<std::string> EnvironmentStore::output_of(const std::vector<std::string>& words,
                                                const std::vector<std::string>& variables) {
  const net::UniqueFd memory(::memfd_create("volador-output", MFD_CLOEXEC));
  if (!memory) return make_error(system_error("create", "memory for the output of a program"));
  const auto code = run({.words = words}, variables, "/", fmt::format("/proc/{}/fd/{}", ::getpid(), memory.get()));
  if (!code) return make_error(code.error());
  std::string text = read_descriptor(memory.get());
  if (*code == 0) return text;
  const std::vector<std::string> lines = lines_in(text);
  return make_error(ErrorCode::kUnavailable, fmt::format("{} ended with exit code {}: {}", words.front(), *code,
                                                         lines.empty() ? "it said nothing" : lines.back()));
}

BuildTools EnvironmentStore::find_tools(const EnvironmentRequest& request) {
  BuildTools tools;
  if (request.environment.kind == EnvironmentKind::kConda) {
    for (const char* name : {"micromamba", "mamba", "conda"}) {
      tools.conda = find_program(name, request.variables);
      if (!tools.conda.empty()) break;
    }
    return tools;
  }
  const std::vector<std::string> variables = changed(request.variables, {.unset = {"PYTHONHOME"}});
  const auto probed = output_of({"python3", "-c", std::string(kPythonProbe)}, variables);
  const std::vector<std::string> lines = probed ? lines_in(*probed) : std::vector<std::string>();
  if (lines.size() < 3) return tools;
  tools.python = lines[0];
  tools.python_version = lines[1];
  if (std::string uv = find_program("uv", variables); !uv.empty()) {
    tools.uv = {std::move(uv)};
  } else if (lines[2] == "True") {
    tools.uv = {tools.python, "-m", "uv"};
  }
  return tools;
}

void EnvironmentStore::remove_unused() {
  set_modified(folder_ / "swept", now_ms());
  std::error_code failed;
  std::set<std::string> keys;
  for (const auto& child : fs::directory_iterator(folder_, failed)) {
    if (child.is_directory(failed)) keys.insert(child.path().filename().string());
    if (child.path().extension() == ".lock") keys.insert(child.path().stem().string());
  }
  std::map<std::string, net::UniqueFd> locks;
  std::vector<StoredEnvironment> stored;
  for (const std::string& key : keys) {
    const fs::path entry = folder_ / key;
    net::UniqueFd lock = try_lock(folder_ / (key + ".lock"), LOCK_EX);
    const auto mark = complete_mark(entry);
    if (!lock && mark) set_modified(entry / "used", now_ms());  // A killed job does not note the end of its use.
    stored.push_back({.key = key,
                      .used_ms = modified_ms(entry / "used"),
                      .bytes = mark ? mark->bytes : 0,
                      .complete = mark.has_value(),
                      .in_use = !lock});
    locks[key] = std::move(lock);
  }
  const auto removed = environments_to_remove(std::move(stored), limits_, now_ms());
  std::erase_if(locks, [&](const auto& held) { return std::ranges::find(removed, held.first) == removed.end(); });
  for (const std::string& key : removed) {
    fs::remove(folder_ / key / "complete", failed);  // A killed removal leaves nothing that is taken as complete.
    fs::remove_all(folder_ / key, failed);
    fs::remove(folder_ / (key + ".lock"), failed);
  }
}

}  // namespace volador::jobs
