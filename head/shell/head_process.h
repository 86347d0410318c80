// A running head: identity, journal, core and the gRPC server on its one port.
#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "head/journal/sqlite_journal.h"
#include "head/kernel/options.h"
#include "head/shell/experiment_restore.h"
#include "head/shell/program_cache.h"
#include "head/shell/watch_service.h"
#include "head/sign_on/sign_on_options.h"
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
class SignOn;

// Configuration of a head process.
struct HeadOptions {
  Paths paths;
  // Name of the cluster; empty: creates a cluster with a generated name (pick_cluster_name).
  std::string cluster;
  std::string bind;   // IP address to listen on; empty: the previous one, else 127.0.0.1.
  int port = 0;       // 0: the previous one, else a free port.
  std::string store;  // Empty: SQLite in the head's folder; else redis://…
  Durability durability = Durability::kProcess;
  bool force_store = false;      // See RedisJournalOptions.
  bool keep_experiments = true;  // On disk, for the next start; private clusters keep none.
  bool make_current = true;      // Makes this the user's default cluster for programs and the command line.
  Times times = {};
  Limits limits = {};
  ProgramCacheLimits programs = {};
  std::function<Result<void>(const std::string& space, const std::string& like, const std::string& config)>
      check_config = {};                         // See Options.
  std::shared_ptr<const ActorGuard> guard = {};  // See Options.
  std::optional<SignOnOptions> sign_on = {};     // Sign-in by an OpenID Connect provider.
  // Services that register their operations after the start: without them calls fail with kUnavailable, not kNotFound, so
  // that clients wait for them.
  std::vector<std::string> services_beside = {};
};

// Start information to print.
struct HeadReady {
  std::string cluster;
  ClusterId cluster_id;
  std::string address;  // host:port under which others reach the head.
  bool this_machine_only = true;
  bool restarted = false;   // The cluster existed before.
  std::string fingerprint;  // Fingerprint of its authority, in the format of security/digest.h.
  std::string operator_token, join_token, driver_token;  // Token texts; secret.
};

// Owns the parts of a running head.
class HeadProcess {
 public:
  // Serves when it returns. Starts threads; fork before the call.
  // kUnavailable: the port is in use, another head uses the folder, or no store; kInvalidArgument: an option;
  // kInternal: the journal is damaged. On an error nothing is left running. `clock` and `random` must outlive it;
  // `random` is used by one thread at a time.
  [[nodiscard]] static Result<std::unique_ptr<HeadProcess>> start(HeadOptions options, const Clock& clock,
                                                                  Random& random);
  // Calls stop().
  ~HeadProcess();

  const HeadReady& ready() const;
  // Closes streams, stores acknowledged changes and frees the port before it returns. Workers keep their actors.
  void stop();
  // Call before stop() if the head will not restart: notifies drivers and names the requester (empty: unknown), so that
  // they do not wait for the head. Returns when they have finished their work here, or after `patience`.
  void say_stopped(const std::string& by, std::chrono::milliseconds patience = kFarewell);
  static constexpr std::chrono::milliseconds kFarewell{500};
  // Becomes readable when the head cannot continue: its journal was taken over or is damaged.
  int failure_fd() const;
  std::optional<Error> failure() const;
  // Blocks until one of stop_fds becomes readable (or its other end is closed) or the head cannot continue.
  void wait(std::initializer_list<int> stop_fds) const;

  // Passes older experiments to `show` (null: only to the head's lists): those that ran before it returns, the others
  // later on a separate thread. `show` receives one part and calls back for the next. Call once; updates of drivers are
  // not stored for the next start before this call.
  void restore_experiments(ExperimentRestore::Show show);

  // For a server in the same process; valid until stop().
  HeadAccess& access();
  // Null: no provider of sign-ins is configured. Valid until stop().
  SignOn* sign_on();
  // Sets the function behind v1.Cluster.Login, which returns a fresh sign-in link for the dashboard. Not set initially:
  // no dashboard.
  void set_login_link(std::function<Result<std::string>()> make);
  // Sets the handler of Live/Watch. Not set initially: no dashboard.
  void set_watch(OpenWatch open);
  // The registry with the operations of Cluster; other services register theirs and withdraw them before they end.
  operations::Registry& registry();

 private:
  struct Impl;
  explicit HeadProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Main function of a private cluster's head: starts, calls `on_ready`, serves until `asked` fires, parent_fd becomes
// readable (or its other end is closed) or the head cannot continue, then notifies drivers and stops. Private heads are
// not restarted.
[[nodiscard]] Result<void> run_private_head(HeadOptions options, int parent_fd, const StopSignal& asked,
                                            const std::function<void(const HeadReady&)>& on_ready);

}  // namespace volador::head
