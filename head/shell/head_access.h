// Interface for a server in the same process, such as the dashboard, to a running head; complements its operations
// (runtime/operations/registry.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "head/audit/audit_module.h"
#include "head/kernel/actor_guard.h"
#include "head/shell/authorizer.h"
#include "runtime/files/remote_file.h"
#include "runtime/files/run_files.h"
#include "runtime/result.h"

namespace volador::protocol {
class LogLines;
}
namespace volador::v1 {
class Changes;
class LogLine;
class LogsRequest;
}  // namespace volador::v1
namespace volador::security {
class Authority;
struct Credentials;
}  // namespace volador::security

namespace volador {
class DurationHistogram;
}

namespace volador::head {

class CoreRunner;
class HeadCore;
class LogRings;
class ProgramExchange;

// Number of trailing log lines requested, limited.
size_t tail_of(const v1::LogsRequest& request);

// Thread safe until the head stops. Callbacks run on the core's loop, once (watchers: repeatedly), and must not block;
// the stopping head may drop them.
class HeadAccess {
 public:
  struct Parts {
    CoreRunner& runner;
    Authorizer& authorizer;
    LogRings& logs;  // Only for use on the runner's loop.
    const security::Authority& authority;
    const Clock& clock;
    ProgramExchange& files;
    AuditModule& audit;                       // Only for use on the runner's loop.
    std::shared_ptr<const ActorGuard> guard;  // May be null.
  };
  explicit HeadAccess(Parts parts) : parts_(std::move(parts)) {}

  template <class T>
  using Done = std::function<void(Result<T>)>;

  // See CoreRunner.
  const DurationHistogram& decision_times() const;
  void watch(std::function<void(v1::Changes)> on_changes);
  void watch_logs(std::function<void(const protocol::LogLines&)> on_lines);

  // For services that act as a program of the cluster and read its tables.
  CoreRunner& runner() { return parts_.runner; }
  // The files that workers fetch by hash.
  ProgramExchange& files() { return parts_.files; }

  // Adds an entry to the audit log.
  void record(AuditRequest asked, const Result<void>& outcome);

  // The newest lines of an actor, a trial, or a node with its actors' output, as far as `by` may see them; no support for
  // "head" or following.
  void logs(const v1::LogsRequest& request, const security::Principal& by, Done<std::vector<v1::LogLine>> done);
  // The id, in hex, of the actor that runs or ran an actor or trial that `by` may see.
  void actor_of(std::string id, const security::Principal& by, Done<std::string> done);
  // Whether lines that the actor writes now may be shown to the principal.
  bool shows(ActorId actor, const security::Principal& by) const;
  // See run_file_reader.h.
  void list_run_files(std::string experiment, std::string trial, Done<std::vector<RunFiles::Entry>> done);
  void open_run_file(std::string experiment, std::string trial, std::string name, Done<RemoteFile> done);

  Result<Authorizer::Bearer> bearer(std::string_view text) const { return parts_.authorizer.bearer(text); }
  // Role and user of a token by its id. kUnauthenticated: it does not count, or its user is disabled.
  Result<Authorizer::Bearer> account(const std::string& token_id) const { return parts_.authorizer.account(token_id); }

  // The groups of a user.
  std::vector<std::string> groups_of(std::string_view user) const { return parts_.authorizer.groups_of(user); }
  // kNotFound.
  [[nodiscard]] Result<void> check_group(std::string_view group) const { return parts_.authorizer.check_group(group); }

  // A key and certificate from the cluster's own authority for a server with these names.
  Result<security::Credentials> issue_certificate(const std::vector<std::string>& names) const;
  // A key and certificate for a service in this process that calls actors as a program of the cluster; valid as long as
  // the head's.
  Result<security::Credentials> issue_program_certificate(const std::string& name) const;

 private:
  const Parts parts_;
};

}  // namespace volador::head
