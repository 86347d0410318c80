#include "cli/commands/run_trial_command.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "experiments/config/checkpoint_target.h"
#include "experiments/launch/trial_launch.h"
#include "runtime/clock.h"
#include "runtime/control/cluster_api.h"
#include "runtime/files/durable_file.h"
#include "runtime/net/unique_fd.h"
#include "runtime/paths.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/storage/storage.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kAgainFirst{100}, kAgainMax{5000};
constexpr milliseconds kHeadAwayMax{600'000};
constexpr int kPortDefault = 29400;
constexpr size_t kScriptBytesMax = 1 << 20;

std::string job_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// A number that the job or the head has set.
Result<int64_t> number_variable(const char* name) {
  const std::string text = job_variable(name);
  int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: expected a number, got \"{}\"; this command runs in jobs of experiments, which "
                                  "`volador experiment create` submits",
                                  name, text));
  }
  return number;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// A port that no other process of this machine has now; a default one if there is no socket.
int free_port() {
  const net::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!fd || ::bind(fd.get(), any, size) != 0 || ::getsockname(fd.get(), any, &size) != 0) return kPortDefault;
  return ntohs(address.sin_port);
}

bool imports_determined(std::string_view text) {
  for (const std::string_view place : {"import determined", "from determined", "-m determined"})
    if (text.find(place) != std::string_view::npos) return true;
  return false;
}

// Whether the entrypoint, or a script of it in the folder of the code, imports the package determined.
bool imports_determined(const v1::StartTrialRunReply& reply, const fs::path& directory) {
  for (const std::string& part : reply.command()) {
    if (imports_determined(part)) return true;
    std::istringstream words(part);
    for (std::string word; words >> word;) {
      if (!word.ends_with(".py")) continue;
      const auto text = read_file_limited(directory / word, kScriptBytesMax);
      if (text && imports_determined(*text)) return true;
    }
  }
  return false;
}

// Asks the job's Python where the package's shims are, while the head is asked.
class ShimSearch {
 public:
  ShimSearch() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    out_ = net::UniqueFd(ends[0]);
    const net::UniqueFd in(ends[1]);
    // Without the set-up of site packages Python starts in a quarter of the time; it is made up for where that does not
    // find the package, such as one whose folder a .pth file names.
    const char* const code =
        "import os, site, sys\n"
        "def shims(folder):\n"
        "    folder = os.path.join(folder, 'compat', 'shims')\n"
        "    if os.path.isdir(folder):\n"
        "        print(os.path.abspath(folder), end='')\n"
        "        sys.exit()\n"
        "home = os.path.dirname(os.path.dirname(sys.executable))\n"
        "own = 'lib/python%d.%d/site-packages' % sys.version_info[:2]\n"
        "venv = os.path.exists(os.path.join(home, 'pyvenv.cfg'))\n"
        "for path in sys.path + ([os.path.join(home, own)] if venv else [site.getusersitepackages(), "
        "*site.getsitepackages()]):\n"
        "    shims(os.path.join(path, 'volador'))\n"
        "site.main()\n"
        "import importlib.util\n"
        "spec = importlib.util.find_spec('volador')\n"
        "for path in (spec.submodule_search_locations or []) if spec else []:\n"
        "    shims(path)\n";
    char* const words[] = {const_cast<char*>("python3"), const_cast<char*>("-S"), const_cast<char*>("-c"),
                           const_cast<char*>(code), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (::posix_spawnp(&pid_, "python3", &actions, nullptr, words, environ) != 0) pid_ = 0;
    ::posix_spawn_file_actions_destroy(&actions);
  }
  ShimSearch(const ShimSearch&) = delete;
  ShimSearch& operator=(const ShimSearch&) = delete;
  ~ShimSearch() {
    if (pid_ != 0) (void)result();
  }

  // Empty: the package is not installed.
  std::string result() {
    if (pid_ == 0) return {};
    std::string text;
    char piece[512];
    for (;;) {
      const ssize_t got = ::read(out_.get(), piece, sizeof piece);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      text.append(piece, static_cast<size_t>(got));
    }
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status == 0 ? text : std::string();
  }

 private:
  pid_t pid_ = 0;  // 0: it has ended, or there is no Python.
  net::UniqueFd out_;
};

// For this user only: the files have secrets.
Result<void> write_info(const fs::path& folder, const std::map<std::string, std::string>& files) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) return make_error(file_error("make", folder, code.value()));
  fs::permissions(folder, fs::perms::owner_all, code);
  for (const auto& [name, content] : files) {
    auto file = FileHandle::open(folder / name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!file) return make_error(file.error());
    VOLADOR_TRY(write_all(file->get(), content, folder / name));
  }
  return {};
}

