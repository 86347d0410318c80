// Templates: one process per program, started once and held in volador::init(), from which hosts are forked.
//
//   start ──Held──► held ──(idle 10 min, or one too many)──► ended
//     │                └──Held.threads > 1──► the key is marked: each host starts the program
//     └─dies, or silent for 60 s──► pending requests fail; the next start is delayed (0.1 s doubled to 5 s)
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/net/io_loop.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"
#include "worker/hosts/children.h"
#include "worker/hosts/spawn.h"

namespace volador::worker {

// Start parameters of a program. Hosts with equal parameters share a template.
struct ProgramStart {
  std::string path;
  std::vector<std::string> argv;
  std::string cwd;  // Empty: the worker's directory.
  Environment env;  // The whole environment.

  auto operator<=>(const ProgramStart&) const = default;
};

// Parameters of one host.
struct HostFork {
  HostId host;
  Environment env;  // Overrides the program's environment.
  std::string cwd;  // Empty: the program's directory.
  net::UniqueFd control;
  net::UniqueFd out;
  net::UniqueFd err;
  bool spare = false;  // Prestarted: `env` and `cwd` are empty and come with HostStart.
};

// Timeouts and limits of templates.
struct TemplateOptions {
  std::string node_name;
  std::chrono::milliseconds held_timeout{60'000};
  std::chrono::milliseconds fork_timeout{20'000};
  std::chrono::milliseconds idle_max{600'000};
  std::chrono::milliseconds backoff_min{100};
  std::chrono::milliseconds backoff_max{5'000};
  int crash_loop = 3;           // Consecutive ends before Held that make requests fail until the back-off ends.
  size_t templates_max = 8;     // Beyond it the template idle for longest ends.
  size_t forks_in_flight = 16;  // Per template.
};

// Starts templates and forks hosts from them. Loop thread only.
class TemplatePool {
 public:
  struct Failure {
    Error error;  // kUnavailable: retry (a held template died); other codes: do not retry.
    std::string stderr_tail;
  };
  using Done = std::function<void(tl::expected<pid_t, Failure>)>;

  // `lease_page`: of the node, passed to every host; owned by the caller.
  TemplatePool(net::IoLoop& loop, Children& children, int lease_page, TemplateOptions options);
  // Ends the templates (end of socket, then SIGKILL). No callback runs after it.
  ~TemplatePool();
  TemplatePool(const TemplatePool&) = delete;
  TemplatePool& operator=(const TemplatePool&) = delete;

  // Creates a process for the host, as a child of this process; `done` runs later, once. The caller watches the
  // process.
  void fork(const ProgramStart& program, HostFork host, Done done);
  // Whether a spare of the program needs only a fork: its template is held, supports spares, and has no pending
  // requests.
  bool can_make_spare(const ProgramStart& program) const;
  // Cancels a request that was not sent to a template: true, and `done` will not run. False: the answer will arrive.
  bool cancel(HostId host);
  std::optional<BootTime> oldest_fork_in_flight() const;
  struct Process {
    std::string program;              // File name of the program.
    std::optional<BootTime> ends_at;  // Unless a fork is requested before; nullopt: it is starting or forking.
  };
  std::map<pid_t, Process> processes() const;

 private:
  struct Template;
  struct Request;
  void start(const std::shared_ptr<Template>& held);
  void on_message(const std::shared_ptr<Template>& held);
  void on_end(const std::shared_ptr<Template>& held, const ExitStatus& status);
  void serve(const std::shared_ptr<Template>& held);
  void exec(const std::shared_ptr<Template>& held, Request request);
  void fail(const std::shared_ptr<Template>& held, const Error& error);
  void count_failure(Template& held);
  void end(const std::shared_ptr<Template>& held);
  void trim();

  net::IoLoop& loop_;
  Children& children_;
  const int lease_page_;
  const TemplateOptions options_;
  std::map<ProgramStart, std::shared_ptr<Template>> templates_;
};

}  // namespace volador::worker
