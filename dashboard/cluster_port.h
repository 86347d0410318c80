// What the dashboard's server asks of the head that it lives beside. The head's side of it stands where the two are put together.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "dashboard/live_client.h"
#include "dashboard/sign_in.h"
#include "runtime/files/remote_file.h"
#include "runtime/files/run_files.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/result.h"

namespace volador {
class DurationHistogram;
}
namespace volador::control {
class StudiesPort;
}

namespace volador::dashboard {

struct NewToken {
  std::string id, role;
  std::string text;  // Secret; shown once.
};

// Thread safe; returns at once. `done` runs once on any thread, or never where the head stops meanwhile.
class ClusterPort {
 public:
  template <class T>
  using Done = std::function<void(Result<T>)>;

  virtual ~ClusterPort() = default;
  virtual void explain(const std::string& id, Done<v1::ExplainReply> done) = 0;
  // Of an actor or trial (id), else of a node.
  virtual void logs(const std::string& id, const std::string& node, int tail, Done<LiveClient::FoundLogs> done) = 0;
  // Some lines of the whole log of an actor, a trial or a node's worker, or what a search finds in it.
  virtual void read_log(const v1::ReadLogRequest& request, Done<v1::ReadLogReply> done) = 0;
  // Of the process in which an actor runs. kNotFound; kUnavailable: it has none; kTimeout.
  virtual void stack(const std::string& id, Done<v1::StackReply> done) = 0;
  // Of the whole cluster, or of one actor.
  virtual void timeline(const v1::TimelineRequest& request, Done<v1::TimelineReply> done) = 0;
  // Of a node, by its name or id, asked of it.
  virtual void processes(const std::string& node, Done<v1::NodeProcesses> done) = 0;
  // From now on every line that actors write is handed to Dashboard::add_log_lines; or none any more.
  virtual void follow_logs(bool on) = 0;
  // The largest `limit` objects in the stores of all nodes, asked of them.
  virtual void objects(int limit, Done<v1::ListObjectsReply> done) = 0;
  // `by`, here and below: id of the token of who asks, for the events.
  virtual void drain(const std::string& node, bool undo, const std::string& by, Done<void> done) = 0;
  // An actor, by its id, the start of it, or a name.
  virtual void kill(const v1::KillRequest& request, const std::string& by, Done<v1::KillReply> done) = 0;
  // An experiment that has not ended, or one of its trials.
  virtual void control_experiment(const v1::ControlExperimentRequest& request, const std::string& by, Done<void> done) = 0;
  // Of a run whose files are not to be read on this machine, read where they lie by whoever of the cluster is there. Errors: of who reads
  // them; kInfeasible: nobody is there.
  virtual void list_run_files(const std::string& experiment, const std::string& trial, Done<std::vector<RunFiles::Entry>> done) = 0;
  virtual void open_run_file(const std::string& experiment, const std::string& trial, const std::string& name, Done<RemoteFile> done) = 0;
  // Answered when it is durable.
  virtual void annotate_experiment(const v1::AnnotateExperimentRequest& request, const std::string& by, Done<void> done) = 0;
  // kUnauthenticated; kPermissionDenied: a token that opens nothing here.
  virtual Result<Visitor> bearer(std::string_view token) = 0;
  virtual bool token_counts(const std::string& token_id) = 0;
  virtual std::vector<v1::Token> tokens() = 0;
  virtual void create_token(const std::string& role, std::chrono::milliseconds valid_for, const std::string& note, const std::string& by, Done<NewToken> done) = 0;
  virtual void revoke_token(const std::string& id, const std::string& by, Done<void> done) = 0;
  // Entries of the audit log, the newest first.
  virtual void list_audit(int limit, Done<v1::ListAuditReply> done) = 0;
  // Of the head, from a message to what it decided. Null: there is no head.
  virtual const DurationHistogram* decision_times() const { return nullptr; }
  // Null: there are no studies.
  virtual control::StudiesPort* studies() { return nullptr; }
};

}  // namespace volador::dashboard
