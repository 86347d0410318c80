#include "volador/local_cluster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "head/shell/head_process.h"
#include "runtime/access_file.h"
#include "runtime/log.h"
#include "runtime/net/fd_passing.h"
#include "runtime/stop_signal.h"
#include "volador/embedding.h"
#include "volador/program.h"
#include "worker/hosts/host_sockets.h"
#include "worker/shell/worker_process.h"

namespace volador {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kClusterName = "private";
constexpr std::string_view kNodeName = "local";

// Creates the private cluster's folder in the user's run folder; the path is short enough for socket names.
Result<fs::path> make_home() {
  auto paths = Paths::from(PathEnvironment::of_this_process());
  if (!paths) return make_error(std::move(paths).error());
  VOLADOR_TRY(make_run_directory(paths->run(), getuid()));
  std::string path = (paths->run() / "p-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) return make_error(file_error("make a folder in", paths->run(), errno));
  return fs::path(path);
}

// memory_run: of this cluster only; may be empty.
Result<Paths> paths_of(const fs::path& home, const fs::path& memory_run) {
  PathEnvironment environment = PathEnvironment::of_this_process();
  environment.volador_home = home;
  environment.memory_run = memory_run;
  return Paths::from(environment);
}

// Folder for the sockets of the cluster's hosts; empty: its home.
fs::path memory_run_of(const fs::path& home) {
  const fs::path all = PathEnvironment::of_this_process().memory_run;
  return all.empty() ? all : fs::path(fmt::format("{}-{}", all.string(), home.filename().string()));
}

}  // namespace

Result<std::unique_ptr<LocalCluster>> LocalCluster::start(const LocalClusterOptions& options,
                                                          const Embedding* embedding) {
  auto home = make_home();
  if (!home) return make_error(std::move(home).error());
  auto paths = paths_of(*home, memory_run_of(*home));
  if (!paths) return make_error(std::move(paths).error());
  auto pair = net::seqpacket_pair();
  if (!pair) return make_error(std::move(pair).error());
  std::unique_ptr<LocalCluster> cluster(new LocalCluster(*paths));

  // Allocate everything before the fork.
  const std::vector<std::string> arguments = command_line(embedding);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("VOLADOR_")) variables.emplace_back(*entry);
  }
  const int control = fcntl(pair->second.get(), F_DUPFD, 3);  // Survives exec.
  if (control < 0)
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("no descriptor for a private cluster: {}", std::strerror(errno)));
  if (embedding != nullptr) {
    for (const auto& [name, value] : embedding->env) variables.push_back(fmt::format("{}={}", name, value));
  }
  variables.push_back("VOLADOR_ROLE=local");
  variables.push_back(fmt::format("VOLADOR_CONTROL_FD={}", control));
  variables.push_back(fmt::format("VOLADOR_HOME={}", home->string()));
  if (!paths->memory_run().empty())
    variables.push_back(fmt::format("VOLADOR_LOCAL_SOCKETS={}", paths->memory_run().string()));
  if (options.num_cpus) variables.push_back(fmt::format("VOLADOR_LOCAL_CPUS={}", *options.num_cpus));
  if (options.num_gpus) variables.push_back(fmt::format("VOLADOR_LOCAL_GPUS={}", *options.num_gpus));
  variables.push_back(fmt::format("VOLADOR_LOCAL_MEMORY_THRESHOLD={}", options.memory_threshold));
  if (options.object_store_memory)
    variables.push_back(fmt::format("VOLADOR_LOCAL_STORE={}", *options.object_store_memory));
  if (options.object_spill_limit)
    variables.push_back(fmt::format("VOLADOR_LOCAL_SPILL={}", *options.object_spill_limit));
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);

  cluster->pid_ = fork();
  if (cluster->pid_ == 0) {
    setpgid(0, 0);  // Ctrl-C is left to the driver.
    execve("/proc/self/exe", argv.data(), envp.data());
    _exit(127);
  }
  close(control);
  if (cluster->pid_ < 0)
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("cannot start a private cluster: fork: {}", std::strerror(errno)));
  pair->second.reset();
  cluster->control_ = std::move(pair->first);

  pollfd waiting{cluster->control_.get(), POLLIN, 0};
  constexpr int kPatienceMs = 60'000;
  if (poll(&waiting, 1, kPatienceMs) != 1) {
    return make_error(
        ErrorCode::kUnavailable,
        "a private cluster did not come up within 60 s: does the program call volador::init() first in main?");
  }
  auto ready = net::recv_message(cluster->control_.get());
  if (!ready) {
    return make_error(ErrorCode::kUnavailable,
                      "a private cluster ended while it started; its reason stands above on stderr. Does the program "
                      "call volador::init() first in main?");
  }
  return cluster;
}

