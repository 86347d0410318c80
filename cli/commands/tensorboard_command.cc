#include "cli/commands/tensorboard_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/board_folder.h"
#include "cli/browser.h"
#include "cli/experiment_calls.h"
#include "cli/idle_relay.h"
#include "cli/job_forward.h"
#include "cli/render/job_view.h"
#include "cli/render/table.h"
#include "cli/trial_output.h"
#include "jobs/job_client.h"
#include "jobs/job_output.h"
#include "runtime/control/cluster_api.h"
#include "runtime/net/loopback_socket.h"
#include "runtime/protocol/volador/v1/tensorboards.pb.h"
#include "runtime/quantities.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kUpdateEvery = 10s;
constexpr auto kServerLookEvery = 1s;
constexpr auto kGraceOfServer = 3s;  // From SIGTERM to SIGKILL.
constexpr int kShownLines = 20;      // The last ones of a job that failed.

std::string node_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// "7,9".
std::vector<int64_t> ids_in_variable(const char* name) {
  std::vector<int64_t> ids;
  const std::string text = node_variable(name);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int64_t number = 0;
    const auto read = std::from_chars(at, end, number);
    if (read.ec != std::errc()) break;
    ids.push_back(number);
    at = read.ptr + 1;  // After the comma.
  }
  return ids;
}

std::string ids_text(const auto& ids) {
  std::string text;
  for (const int64_t id : ids) text += (text.empty() ? "" : ", ") + std::to_string(id);
  return text;
}

// "experiments 7, 9 and trials 12".
std::string shown_by(const v1::TensorBoard& board) {
  std::string text;
  if (!board.experiments().empty())
    text = fmt::format("{} {}", board.experiments_size() == 1 ? "experiment" : "experiments",
                       ids_text(board.experiments()));
  if (!board.trials().empty())
    text += fmt::format("{}{} {}", text.empty() ? "" : " and ", board.trials_size() == 1 ? "trial" : "trials",
                        ids_text(board.trials()));
  return text;
}

Result<v1::ListTensorBoardsReply> list_boards(control::ClusterApi& api, bool ended) {
  v1::ListTensorBoardsRequest request;
  request.set_ended(ended);
  return api.call<v1::ListTensorBoardsReply>("TensorBoards/ListTensorBoards", request);
}

std::string boards_text(const v1::ListTensorBoardsReply& reply, int64_t now_ms, const Terminal& terminal) {
  Table table({{"job"},
               {"state"},
               {"shows", Align::kLeft, 0, 0, 12},
               {"user"},
               {"age", Align::kRight},
               {"reason", Align::kLeft, 1}});
  for (const v1::TensorBoard& board : reply.boards()) {
    const v1::Job& job = board.job();
    table.add({job.id(), job.state(), shown_by(board), printable(job.user()),
               format_duration(std::chrono::milliseconds(std::max<int64_t>(now_ms - job.submitted_ms(), 0))),
               printable(job.reason())});
  }
  if (table.empty()) return terminal.tr("no TensorBoard runs; volador tensorboard start ID starts one") + "\n";
  return table.text(terminal.columns());
}

// The output of a job that failed, which says why.
void print_last_lines(const Context& context, control::ClusterApi& api, const v1::Job& job) {
  jobs::JobOutput output(api, -1, kShownLines,
                         [&](const jobs::JobOutput::Line& line) { context.terminal.note(printable(line.text)); });
  (void)output.read(job);
}

