#include "jobs/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>

#include "jobs/environment/environment_store.h"
#include "jobs/sandbox/sandbox.h"
#include "runtime/actor/self.h"
#include "runtime/clock.h"
#include "runtime/files/directory_archive.h"
#include "runtime/net/unique_fd.h"
#include "runtime/paths.h"
#include "runtime/result.h"

namespace volador::jobs {
namespace {

namespace fs = std::filesystem;

constexpr int kStatusFd = 9;  // In bubblewrap.
constexpr const char* kSystemFolder = "/sys";

[[noreturn]] void refuse(ErrorCode code, std::string message) { throw Exception(Error{code, std::move(message)}); }

// The environment of this process with the job's variables.
std::vector<std::string> environment_of(const std::map<std::string, std::string>& own) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view pair = *entry;
    if (const size_t equals = pair.find('='); equals != std::string_view::npos)
      merged.emplace(pair.substr(0, equals), pair.substr(equals + 1));
  }
  for (const char* internal : {"VOLADOR_FILES", "VOLADOR_HOST_ID"}) merged.erase(internal);
  merged.emplace("PYTHONUNBUFFERED", "1");
  for (const auto& [name, value] : own) merged[name] = value;
  std::vector<std::string> out;
  out.reserve(merged.size());
  for (const auto& [name, value] : merged) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

void say(const std::string& text) {
  const std::string line = text + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

// The store of environments of this user on this node, in the folder of caches.
std::unique_ptr<EnvironmentStore> open_environments() {
  static const SystemClock clock;
  const auto paths = Paths::from(PathEnvironment::of_this_process());
  if (!paths) refuse(paths.error().code, paths.error().message);
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const auto limits = environment_limits(variable("VOLADOR_ENVIRONMENT_DAYS"), variable("VOLADOR_ENVIRONMENT_SIZE"));
  if (!limits) refuse(limits.error().code, limits.error().message);
  return std::make_unique<EnvironmentStore>(paths->cache() / "environments", *limits, clock, say);
}

// Adds the entries of another root file system, without the targets of the request's files. `listed`: folders whose
// entries are added one by one, because the job has files in them that the root lacks.
void add_root(const fs::path& root, const fs::path& below, const std::vector<std::string>& listed,
              SandboxRequest& request) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(root / below, failed)) {
    const fs::path inside = below / entry.path().filename();
    const std::string path = "/" + inside.string();
    const bool is_link = entry.is_symlink(failed);
    if (path == kSystemFolder || request.files.contains(path)) continue;
    if (!is_link && std::ranges::find(listed, path) != listed.end()) {
      add_root(root, inside, listed, request);
      continue;
    }
    request.entries.push_back({.path = path,
                               .symlink_target = is_link ? fs::read_symlink(entry.path(), failed).string() : "",
                               .source = entry.path().string()});
  }
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  return path.string().starts_with(folder.string() + "/");
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

struct Command::Impl {
  CommandStart start;
  fs::path folder;     // The job's folder on this node.
  fs::path directory;  // Working directory.
  std::vector<std::string> environment;
  std::unique_ptr<EnvironmentStore> environments;  // Null: the job uses the environment of the node.
  PreparedEnvironment prepared;

  std::mutex mutex;
  pid_t pid = 0;                 // Leads the process group of the setup or the command; 0: none runs.
  bool ending = false;           // No further process is started.
  net::UniqueFd sandbox_status;  // What bubblewrap reports of the running process; invalid: it is not isolated.
  std::thread waiter;

