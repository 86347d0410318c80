// Prestarted hosts: processes of a program that have done all work that needs no actor and wait for HostStart. Applies
// SparePlan's decisions. A spare holds no lease and, like every host, ends at the end of its control socket.
#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "runtime/ids.h"
#include "runtime/net/io_loop.h"
#include "runtime/net/unique_fd.h"
#include "worker/core/spare_plan.h"
#include "worker/hosts/children.h"
#include "worker/hosts/host_groups.h"
#include "worker/hosts/template_pool.h"
#include "worker/logs/log_capture.h"

namespace volador::worker {

// A prestarted host process.
struct SpareHost {
  pid_t pid = 0;
  net::UniqueFd control;
  LogCapture::Ends output;               // Read ends.
  HostGroups::GroupPtr group = nullptr;  // Null without groups.
};

// Creates, hands out and ends prestarted hosts. Loop thread only.
class SpareHosts {
 public:
  // `groups`: null without groups.
  SpareHosts(net::IoLoop& loop, Children& children, TemplatePool& templates, HostGroups* groups,
             const SpareOptions& options);
  // Kills the spares.
  ~SpareHosts();
  SpareHosts(const SpareHosts&) = delete;
  SpareHosts& operator=(const SpareHosts&) = delete;

  // Host events: requested; its process exists; answered, failed or ended.
  void on_launch(const ProgramStart& program, HostId host);
  void on_process(HostId host);
  void on_settled(HostId host);

  // Takes a spare; the caller then watches it (Children::watch) and sends it a HostStart with environment and
  // directory. Nothing: there is none; request a fork.
  std::optional<SpareHost> take(const ProgramStart& program);
  // Memory is short: ends the spares and creates none for this time. Returns the number ended.
  size_t hold_off(std::chrono::milliseconds time);
  size_t standing() const { return plan_.standing(); }

 private:
  struct Stock {
    ProgramStart program;
    std::deque<SpareHost> spares;  // Oldest first.
  };
  void step();
  void make(SparePlan::Program program);
  void end_one(SparePlan::Program program);
  void place(SpareHost& spare);
  void on_exit(SparePlan::Program program, pid_t pid, const ExitStatus& status);

  net::IoLoop& loop_;
  Children& children_;
  TemplatePool& templates_;
  HostGroups* const groups_;
  SparePlan plan_;
  std::map<ProgramStart, SparePlan::Program> numbers_;
  std::map<SparePlan::Program, Stock> stocks_;
  SparePlan::Program last_number_ = 0;
  uint64_t last_spare_ = 0;
  net::IoLoop::TimerId timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // Checked by results of the templates.
};

}  // namespace volador::worker
