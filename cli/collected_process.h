// A command that runs as the child of this process, which passes its output and the signals on.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::cli {

// How the command cannot be started.
struct NotStarted {
  int error = 0;  // errno.
};

// The child leads a process group of its own. SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT and SIGWINCH
// that this process gets go to the group. What the child leaves behind when it ends is killed, wherever it went. One
// object for each process, used by one thread.
class CollectedProcess {
 public:
  struct Options {
    std::vector<std::string> command;
    // Gets each piece of the child's output, from both streams, after it was passed on. Empty: the child writes to the
    // streams of this process itself.
    std::function<void(int stream, std::string_view bytes)> on_output;
    std::function<void()> on_tick;  // Is called in this interval, and not after the child's end.
    std::chrono::milliseconds tick{0};
    std::vector<std::string> beside;  // Another command, that looks at the child. Empty: none.
  };
  explicit CollectedProcess(Options options);
  ~CollectedProcess();
  CollectedProcess(const CollectedProcess&) = delete;
  CollectedProcess& operator=(const CollectedProcess&) = delete;

  // Starts the command; `beside` after it, whose failure to start is its end.
  tl::expected<void, NotStarted> start();
  // Returns when the child has ended and all of its output has been passed on. The command `beside` has 10 s from then
  // on to end by itself, and 5 s after SIGTERM.
  void wait();
  // Ends the child's group: SIGTERM, and SIGKILL after 10 s. Only from on_output and on_tick.
  void end();

  // As waitpid() has it.
  int status() const { return status_; }
  // A signal that asks the child to end was passed on.
  bool was_stopped() const { return was_stopped_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Stream {
    net::UniqueFd from;
    int to = -1;
    bool is_closed = false;  // Nothing can be written to it.
  };

  tl::expected<pid_t, NotStarted> spawn(const std::vector<std::string>& command, bool captures);
  void wait_until(const std::function<bool()>& done);
  // Whether something was read.
  bool pass_on(size_t stream);
  void write_out(Stream& stream, std::string_view bytes);
  void handle_signals();
  void reap();
  void signal_child(int signal);
  void kill_descendants(pid_t but);

  Options options_;
  Stream streams_[2];
  pid_t child_ = 0, beside_ = 0;  // 0: has ended.
  pid_t group_ = 0;
  int status_ = 0;
  bool was_stopped_ = false;
  std::optional<Clock::time_point> kill_at_, next_tick_;
  Clock::time_point read_at_{};
  int quick_reads_ = 0;
  std::string buffer_;
};

}  // namespace volador::cli