  void prepare();
  // The words of bubblewrap around the command, for an isolated job.
  Result<std::vector<std::string>> sandboxed(const std::vector<std::string>& words) const;
  void terminate();
  void run();
  // Prepares the job's environment for the setup and the command. Returns an exit code; 0: it is ready.
  int use_environment();
  // Runs a program to its end. Returns its exit code.
  int run_one(std::vector<std::string> words);
};

void Command::Impl::prepare() {
  const char* archive = std::getenv("VOLADOR_FILES");
  folder = self().scratch_directory();
  const fs::path made = folder / "job";
  fs::create_directories(made);
  for (const auto& [name, content] : start.files) {
    std::ofstream out(made / name, std::ios::binary);
    out << content;
    if (!out.flush()) refuse(ErrorCode::kUnavailable, fmt::format("{}: cannot be written", (made / name).string()));
  }
  directory = folder / "code";
  if (archive != nullptr && *archive != '\0') {
    if (const auto unpacked = unpack_archive(archive, directory, {}, Durability::kProcess); !unpacked)
      refuse(unpacked.error().code, "the code folder cannot be unpacked: " + unpacked.error().message);
  } else if (start.directory.empty()) {
    fs::create_directories(directory);
  }
  if (!start.directory.empty()) {
    directory = fs::path(start.directory).is_absolute() ? fs::path(start.directory) : directory / start.directory;
    if (!fs::is_directory(directory)) {
      refuse(ErrorCode::kInvalidArgument,
             fmt::format("directory: {} is no folder on node {}; create it there, or submit the code with --code",
                         directory.string(), self().node_name));
    }
  }
  std::map<std::string, std::string> env = start.env;
  if (!start.output.empty()) {
    std::error_code failed;
    fs::create_directories(start.output, failed);
    if (failed) {
      refuse(ErrorCode::kInvalidArgument, fmt::format("output: {} cannot be created on node {}: {}", start.output,
                                                      self().node_name, failed.message()));
    }
    env["VOLADOR_OUTPUT_DIR"] = start.output;
  }
  for (auto& [name, value] : env) {
    if (const size_t at = value.find(kJobDirectory); at != std::string::npos)
      value.replace(at, kJobDirectory.size(), made.string());
  }
  env["VOLADOR_JOB_ID"] = start.job;
  env["VOLADOR_JOB_DIR"] = made.string();
  env["VOLADOR_JOB_NODE"] = self().node_name;
  environment = environment_of(env);
  if (!start.environment.empty() && start.environment != "host") environments = open_environments();
}

int Command::Impl::use_environment() {
  if (!environments) return 0;
  auto made = [&]() -> Result<PreparedEnvironment> {
    const auto parsed = parse_environment(start.environment);
    if (!parsed) return make_error(parsed.error());
    const fs::path code = folder / "code";
    return environments->prepare({.environment = *parsed,
                                  .base = fs::exists(code) ? code : directory,
                                  .variables = environment,
                                  .node = self().node_name});
  }();
  if (!made) {
    if (made.error().code != ErrorCode::kCancelled) say("volador: " + made.error().message);
    return kExitSetupFailed;
  }
  prepared = std::move(*made);
  if (!prepared.root.empty()) {
    start.isolated = true;
    const fs::path home = folder / "home";  // The user's may be missing in that root, and is read-only otherwise.
    fs::create_directories(home);
    prepared.change.set["HOME"] = home.string();
  }
  // The job's own variables are stronger than those of the environment.
  for (const auto& [name, value] : start.env) {
    prepared.change.set.erase(name);
    std::erase(prepared.change.unset, name);
  }
  environment = changed(environment, prepared.change);
  return 0;
}

Result<std::vector<std::string>> Command::Impl::sandboxed(const std::vector<std::string>& words) const {
  SandboxRequest request;
  request.command = words;
  if (prepared.root.empty()) {
    for (const auto& entry : fs::directory_iterator("/")) {
      std::error_code failed;
      if (entry.path() == "/run") continue;  // Sockets of other programs.
      request.entries.push_back(
          {.path = entry.path(),
           .symlink_target = entry.is_symlink(failed) ? fs::read_symlink(entry.path()).string() : ""});
    }
  }
  // The tokens and logs of the cluster, in the folder of Volador above the job's, are not for jobs.
  const size_t home_end = prepared.root.empty() ? folder.string().rfind("/clusters/") : std::string::npos;
  if (home_end != std::string::npos) {
    const fs::path home = folder.string().substr(0, home_end);
    const fs::path hidden = folder / "hidden";
    fs::create_directories(hidden / folder.lexically_relative(home));
    if (is_inside(prepared.folder, home)) fs::create_directories(hidden / prepared.folder.lexically_relative(home));
    request.mounts.push_back({.source = hidden, .target = home, .read_only = true});
    for (const fs::path& hides : {home, fs::path("/tmp"), fs::path("/run"), fs::path("/dev")}) {
      if (!is_inside(prepared.folder, hides)) continue;
      request.mounts.push_back({.source = prepared.folder, .target = prepared.folder, .read_only = true});
      break;
    }
  }
  request.mounts.push_back({.source = folder, .target = folder});
  if (!start.output.empty()) request.mounts.push_back({.source = start.output, .target = start.output});
  for (const std::string& text : start.mounts) {
    auto mount = parse_mount(text);
    if (!mount) return make_error(mount.error());
    std::error_code failed;
    if (!fs::exists(mount->source, failed)) {
      return make_error(ErrorCode::kNotFound, fmt::format("mount {}: node {} has no {}; create it there", text,
                                                          self().node_name, mount->source));
    }
    request.mounts.push_back(std::move(*mount));
  }
  request.working_directory = directory;
  request.hostname = fmt::format("{}-{}", start.job, start.rank);
  if (start.shm_bytes > 0) request.shm_bytes = start.shm_bytes;
  const std::vector<int>& gpus = self().gpus;
  request.gpus = gpus;
  if (::geteuid() != 0) {
    request.new_user = true;
  } else if (prepared.root.empty()) {  // A root of its own may lack setpriv; bubblewrap drops the capabilities then.
    request.user = SandboxUser{.uid = 0, .gid = ::getegid()};
  }
  request.status_fd = kStatusFd;
  if (!prepared.root.empty()) {
    // Names of hosts are resolved as on the node.
    for (const char* file : {"/etc/hosts", "/etc/resolv.conf"}) {
      if (fs::exists(file)) request.files[file] = file;
    }
    const auto has = [&](const std::string& path) {
      const auto status = fs::symlink_status(prepared.root / path.substr(1));
      return fs::exists(status) && !(request.files.contains(path) && fs::is_symlink(status));
    };
    add_root(prepared.root, {}, folders_to_list(request, has), request);
    request.entries.push_back({.path = kSystemFolder});  // Programs read the topology of GPUs there.
  }
  VOLADOR_TRY(check_targets(request));
  return bwrap_command(request);
}

// Asks the running process to end.
void Command::Impl::terminate() {
  if (pid <= 0) return;
  if (!sandbox_status) {
    ::kill(-pid, start.stop_signal);
    return;
  }
  // bubblewrap passes no signal on: the command is the child of the first process in the namespace.
  std::array<char, 512> text{};
  const ssize_t got = ::read(sandbox_status.get(), text.data(), text.size() - 1);
  const char* at = got > 0 ? std::strstr(text.data(), "\"child-pid\":") : nullptr;
  const int first = at == nullptr ? 0 : std::atoi(at + std::strlen("\"child-pid\":"));
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", first));
  bool any = false;
  for (pid_t child = 0; children >> child; any = true) {
    if (::kill(-child, start.stop_signal) != 0) ::kill(child, start.stop_signal);
  }
  if (!any) ::kill(pid, start.stop_signal);
}

int Command::Impl::run_one(std::vector<std::string> words) {
  const std::string program = words.front();
  net::UniqueFd status_end;
  if (start.isolated) {
    auto wrapped = sandboxed(words);
    if (!wrapped) {
      say("volador: " + wrapped.error().message);
      return kExitCannotRun;
    }
    words = std::move(*wrapped);
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0) {
      const std::lock_guard lock(mutex);
      sandbox_status.reset(ends[0]);
      status_end.reset(ends[1]);
    }
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  if (status_end) posix_spawn_file_actions_adddup2(&actions, status_end.get(), kStatusFd);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const std::string file = find_program(words.front(), environment);  // In the job's PATH, not in this process'.
  const std::vector<char*> argv = pointers_to(words);
  const std::vector<char*> envp = pointers_to(environment);
  pid_t child = 0;
  int failed = 0;
  {
    const std::lock_guard lock(mutex);
    if (!ending) {
      failed =
          file.empty() ? ENOENT : ::posix_spawn(&child, file.c_str(), &actions, &attributes, argv.data(), envp.data());
      if (failed == 0) pid = child;
    }
  }
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    if (start.isolated && failed == ENOENT) {
      say(fmt::format(
          "volador: an isolated job needs bubblewrap, which node {} does not have: apt-get install bubblewrap "
          "there, or submit the job without --isolated and mounts",
          self().node_name));
      return kExitCannotRun;
    }
    say(fmt::format("volador: {}: {} (node {}, working directory {})", program, std::strerror(failed), self().node_name,
                    directory.string()));
    return failed == ENOENT ? kExitNotFound : kExitCannotRun;
  }
  if (child == 0) return 128 + SIGTERM;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  {
    const std::lock_guard lock(mutex);
    ::kill(-child, SIGKILL);  // What it left in its group; the worker ends what left the group.
    pid = 0;
    sandbox_status.reset();
  }
  return code_of(status);
}