// Waits until the job runs, and leads a port of this machine to its TensorBoard until Ctrl-C.
Outcome open_board(const Context& context, control::ClusterApi& api, const v1::TensorBoard& board, uint16_t port,
                   std::chrono::milliseconds wait) {
  v1::Job job = board.job();
  std::string told;
  const auto running = watch([&]() -> Result<Watch> {
    auto now = jobs::JobClient(api).get(board.job().id());
    if (!now) return make_error(now.error());
    job = std::move(*now);
    if (job.state() != "queued") return Watch::kDone;
    const std::string line = job_line(job, unix_ms_of_now(), context.terminal);
    if (!job.reason().empty() && std::exchange(told, line) != line) context.terminal.note(line);
    return Watch::kNothing;
  });
  if (!running) return fail(running.error());
  Outcome outcome;
  if (!jobs::has_ended(job)) {
    const uint16_t here = port != 0 ? port : net::free_loopback_port().value_or(0);
    open_browser(fmt::format("http://127.0.0.1:{}/", here));
    context.terminal.note(context.terminal.fill("TensorBoard of {}: http://127.0.0.1:{}/", shown_by(board), here));
    outcome = run_job_forward(api,
                              {.job = job.id(),
                               .rank = 0,
                               .ports = {.here = here, .there = static_cast<uint16_t>(board.port())},
                               .command = {},
                               .waits = true,
                               .wait = wait},
                              context.terminal);
    if (auto now = jobs::JobClient(api).get(job.id())) job = std::move(*now);
  }
  if (job.state() != "failed") return outcome;
  print_last_lines(context, api, job);
  return fail(ExitCode::kFailed, Error{ErrorCode::kApplication, job_line(job, unix_ms_of_now(), context.terminal)});
}

// ---- on the node ----

// A process of this machine that is ended with this object.
class Server {
 public:
  // kNotFound: there is no such program.
  static Result<std::unique_ptr<Server>> start(const std::vector<std::string>& command) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t pid = 0;
    const int failed = ::posix_spawnp(&pid, words.front(), nullptr, &attributes, words.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    if (failed != 0)
      return make_error(ErrorCode::kNotFound,
                        fmt::format("{}: {}", command.front(), std::generic_category().message(failed)));
    return std::unique_ptr<Server>(new Server(pid));
  }
  ~Server() {
    if (exit_) return;
    ::kill(pid_, SIGTERM);
    const auto end = std::chrono::steady_clock::now() + kGraceOfServer;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    while (!look() && std::chrono::steady_clock::now() < end) {
      const timespec pause{.tv_sec = 0, .tv_nsec = 100'000'000};
      ::sigtimedwait(&child, nullptr, &pause);
    }
    if (exit_) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Its exit code, 128 + its signal; none: it runs.
  std::optional<int> look() {
    int status = 0;
    if (!exit_ && ::waitpid(pid_, &status, WNOHANG) == pid_)
      exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return exit_;
  }

 private:
  explicit Server(pid_t pid) : pid_(pid) {}
  const pid_t pid_;
  std::optional<int> exit_;
};

// The program and the arguments before its own: the command in PATH, else the module of python3.
Result<std::vector<std::string>> tensorboard_program() {
  const std::string path = node_variable("PATH");
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const std::string file = path.substr(at, end - at) + "/tensorboard";
    if (::access(file.c_str(), X_OK) == 0) return std::vector<std::string>{file};
    at = end + 1;
  }
  auto probe =
      Server::start({"python3", "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('tensorboard') is None)"});
  if (probe) {
    std::optional<int> code;
    while (!(code = (*probe)->look())) {
      const timespec pause{.tv_sec = 0, .tv_nsec = 20'000'000};
      ::nanosleep(&pause, nullptr);
    }
    if (*code == 0) return std::vector<std::string>{"python3", "-m", "tensorboard.main"};
  }
  return make_error(
      ErrorCode::kNotFound,
      fmt::format("TensorBoard is not installed on node {}; install it there with: python3 -m pip install "
                  "tensorboard; or name an environment that has it: volador tensorboard start ID "
                  "--environment=/path/of/environment",
                  node_variable("VOLADOR_JOB_NODE")));
}

}  // namespace

