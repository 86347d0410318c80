// Templates: one process a program, started once and held in volador::init(), of which hosts are forked.
//
//   start ──Held──► held ──(idle 10 min, or one too many)──► ended
//     │                └──Held.threads > 1──► the key is marked: each host is a start of the program
//     └─dies, or silent for 60 s──► what waited fails by name; the next start waits (0.1 s doubled to 5 s)
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

// How a program is started. Two hosts share a template where all of it is equal.
struct ProgramStart {
  std::string path;
  std::vector<std::string> argv;
  std::string cwd;  // Empty: as the worker.
  Environment env;  // All of it.

  auto operator<=>(const ProgramStart&) const = default;
};

// What one host gets.
struct HostFork {
  HostId host;
  Environment env;  // Set over the program's.
  std::string cwd;  // Empty: the program's.
  net::UniqueFd control;
  net::UniqueFd out;
  net::UniqueFd err;
  bool spare = false;  // Forked ahead: `env` and `cwd` are empty and come with its HostStart.
};

struct TemplateOptions {
  std::string node_name;
  std::chrono::milliseconds held_timeout{60'000};
  std::chrono::milliseconds fork_timeout{20'000};
  std::chrono::milliseconds idle_max{600'000};
  std::chrono::milliseconds backoff_min{100};
  std::chrono::milliseconds backoff_max{5'000};
  int crash_loop = 3;           // So many ends before Held in a row: requests fail at once until the backoff is over.
  size_t templates_max = 8;     // Held ones; beyond it the one idle longest ends.
  size_t forks_in_flight = 16;  // Of one template.
};

// Loop thread only.
class TemplatePool {
 public:
  struct Failure {
    Error error;  // kUnavailable: worth another try (a template that had been held died); else not.
    std::string stderr_tail;
  };
  using Done = std::function<void(tl::expected<pid_t, Failure>)>;

  // `lease_page`: of the node, passed to every host; stays the caller's.
  TemplatePool(net::IoLoop& loop, Children& children, int lease_page, TemplateOptions options);
  // Templates end (they see the end of their socket and are killed). Nobody is called any more.
  ~TemplatePool();
  TemplatePool(const TemplatePool&) = delete;
  TemplatePool& operator=(const TemplatePool&) = delete;

  // A process for the host, its parent is this one; later, once. The caller watches the process.
  void fork(const ProgramStart& program, HostFork host, Done done);
  // Whether a spare of the program is one fork away: its template is held, knows of spares, and nobody waits for it.
  bool can_make_spare(const ProgramStart& program) const;
  // Takes back a request that no template has been asked for yet: true, and `done` will not be called. False: the
  // answer comes.
  bool cancel(HostId host);
  std::optional<BootTime> oldest_fork_in_flight() const;
  struct Process {
    std::string program;             // Name of its file.
    std::optional<BootTime> ends_at;  // Unless a fork is asked of it before; nullopt: it starts, or forks now.
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
