// Interface of the dashboard to the head in its process. Implemented in volador/roles.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dashboard/live_client.h"
#include "dashboard/sign_in.h"
#include "runtime/files/remote_file.h"
#include "runtime/files/run_files.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"

namespace volador {
class DurationHistogram;
}
namespace volador::security {
class SignOnService;
}
namespace volador::operations {
class Registry;
}

namespace volador::dashboard {

// Thread safe; returns at once. `done` runs once on any thread; a stopping head may drop it.
class ClusterPort {
 public:
  template <class T>
  using Done = std::function<void(Result<T>)>;

  virtual ~ClusterPort() = default;
  // The operations called by the HTTP API: Cluster, Studies, Jobs and Users.
  virtual operations::Registry& registry() = 0;
  // The newest lines of an actor or trial (id), or of a node, as far as `by` may see them.
  virtual void logs(const security::Principal& by, const std::string& id, const std::string& node, int tail,
                    Done<LiveClient::FoundLogs> done) = 0;
  // While on, each line written by actors is passed to Dashboard::add_log_lines.
  virtual void follow_logs(bool on) = 0;
  // Access to run files that this machine cannot read, through a process of the cluster that can. Errors: those of that
  // process; kInfeasible: there is none.
  virtual void list_run_files(const std::string& experiment, const std::string& trial,
                              Done<std::vector<RunFiles::Entry>> done) = 0;
  virtual void open_run_file(const std::string& experiment, const std::string& trial, const std::string& name,
                             Done<RemoteFile> done) = 0;
  // kUnauthenticated; kPermissionDenied: the token's role has no access to the dashboard.
  virtual Result<Visitor> bearer(std::string_view token) = 0;
  // The most that the token's bearer may do now; nullopt: the token does not count any more.
  virtual std::optional<Access> access_of(const std::string& token_id) = 0;
  // Sign-in by a provider. Null: none is configured.
  virtual security::SignOnService* sign_on() { return nullptr; }
  // Times from message arrival to decision in the head. Null: there is no head.
  virtual const DurationHistogram* decision_times() const { return nullptr; }
};

}  // namespace volador::dashboard
