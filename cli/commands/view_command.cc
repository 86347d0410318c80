#include "cli/commands/view_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/browser.h"
#include "cli/commands/tune_command.h"
#include "cli/results_view.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/quantities.h"
#include "runtime/random.h"
#include "tune/results/experiment_directory.h"

namespace volador::cli {
namespace {

// Returns true if a line was read from the terminal, false if a signal arrived.
bool wait_for_enter(int signals, bool listens) {
  pollfd watched[2]{{.fd = signals, .events = POLLIN, .revents = 0},
                    {.fd = listens ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}};
  while (true) {
    if (::poll(watched, 2, -1) < 0 && errno == EINTR) continue;
    if (watched[0].revents != 0) return false;
    char typed[256];
    if (::read(STDIN_FILENO, typed, sizeof typed) > 0) return true;
    watched[1].fd = -1;  // End of input.
  }
}

}  // namespace

CLI::App* ViewCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("view", "Show results on disk in the dashboard without a cluster, until Ctrl-C");
  app->footer(
      "Examples:\n  volador view                                              all runs below ~/volador_results\n"
      "  volador view ~/volador_results/digits_2026-11-21_10-02-11\n"
      "  volador view /data/results --port=8080 --no-browser       over SSH: ssh -L 8080:127.0.0.1:8080 machine");
  app->add_option("folder", folder_, "Directory of a run, or a folder of runs; ~/volador_results by default");
  app->add_option("--port", port_, "TCP port on 127.0.0.1; by default a free one")
      ->check(CLI::Range(0, 65535))
      ->type_name("INTEGER");
  app->add_flag("--no-browser", no_browser_, "Only print the link");
  declare_json(*app);
  return app;
}

Outcome ViewCommand::run(const Context& context) {
  // Called before the first thread starts, so that all threads block the signals.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const int signal_fd = ::signalfd(-1, &signals, SFD_CLOEXEC);

  const std::filesystem::path folder = folder_.empty() ? tune::default_storage_path() : std::filesystem::path(folder_);
  log::configure({.level = log::Level::kWarn});
  const SystemClock clock;
  SystemRandom random;
  auto view = ResultsView::start(folder, static_cast<uint16_t>(port_), clock, random);
  if (!view) return refuse_run(view.error());
  const std::string link = (*view)->login_link();
  if (wants_json()) {
    context.terminal.print(
        nlohmann::ordered_json{
            {"api_version", "v1"}, {"folder", folder.string()}, {"runs", (*view)->runs()}, {"dashboard", link}}
            .dump(2) +
        "\n");
  } else {
    context.terminal.print(fmt::format("  results     {} · {}\n  dashboard   {}\n  stop        Ctrl-C{}\n",
                                       tune::display_path(folder), counted((*view)->runs(), "run"), link,
                                       ::isatty(STDIN_FILENO) == 1 ? "; Enter prints a fresh link" : ""));
  }
  if (!no_browser_ && ::isatty(STDOUT_FILENO) == 1) open_browser(link);
  while (wait_for_enter(signal_fd, ::isatty(STDIN_FILENO) == 1))
    context.terminal.print(fmt::format("  dashboard   {}\n", (*view)->login_link()));
  (*view)->stop();
  ::close(signal_fd);
  return {};
}

}  // namespace volador::cli
