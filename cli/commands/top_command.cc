#include "cli/commands/top_command.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <optional>
#include <thread>

#include "cli/render/cluster_view.h"
#include "cli/render/table.h"
#include "runtime/control/cluster_api.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/quantities.h"

namespace volador::cli {

namespace {

constexpr int kTopTrialsMax = 100;
constexpr int kTopActorsMax = 1000;  // Per state.
std::atomic<bool> ended{false};

struct Size {
  size_t rows = 24;
  size_t columns = 80;
};

Size screen_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return {};
  return {size.ws_row, size.ws_col};
}

// The terminal's alternate screen, without cursor and echo, while this object exists; Ctrl-C, SIGTERM and "q" only set
// a flag.
class Screen {
 public:
  Screen() {
    ended = false;
    struct sigaction action {};
    action.sa_handler = [](int) { ended = true; };
    ::sigaction(SIGINT, &action, &old_interrupt_);
    ::sigaction(SIGTERM, &action, &old_terminate_);
    if (::tcgetattr(STDIN_FILENO, &old_keys_) == 0) {
      termios keys = old_keys_;
      keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      keys.c_cc[VMIN] = 0;
      keys.c_cc[VTIME] = 0;
      has_keys_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
    }
    write_all("\x1b[?1049h\x1b[?25l");
  }
  ~Screen() {
    write_all("\x1b[?25h\x1b[?1049l");
    if (has_keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &old_keys_);
    ::sigaction(SIGINT, &old_interrupt_, nullptr);
    ::sigaction(SIGTERM, &old_terminate_, nullptr);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Overwrites the old content to avoid flicker.
  void draw(std::string_view text) {
    std::string out = "\x1b[H";
    for (const char c : text) {
      if (c == '\n') out += "\x1b[K\r";
      out += c;
    }
    write_all(out + "\x1b[J");
  }

  // Waits for up to `time`; returns whether the user asked to quit.
  bool wait(std::chrono::milliseconds time) const {
    const auto until = std::chrono::steady_clock::now() + time;
    while (!ended) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
      if (left <= 0) return false;
      pollfd keys{has_keys_ ? STDIN_FILENO : -1, POLLIN, 0};
      if (::poll(&keys, 1, static_cast<int>(left)) <= 0) continue;
      char key = 0;
      if (::read(STDIN_FILENO, &key, 1) != 1) {  // The terminal was closed.
        ended = true;
      } else if (key == 'q' || key == 'Q') {
        return true;
      }
    }
    return true;
  }

 private:
  static void write_all(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;
      text.remove_prefix(static_cast<size_t>(n));
    }
  }

  struct sigaction old_interrupt_ {};
  struct sigaction old_terminate_ {};
  termios old_keys_{};
  bool has_keys_ = false;
};

// Shows what changes: running trials, and actors that are alive or waiting.
Result<std::string> frame(control::ClusterApi& api, const Terminal& terminal) {
  auto status = api.call<v1::StatusReply>("Cluster/Status", v1::StatusRequest());
  if (!status) return make_error(status.error());
  std::string out = status_text(*status, terminal);
  v1::ListRequest request;
  for (const v1::Experiment& experiment : status->experiments()) {
    if (experiment.state() != "running" && experiment.state() != "paused") continue;
    request.set_filter(experiment.name());
    request.set_limit(kTopTrialsMax);
    auto trials = api.call<v1::ListTrialsReply>("Cluster/ListTrials", request);
    if (!trials) return make_error(trials.error());
    v1::ListTrialsReply running;
    for (const v1::Trial& trial : trials->trials()) {
      if (trial.status() == "running") *running.add_trials() = trial;
    }
    running.set_total(running.trials_size());
    if (running.trials_size() > 0)
      out += "\n" + terminal.paint(Colour::kBold, printable(experiment.name())) + "\n" + trials_text(running, terminal);
  }
  // Query state by state: the head lists by id, so live actors might be cut off behind many dead ones.
  v1::ListActorsReply living;
  for (const char* state : {"alive", "starting", "restarting", "pending"}) {
    request.set_filter(state);
    request.set_limit(kTopActorsMax);
    auto actors = api.call<v1::ListActorsReply>("Cluster/ListActors", request);
    if (!actors) return make_error(actors.error());
    for (const v1::Actor& actor : actors->actors()) {
      if (actor.state() == state) *living.add_actors() = actor;
    }
  }
  living.set_total(living.actors_size());
  if (living.actors_size() > 0) out += "\n" + actors_text(living, terminal);
  return out;
}

}  // namespace

std::string fit_screen(std::string_view text, size_t rows, size_t columns, Language language) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const size_t shown = lines.size() <= rows ? lines.size() : rows - 1;
  std::string out;
  for (size_t i = 0; i < shown; ++i) out += (i == 0 ? "" : "\n") + cut_to_width(lines[i], columns);
  if (shown < lines.size())
    out += (shown == 0 ? "" : "\n") +
           cut_to_width(fill_translated(language, "… {} more lines", lines.size() - shown), columns);
  return out;
}

CLI::App* TopCommand::declare(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("top", "Watch the cluster in this terminal: nodes, resources, running trials, actors");
  app->footer(
      "\"q\" or Ctrl-C ends it. Where stdout is not a terminal, it prints one frame, or as many as --frames says.\n"
      "Examples:\n  volador top\n  volador top --interval=250ms\n  volador top --frames=3 | cat");
  app->add_option("--interval", interval_, "Time between two frames, 100ms to 1h; 1s by default")
      ->type_name("DURATION");
  app->add_option("--frames", frames_, "End after this many frames")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("INTEGER");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome TopCommand::run(const Context& context) {
  const auto interval = parse_duration(interval_);
  if (!interval || *interval < std::chrono::milliseconds(100) || *interval > std::chrono::hours(1))
    return usage_error(fmt::format("--interval: expected a duration from 100ms to 1h, got \"{}\"", interval_));
  if (wants_json())
    return usage_error(
        "top: draws a screen and has no JSON; programs read volador status --json, or the watch of the HTTP API");
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());

  const bool draws = ::isatty(STDOUT_FILENO) == 1;
  const int frames = frames_ > 0 ? frames_ : draws ? 0 : 1;
  std::optional<Screen> screen;
  if (draws) screen.emplace();
  for (int i = 1;; ++i) {
    const Size size = screen_size();
    const auto text =
        frame(**api, draws && table_terminal(context).columns() > 0 ? context.terminal.with_columns(size.columns)
                                                                    : table_terminal(context));
    if (!screen) {
      if (!text) return fail(text.error());
      context.terminal.print(*text);
    } else {
      // An unreachable head may come back; the next frame retries.
      screen->draw(fit_screen(
          text ? *text
               : context.terminal.tr("the head does not answer, asked again: ") + printable(text.error().message),
          size.rows, size.columns, context.terminal.language()));
    }
    if (i == frames) return {};
    if (!screen) {
      context.terminal.print("\n");
      std::this_thread::sleep_for(*interval);
    } else if (screen->wait(std::chrono::ceil<std::chrono::milliseconds>(*interval))) {
      return {};
    }
  }
}

}  // namespace volador::cli