// Returns only if the program cannot be started; the exit codes are those of shells.
Outcome replaced_by(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  const int error = errno;
  return fail(static_cast<ExitCode>(error == ENOENT ? 127 : 126),
              Error{ErrorCode::kNotFound, fmt::format("entrypoint: {} cannot be started on node {}: {}; a list names a "
                                                      "program and its arguments, one text is a command line of bash",
                                                      command.front(), job_variable("VOLADOR_JOB_NODE"),
                                                      std::generic_category().message(error))});
}

// Deletes a folder of the storage, complete or not. Succeeds if it is absent.
Result<void> delete_stored(storage::Storage& storage, const std::string& key) {
  VOLADOR_TRY(storage::check_key("checkpoint", key));
  if (storage.url().kind != storage::StorageKind::kFolder) return storage.remove(key);
  const fs::path folder = fs::path(storage.url().prefix) / key;
  std::error_code code;
  fs::remove_all(folder, code);  // Its empty folders too.
  if (code) return make_error(file_error("delete", folder, code.value()));
  return {};
}

Result<void> delete_checkpoint(storage::Storage& storage, const std::string& id) {
  if (id.find('/') == std::string::npos) return delete_stored(storage, id);
  return make_error(ErrorCode::kInvalidArgument, fmt::format("checkpoint \"{}\": expected an id without slashes", id));
}

bool is_away(const Error& error) { return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimeout; }

}  // namespace

tl::expected<void, Failure> NodeCommand::ask(const Context& context, const char* operation,
                                             const google::protobuf::Message& request,
                                             google::protobuf::Message& reply) const {
  const auto end = std::chrono::steady_clock::now() + kHeadAwayMax;
  milliseconds pause = kAgainFirst;
  bool told = false;
  std::unique_ptr<control::ClusterApi> api;
  for (;;) {
    Failure failure;
    if (!api) {
      auto connected = connect(context);
      if (connected) {
        api = std::move(*connected);
      } else {
        failure = std::move(connected.error());
      }
    }
    if (api) {
      auto called = api->call(operation, request, reply);
      if (called) return {};
      failure = fail(std::move(called.error())).value();
    }
    if (!is_away(failure.error) || std::chrono::steady_clock::now() + pause > end)
      return tl::unexpected(std::move(failure));
    if (!std::exchange(told, true)) {
      context.terminal.note(
          context.terminal.fill("the head does not answer and is asked again for up to {} minutes: {}",
                                kHeadAwayMax / std::chrono::minutes(1), failure.error.message));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kAgainMax);
  }
}

CLI::App* RunTrialCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("run-trial", "")->group("");  // Not in the help.
  declare_connection(*app, "60s");
  return app;
}