TensorBoardCommand::TensorBoardCommand() {
  add(std::make_unique<TensorBoardStartCommand>());
  add(std::make_unique<TensorBoardListCommand>());
  add(std::make_unique<TensorBoardOpenCommand>());
  add(std::make_unique<TensorBoardKillCommand>());
  add(std::make_unique<TensorBoardServeCommand>());
}

CLI::App* TensorBoardCommand::declare(CLI::App& root) {
  CLI::App* app = declare_group(root, "tensorboard", "Show experiments in TensorBoard");
  app->footer(
      "Examples:\n"
      "  volador tensorboard start 7                        opens it here until Ctrl-C\n"
      "  volador tensorboard start 7 9 --trial=12 --no-open\n"
      "  volador tensorboard open job-31\n"
      "  volador tensorboard kill job-31");
  return app;
}

CLI::App* TensorBoardStartCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "start", "Start TensorBoard for experiments and trials as a job, or find the one that shows them, and open it");
  app->footer(
      "Examples:\n  volador tensorboard start 7\n  volador tensorboard start --trial=12 --trial=13 --no-open\n"
      "It shows the event files of the programs, and the metrics of trials that wrote none. It ends when it is not "
      "used.");
  app->add_option("experiments", experiments_, "Numbers of experiments")->type_name("ID");
  app->add_option("--trial", trials_, "Also this trial; may be repeated")->type_name("ID")->allow_extra_args(false);
  app->add_flag("--no-open", no_open_, "Only start it; volador tensorboard open and the page of the job open it");
  app->add_option("--idle", idle_, "Time without a request after which it ends; 10min by default")
      ->type_name("DURATION");
  app->add_option("--cpus", cpus_, "CPUs of the job; 0.1 by default")->check(positive_number())->type_name("NUMBER");
  app->add_option("--environment", environment_,
                  "What it runs in, as that of jobs, such as a virtual environment; the Python of the node by default")
      ->type_name("NAME|PATH");
  app->add_option("--pool", pool_, "Pool of nodes")->type_name("NAME");
  declare_connection(*app, "30s");
  return app;
}

Outcome TensorBoardStartCommand::run(const Context& context) {
  if (experiments_.empty() && trials_.empty())
    return usage_error("tensorboard start: which experiments? Give their numbers, or trials as --trial=12");
  const auto idle = parse_duration(idle_);
  if (!idle || *idle < 1s)
    return usage_error(fmt::format("--idle: expected a time of at least 1s such as 10min, got \"{}\"", idle_));
  const auto limit = timeout();
  if (!limit) return tl::unexpected(limit.error());
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::StartTensorBoardRequest request;
  request.mutable_experiments()->Assign(experiments_.begin(), experiments_.end());
  request.mutable_trials()->Assign(trials_.begin(), trials_.end());
  request.set_idle_s(std::chrono::ceil<std::chrono::seconds>(*idle).count());
  request.set_cpus(cpus_);
  request.set_environment(environment_);
  request.set_pool(pool_);
  request.set_request_id(jobs::new_request_id());
  const auto reply = (*api)->call<v1::StartTensorBoardReply>("TensorBoards/StartTensorBoard", request);
  if (!reply) return fail(reply.error());
  const v1::TensorBoard& board = reply->board();
  if (wants_json()) {
    context.terminal.print(json_of_reply(*reply));
    return {};
  }
  context.terminal.print((reply->existing()
                              ? context.terminal.fill("{} shows {} already", board.job().id(), shown_by(board))
                              : context.terminal.fill("started {} for {}", board.job().id(), shown_by(board))) +
                         "\n");
  if (no_open_) {
    context.terminal.note(context.terminal.fill("open it: volador tensorboard open {}", board.job().id()));
    return {};
  }
  return open_board(context, **api, board, 0, std::min<std::chrono::milliseconds>(10s, *limit / 2));
}

