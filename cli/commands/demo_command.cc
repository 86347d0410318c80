#include "cli/commands/demo_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace volador::cli {

namespace {

namespace fs = std::filesystem;

// Starts a program in this environment; -1: failed. Its output goes to `output`, or to ours by default.
pid_t start(const std::vector<std::string>& command, int output = -1) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::setpgid(0, 0);  // We forward Ctrl-C.
  if (output >= 0) ::dup2(output, STDOUT_FILENO);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

int exit_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return exit_code(status);
}

// The output of a program; nullopt if it failed.
std::optional<std::string> output_of(const std::vector<std::string>& command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const pid_t child = start(command, ends[1]);
  ::close(ends[1]);
  std::string text;
  char piece[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], piece, sizeof piece)) > 0;) text.append(piece, static_cast<size_t>(got));
  ::close(ends[0]);
  if (child < 0 || wait_for(child) != 0) return std::nullopt;
  return text;
}

// A cluster in a temporary folder that is removed with it.
class DemoCluster {
 public:
  explicit DemoCluster(std::string binary) : binary_(std::move(binary)) {}
  ~DemoCluster() {
    if (home_.empty()) return;
    output_of({binary_, "stop"});
    std::error_code ignored;
    fs::remove_all(home_, ignored);
  }

  // Starts the cluster and returns the link to its dashboard.
  [[nodiscard]] tl::expected<std::string, Failure> start_it() {
    std::string path = (fs::temp_directory_path() / "volador-demo-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr)
      return fail_here({ErrorCode::kUnavailable,
                        fmt::format("demo: no folder can be made in {}", fs::temp_directory_path().string())});
    home_ = path;
    ::setenv("VOLADOR_HOME", home_.c_str(), 1);
    ::setenv("HOME", home_.c_str(), 1);  // Results go there too.
    for (const char* name : {"VOLADOR_ADDRESS", "VOLADOR_TOKEN", "VOLADOR_CLUSTER", "VOLADOR_CONFIG", "VOLADOR_PORT"})
      ::unsetenv(name);
    const auto text = output_of({binary_, "start", "--head", "--port=0", "--cluster=demo", "--json"});
    const auto report = nlohmann::json::parse(text.value_or(""), nullptr, false);
    if (!report.is_object() || !report.contains("dashboard"))
      return fail_here({ErrorCode::kUnavailable, "demo: its cluster did not start; the reason stands above"});
    return report["dashboard"].get<std::string>();
  }

 private:
  const std::string binary_;
  fs::path home_;
};

}  // namespace

CLI::App* DemoCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("demo",
                                      "Run a small experiment on a private cluster and print a link to its dashboard; "
                                      "Ctrl-C ends it and removes its files");
  app->add_option("--samples", samples_, "Number of trials; by default as many as run in a minute")
      ->check(CLI::Range(1, 10'000));
  app->add_flag("--once", once_, "Exit when the experiment ends instead of waiting for Ctrl-C");
  return app;
}

Outcome DemoCommand::run(const Context& context) {
  std::error_code error;
  const fs::path binary = fs::read_symlink("/proc/self/exe", error);
  const fs::path program = binary.parent_path() / "volador_demo";
  if (error || !fs::exists(program))
    return fail_here(
        {ErrorCode::kNotFound,
         fmt::format("demo: {} is not there; it is built and installed beside volador", program.string())});
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);

  DemoCluster cluster(binary.string());
  auto link = cluster.start_it();
  if (!link) return tl::unexpected(link.error());
  context.terminal.print(fmt::format("  dashboard   {}\n  stop        Ctrl-C; nothing is left behind\n\n", *link));

  std::vector<std::string> command{program.string()};
  if (samples_ > 0) command.push_back(std::to_string(samples_));
  const pid_t driver = start(command);
  if (driver < 0)
    return fail_here({ErrorCode::kUnavailable, fmt::format("demo: {} cannot be started", program.string())});
  bool runs = true;
  int code = 0;
  while (runs || !once_) {
    siginfo_t info;
    const int signal = ::sigwaitinfo(&signals, &info);
    int status = 0;
    if (runs && ::waitpid(driver, &status, WNOHANG) == driver) {
      runs = false;
      code = exit_code(status);
      if (!once_) context.terminal.print("\nthe dashboard goes on until Ctrl-C\n");
    }
    if (signal > 0 && signal != SIGCHLD) {
      if (runs) {
        ::kill(driver, SIGKILL);  // Nothing must be kept.
        wait_for(driver);
      }
      return {};
    }
  }
  if (code == 0) return {};
  return fail_here({ErrorCode::kUnavailable, fmt::format("demo: the experiment ended with exit code {}", code)});
}

}  // namespace volador::cli