void Command::Impl::run() {
  int code = use_environment();
  if (code == 0 && !start.setup.empty()) {
    code = run_one({"bash", "-c", start.setup});
    if (code != 0) {
      const std::lock_guard lock(mutex);
      if (!ending) say(fmt::format("volador: the setup ended with exit code {}; the command does not run", code));
    }
  }
  if (code == 0 && start.command.empty()) return;
  if (code == 0) code = run_one(start.command);
  prepared = {};
  std::fflush(stdout);
  std::fflush(stderr);
  ::_exit(code);
}

Command::Command(CommandStart start) : impl_(std::make_unique<Impl>()) {
  // The worker sends SIGTERM at half of the graceful time; the command has all of it.
  std::signal(SIGTERM, SIG_IGN);
  impl_->start = std::move(start);
  impl_->prepare();
  impl_->waiter = std::thread([impl = impl_.get()] { impl->run(); });
}

Command::~Command() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ending = true;
    if (impl_->environments) impl_->environments->cancel();
    impl_->terminate();
  }
  impl_->waiter.join();
}

int32_t Command::pid() {
  const std::lock_guard lock(impl_->mutex);
  return impl_->pid;
}

std::string command_class() { return std::string(type_name<Command>()); }

std::string command_arguments(const CommandStart& start) {
  using Constructor = registration::Constructor<Command, CommandStart>;
  (void)Constructor::enlisted;
  return to_bytes<uint64_t, CommandStart>(Constructor::id(), start);
}

}  // namespace volador::jobs
