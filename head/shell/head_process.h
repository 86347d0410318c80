// A running head: identity, journal, core and the gRPC server on its one port.
#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include "head/journal/sqlite_journal.h"
#include "head/kernel/options.h"
#include "head/shell/experiment_restore.h"
#include "head/shell/watch_service.h"
#include "head/shell/program_cache.h"
#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/paths.h"
#include "runtime/result.h"
#include "runtime/stop_signal.h"

namespace volador {
class Random;
}

namespace volador::operations {
class Registry;
}

namespace volador::head {

class HeadAccess;

struct HeadOptions {
  Paths paths;
  std::string cluster;        // Its name; empty: a new cluster with a name of its own (pick_cluster_name).
  std::string bind;           // IP address to listen on; empty: that of last time, else 127.0.0.1.
  int port = 0;               // 0: that of last time, else a free one.
  std::string store;          // Empty: SQLite in the head's folder; else redis://…
  Durability durability = Durability::kProcess;
  bool force_store = false;   // See RedisJournalOptions.
  bool keep_experiments = true;  // On disk, for the next start; a private cluster has none.
  bool make_current = true;   // Programs and the command line of this user find this cluster without an address.
  Times times = {};
  Limits limits = {};
  ProgramCacheLimits programs = {};
  std::function<Result<void>(const std::string& space, const std::string& like, const std::string& config)> check_config = {};  // As of Options.
};

// What a starter prints.
struct HeadReady {
  std::string cluster;
  ClusterId cluster_id;
  std::string address;        // host:port, as others dial it.
  bool this_machine_only = true;
  bool restarted = false;     // The cluster existed.
  std::string fingerprint;    // Of its authority, as security/digest.h prints it.
  std::string operator_token, join_token, driver_token;  // Texts; secret.
};

class HeadProcess {
 public:
  // Serves when it returns. The process has no other threads of ours to fork from later: fork before.
  // kUnavailable: the port is in use, another head runs on the folder, no store; kInvalidArgument: an option; kInternal: the journal
  // is damaged. Nothing is left running. `clock` and `random` outlive it; `random` is used by one thread at a time.
  [[nodiscard]] static Result<std::unique_ptr<HeadProcess>> start(HeadOptions options, const Clock& clock, Random& random);
  // As stop().
  ~HeadProcess();

  const HeadReady& ready() const;
  // Streams are closed, what was acknowledged is stored, the port is free when it returns. Workers keep their actors.
  void stop();
  // Before stop(), where the head is not to come back: drivers are told who wanted that (empty: not known), so that none of them waits for it;
  // returns when they have ended what they do here, or have had that long.
  void say_stopped(const std::string& by, std::chrono::milliseconds patience = kFarewell);
  static constexpr std::chrono::milliseconds kFarewell{500};
  // Becomes readable when the head cannot go on: its journal was taken over, or is damaged.
  int failure_fd() const;
  std::optional<Error> failure() const;
  // Blocks until one of stop_fds becomes readable (or its other end is closed) or the head cannot go on.
  void wait(std::initializer_list<int> stop_fds) const;

  // Experiments of before the start are given to `show` (null: only the head's own lists have them): those that ran, before it returns, and the
  // others by and by, on a thread of their own. `show` takes a piece and says when it wants the next one. Once; until then what drivers say
  // of experiments is not kept for the next start.
  void restore_experiments(ExperimentRestore::Show show);

  // For a server beside it; until stop().
  HeadAccess& access();
  // What v1.Cluster.Login answers with: a fresh link to sign in at the dashboard. None (the start): there is no dashboard.
  void set_login_link(std::function<Result<std::string>()> make);
  // Answers Live/Watch. None (the start): there is no dashboard.
  void set_watch(OpenWatch open);
  // Serves the operations of Cluster; services beside the head register theirs, and withdraw them before they end.
  operations::Registry& registry();

 private:
  struct Impl;
  explicit HeadProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The main of the head of a private cluster: starts, tells `on_ready`, serves until `asked` comes, parent_fd becomes readable (or its other end
// is closed) or the head cannot go on, then stops. Nobody starts it again: drivers are told.
[[nodiscard]] Result<void> run_private_head(HeadOptions options, int parent_fd, const StopSignal& asked, const std::function<void(const HeadReady&)>& on_ready);

}  // namespace volador::head