CLI::App* TensorBoardListCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("list", "List the TensorBoards that run or wait in the queue");
  app->alias("ls");
  app->add_flag("-a,--all", all_, "Those that have ended too");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome TensorBoardListCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::ListTensorBoardsRequest request;
  request.set_ended(all_);
  return show_reply<v1::ListTensorBoardsReply>(**api, table_terminal(context), wants_json(),
                                               "TensorBoards/ListTensorBoards", request, boards_text);
}

CLI::App* TensorBoardOpenCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "open", "Open a TensorBoard: a port of this machine leads to it until Ctrl-C, and a browser is opened");
  app->footer("Examples:\n  volador tensorboard open job-31\n  volador tensorboard open job-31 --port=6006");
  app->add_option("job", job_, "Id of its job, as volador tensorboard list shows it")->required()->type_name("JOB");
  app->add_option("--port", port_, "Port of this machine; any that is free by default")
      ->check(CLI::Range(1, 65535))
      ->type_name("PORT");
  declare_connection(*app, "30s");
  return app;
}

Outcome TensorBoardOpenCommand::run(const Context& context) {
  const auto limit = timeout();
  if (!limit) return tl::unexpected(limit.error());
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto boards = list_boards(**api, true);
  if (!boards) return fail(boards.error());
  for (const v1::TensorBoard& board : boards->boards()) {
    if (board.job().id() != job_ && board.job().id() != "job-" + job_) continue;
    if (jobs::has_ended(board.job()) && board.job().state() != "failed")
      return fail(ExitCode::kNotFound,
                  Error{ErrorCode::kNotFound,
                        fmt::format("{} has ended; start TensorBoard again: volador tensorboard start ID", job_)});
    return open_board(context, **api, board, static_cast<uint16_t>(port_),
                      std::min<std::chrono::milliseconds>(10s, *limit / 2));
  }
  return fail(ExitCode::kNotFound,
              Error{ErrorCode::kNotFound, fmt::format("there is no TensorBoard {}; volador tensorboard list shows "
                                                      "those that run",
                                                      job_)});
}

CLI::App* TensorBoardKillCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("kill", "End TensorBoards");
  app->add_option("jobs", jobs_, "Ids of their jobs")->required()->type_name("JOB");
  declare_connection(*app);
  return app;
}

Outcome TensorBoardKillCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto boards = list_boards(**api, true);
  if (!boards) return fail(boards.error());
  return for_each_of(context, jobs_, [&](const std::string& job) -> Result<void> {
    const bool is_board = std::ranges::any_of(boards->boards(), [&](const v1::TensorBoard& board) {
      return board.job().id() == job || board.job().id() == "job-" + job;
    });
    if (!is_board)
      return make_error(ErrorCode::kNotFound,
                        fmt::format("{} is no TensorBoard; volador job stop ends other jobs", job));
    const auto stopped = jobs::JobClient(**api).stop(job, false);
    if (!stopped) return make_error(stopped.error());
    context.terminal.print(wants_json() ? json_of_reply(*stopped)
                                        : job_line(*stopped, unix_ms_of_now(), context.terminal) + "\n");
    return {};
  });
}

CLI::App* TensorBoardServeCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("serve", "")->group("");  // Not in the help.
  declare_connection(*app, "60s");
  return app;
}