LocalCluster::~LocalCluster() {
  control_.reset();
  if (pid_ > 0) {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  std::error_code ignored;
  fs::remove_all(paths_.home(), ignored);
  worker::remove_socket_folders(paths_);
}

void run_local_cluster(net::UniqueFd control) {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const fs::path home = environment("VOLADOR_HOME");
  const auto paths = paths_of(home, environment("VOLADOR_LOCAL_SOCKETS"));
  if (!paths) _exit(2);
  const std::string cpus = environment("VOLADOR_LOCAL_CPUS");
  const std::string gpus = environment("VOLADOR_LOCAL_GPUS");
  const std::string memory_threshold = environment("VOLADOR_LOCAL_MEMORY_THRESHOLD");
  const std::string store = environment("VOLADOR_LOCAL_STORE");
  const std::string spill = environment("VOLADOR_LOCAL_SPILL");
  for (const char* name : {"VOLADOR_LOCAL_CPUS", "VOLADOR_LOCAL_GPUS", "VOLADOR_LOCAL_MEMORY_THRESHOLD",
                           "VOLADOR_LOCAL_STORE", "VOLADOR_LOCAL_SPILL", "VOLADOR_LOCAL_SOCKETS"})
    unsetenv(name);

  int ready_pipe[2];
  int alive_pipe[2];  // End-of-file on it ends the head with this process.
  if (pipe2(ready_pipe, O_CLOEXEC) != 0 || pipe2(alive_pipe, O_CLOEXEC) != 0) _exit(2);
  const pid_t head = fork();
  if (head == 0) {
    close(ready_pipe[0]);
    close(alive_pipe[1]);
    control.reset();
    const HeadPaths files = paths->cluster(kClusterName).head();
    if (make_private_directory(files.directory)) log::configure({.level = log::Level::kInfo, .file = files.log()});
    head::HeadOptions options;
    options.paths = *paths;
    options.cluster = kClusterName;
    options.keep_experiments = false;
    const auto asked = StopSignal::create({SIGTERM});
    if (!asked) _exit(2);
    const auto served =
        head::run_private_head(std::move(options), alive_pipe[0], *asked, [fd = ready_pipe[1]](const head::HeadReady&) {
          const char byte = 'r';
          if (write(fd, &byte, 1) != 1) _exit(2);
          close(fd);
        });
    if (!served) std::fprintf(stderr, "error: %s\n", to_string(served.error()).c_str());
    log::drain();
    _exit(served ? 0 : 1);
  }
  close(ready_pipe[1]);
  close(alive_pipe[0]);
  char byte = 0;
  int code = 1;
  if (read(ready_pipe[0], &byte, 1) == 1) {
    const auto access = load_access(*paths, kClusterName);
    if (access) {
      worker::WorkerOptions options;
      options.paths = *paths;
      options.cluster_name = kClusterName;
      options.node_name = kNodeName;
      options.head_address = access->address;
      options.token = access->token;
      if (!cpus.empty()) options.resources.cpus = std::atof(cpus.c_str());
      if (!gpus.empty()) options.resources.gpus = std::atoi(gpus.c_str());
      if (!memory_threshold.empty()) options.memory_threshold = std::atof(memory_threshold.c_str());
      if (!store.empty()) options.resources.object_store_memory = std::atoll(store.c_str());
      if (!spill.empty()) options.resources.object_spill_limit = std::atoll(spill.c_str());
      options.parent_fd = control.get();
      options.cgroups = false;  // Nothing would remove the groups of a killed program.
      options.on_ready = [&](const std::string&, const std::string&) {
        (void)net::send_message(control.get(), "ready");
      };
      code = static_cast<int>(worker::run_worker(std::move(options)));
    } else {
      std::fprintf(stderr, "error: %s\n", to_string(access.error()).c_str());
    }
  }
  close(alive_pipe[1]);
  int status = 0;
  waitpid(head, &status, 0);
  log::drain();
  std::error_code ignored;
  fs::remove_all(home, ignored);
  worker::remove_socket_folders(*paths);
  _exit(code);
}

}  // namespace volador