Outcome RunTrialCommand::run(const Context& context) {
  v1::StartTrialRunRequest request;
  experiments::TrialNode node;
  for (const char* name : {"VOLADOR_ADDRESS", "VOLADOR_TOKEN", "VOLADOR_JOB_DIR"}) {
    if (job_variable(name).empty())
      return usage_error(
          fmt::format("experiment run-trial: {} is not set; it runs in jobs of experiments, which `volador experiment "
                      "create` submits",
                      name));
  }
  const auto trial = number_variable("VOLADOR_TRIAL"), number = number_variable("VOLADOR_TRIAL_RUN"),
             rank = number_variable("VOLADOR_JOB_RANK");
  for (const auto* each : {&trial, &number, &rank})
    if (!*each) return usage_error("experiment run-trial: " + each->error().message);
  node.hosts = split(job_variable("VOLADOR_JOB_HOSTS"), ',');
  if (node.hosts.empty()) node.hosts.emplace_back("127.0.0.1");
  request.set_trial(*trial);
  request.set_run(*number);
  request.set_rank(static_cast<int32_t>(*rank));
  request.set_node(job_variable("VOLADOR_JOB_NODE"));
  request.set_nodes(static_cast<int32_t>(node.hosts.size()));

  ShimSearch shims;
  v1::StartTrialRunReply reply;
  if (auto asked = ask(context, "Experiments/StartTrialRun", request, reply); !asked) {
    if (asked.error().error.code != ErrorCode::kCancelled) return asked;
    context.terminal.note(
        context.terminal.fill("run {} of trial {} does not start: {}", *number, *trial, asked.error().error.message));
    return {};
  }

  std::error_code failed;
  const fs::path directory = fs::current_path(failed);
  const auto port = number_variable("MASTER_PORT");
  node.address = job_variable("VOLADOR_ADDRESS");
  node.token = job_variable("VOLADOR_TOKEN");
  node.job = job_variable("VOLADOR_JOB_ID");
  node.name = request.node();
  node.rank = request.rank();
  node.chief = job_variable("MASTER_ADDR");
  node.port = node.hosts.size() == 1 ? free_port() : port ? static_cast<int>(*port) : kPortDefault;
  node.directory = directory.string();
  node.info_folder = (fs::path(job_variable("VOLADOR_JOB_DIR")) / "trial").string();
  node.shims = shims.result();
  node.python_path = job_variable("PYTHONPATH");
  node.visible_gpus = job_variable("CUDA_VISIBLE_DEVICES");
  node.has_startup_hook = fs::exists(directory / "startup-hook.sh", failed);
  const auto launch = experiments::make_trial_launch(reply, node);
  if (!launch) return fail_here(launch.error());
  if (!reply.trial_class().empty() && node.shims.empty() && !node.has_startup_hook) {
    return fail_here(Error{
        ErrorCode::kNotFound,
        context.terminal.fill("entrypoint: {} is a trial class, and the Python package volador, which runs it, is not "
                              "installed for python3 on node {}; install it there, or in the image or environment of "
                              "the experiment",
                              reply.trial_class(), node.name)});
  }
  if (node.shims.empty() && !node.has_startup_hook && imports_determined(reply, directory)) {
    context.terminal.note(context.terminal.fill(
        "python3 on node {} lacks Volador's Python package: `import determined` finds only what the program brings",
        node.name));
  }
  if (auto written = write_info(node.info_folder, launch->files); !written) return fail_here(written.error());
  for (const std::string& name : launch->left_out) {
    context.terminal.note(context.terminal.fill(
        "{} is too long for a variable and is left out; the files in {} have it", name, node.info_folder));
  }
  for (const auto& [name, value] : launch->env) ::setenv(name.c_str(), value.c_str(), 1);
  return replaced_by(launch->command);
}

CLI::App* RunGarbageCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("run-gc", "")->group("");  // Not in the help.
  declare_connection(*app, "60s");
  return app;
}

Outcome RunGarbageCommand::run(const Context& context) {
  const auto experiment = number_variable("VOLADOR_EXPERIMENT");
  if (!experiment) return usage_error("experiment run-gc: " + experiment.error().message);
  v1::GetGarbageRequest request;
  request.set_experiment(*experiment);
  v1::GetGarbageReply garbage;
  if (auto asked = ask(context, "Experiments/GetGarbage", request, garbage); !asked) return asked;

  v1::ReportGarbageRequest report;
  report.set_experiment(*experiment);
  auto opened = [&]() -> Result<storage::Storage> {
    auto target = experiments::checkpoint_target(garbage.storage());
    if (!target) return make_error(target.error());
    std::error_code code;
    // A file system that is not mounted here must not look like one without checkpoints.
    if (target->url.kind == storage::StorageKind::kFolder && !fs::is_directory(target->url.prefix, code)) {
      return make_error(
          ErrorCode::kNotFound,
          fmt::format("{}: there is no such folder on node {}, where the checkpoints of experiment {} are "
                      "to be deleted; mount it there",
                      target->url.prefix, job_variable("VOLADOR_JOB_NODE"), *experiment));
    }
    return storage::Storage::open(*target);
  }();
  for (const std::string& id : garbage.ids()) {
    const auto deleted = opened ? delete_checkpoint(*opened, id) : Result<void>(make_error(opened.error()));
    (deleted ? report.add_deleted() : report.add_failed())->assign(id);
    if (!deleted && report.error().empty()) report.set_error(deleted.error().message);
  }
  // The trials' event files. Without checkpoints the storage may never have been used.
  if (garbage.whole() && (opened || garbage.ids_size() > 0)) {
    const auto deleted = opened ? delete_stored(*opened, fmt::format("tensorboard/experiment/{}", *experiment))
                                : Result<void>(make_error(opened.error()));
    if (!deleted && report.error().empty()) report.set_error(deleted.error().message);
  }
  v1::ReportGarbageReply done;
  if (auto asked = ask(context, "Experiments/ReportGarbage", report, done); !asked) return asked;
  context.terminal.print(context.terminal.fill("experiment {}: {} of {} checkpoints are deleted", *experiment,
                                               report.deleted_size(), garbage.ids_size()) +
                         "\n");
  if (!report.error().empty()) return fail_here(Error{ErrorCode::kUnavailable, report.error()});
  return {};
}

}  // namespace volador::cli