Outcome TensorBoardServeCommand::run(const Context& context) {
  const auto port = ids_in_variable("VOLADOR_TENSORBOARD_PORT"), idle_s = ids_in_variable("VOLADOR_TENSORBOARD_IDLE_S");
  const std::string made = node_variable("VOLADOR_JOB_DIR");
  if (port.size() != 1 || idle_s.size() != 1 || made.empty())
    return usage_error("tensorboard serve: it runs in jobs that `volador tensorboard start` submits");
  const std::chrono::milliseconds patience = std::chrono::seconds(idle_s.front());
  sigset_t awaited;
  sigemptyset(&awaited);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&awaited, signal);
  ::sigprocmask(SIG_BLOCK, &awaited, nullptr);
  auto program = tensorboard_program();
  if (!program) return fail_here(program.error());
  auto relay = IdleRelay::open(static_cast<uint16_t>(port.front()));
  if (!relay) return fail_here(relay.error());

  const fs::path root = fs::path(made) / "events";
  std::error_code code;
  fs::create_directories(root, code);
  BoardFolder folder(root, ids_in_variable("VOLADOR_TENSORBOARD_EXPERIMENTS"),
                     ids_in_variable("VOLADOR_TENSORBOARD_TRIALS"),
                     [&](const std::string& text) { context.terminal.note(text); });
  std::unique_ptr<control::ClusterApi> api;
  std::string told;
  const auto update = [&] {
    if (folder.is_complete()) return;
    if (!api) {
      auto connected = connect(context);
      if (!connected) {
        if (std::exchange(told, connected.error().error.message) != told) context.terminal.note(told);
        return;
      }
      api = std::move(*connected);
    }
    const auto updated = folder.update(*api);
    if (updated) return;
    api.reset();
    if (told != updated.error().message) context.terminal.note(told = updated.error().message);
  };
  update();

  const auto free = net::free_loopback_port();
  if (!free) return fail_here(free.error());
  const uint16_t behind = *free;
  std::vector<std::string> command = std::move(*program);
  for (const std::string& word :
       {std::string("--logdir"), root.string(), std::string("--host"), std::string("127.0.0.1"), std::string("--port"),
        std::to_string(behind), std::string("--reload_interval"), std::string("5")})
    command.push_back(word);
  auto server = Server::start(command);
  if (!server) return fail_here(server.error());
  bool ready = false;
  auto next_update = std::chrono::steady_clock::now() + kUpdateEvery;
  for (;;) {
    const timespec pause{.tv_sec = ready ? std::chrono::seconds(kServerLookEvery).count() : 0,
                         .tv_nsec = ready ? 0 : 100'000'000};
    const int signal = ::sigtimedwait(&awaited, nullptr, &pause);
    if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP) return {};
    if (const auto ended = (*server)->look())
      return fail_here(Error{ErrorCode::kApplication, fmt::format("{} has ended with exit code {}; its output says why",
                                                                  command.front(), *ended)});
    if (!ready && net::connect_to_loopback(behind)) {
      ready = true;
      (*relay)->lead_to(behind);
      context.terminal.print(context.terminal.fill("TensorBoard answers on port {}", (*relay)->port()) + "\n");
    }
    if ((*relay)->idle() >= patience) {
      context.terminal.print(context.terminal.fill("no request for {}: TensorBoard ends", format_duration(patience)) +
                             "\n");
      return {};
    }
    if (std::chrono::steady_clock::now() < next_update) continue;
    update();
    next_update = std::chrono::steady_clock::now() + kUpdateEvery;
  }
}

CLI::App* ExportEventsCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("export-events", "")->group("");  // Not in the help.
  app->add_option("experiments", experiments_, "Numbers of experiments")->type_name("ID");
  app->add_option("--trial", trials_, "Also this trial; may be repeated")->type_name("ID")->allow_extra_args(false);
  app->add_option("--to", to_, "Folder for the event files")->required()->type_name("FOLDER");
  app->add_flag("-f,--follow", follow_, "Add new points until the trials have ended");
  declare_connection(*app, "30s");
  return app;
}

Outcome ExportEventsCommand::run(const Context& context) {
  if (experiments_.empty() && trials_.empty())
    return usage_error("experiment export-events: which experiments? Give their numbers, or trials as --trial=12");
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  BoardFolder folder(to_, experiments_, trials_, [&](const std::string& text) { context.terminal.note(text); });
  const auto watched = watch([&]() -> Result<Watch> {
    VOLADOR_TRY(folder.update(**api));
    return !follow_ || folder.is_complete() ? Watch::kDone : Watch::kNothing;
  });
  if (!watched) return fail(watched.error());
  return {};
}

}  // namespace volador::cli
