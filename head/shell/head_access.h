// What the same process may ask a running head: for a server that lives beside it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "head/shell/gate.h"
#include "runtime/files/remote_file.h"
#include "runtime/files/run_files.h"
#include "runtime/result.h"

namespace volador::protocol {
class LogLines;
}
namespace volador::v1 {
class AnnotateExperimentReply;
class AnnotateExperimentRequest;
class Changes;
class ControlExperimentReply;
class ControlExperimentRequest;
class CreateTokenReply;
class ExplainReply;
class KillReply;
class KillRequest;
class ListAuditReply;
class ListObjectsReply;
class ListRequest;
class LogLine;
class LogsRequest;
class NodeProcesses;
class ReadLogReply;
class ReadLogRequest;
class StackReply;
class TimelineReply;
class TimelineRequest;
class Token;
}  // namespace volador::v1
namespace volador::security {
class Authority;
struct Credentials;
}  // namespace volador::security

namespace volador {
class DurationHistogram;
}

namespace volador::head {

class AuditModule;
struct AuditRequest;
class CoreRunner;
class HeadCore;
class LogRings;

// How many lines at the end of a log the request asks for, limited.
size_t tail_of(const v1::LogsRequest& request);

// Thread safe, until the head stops. Functions given to it run on the core's loop, once (watchers: repeatedly), and must not block; those
// that the stopping head drops are not called.
class HeadAccess {
 public:
  struct Parts {
    CoreRunner& runner;
    AuditModule& audit;  // Used on the runner's loop only.
    Gate& gate;
    LogRings& logs;  // Used on the runner's loop only.
    const security::Authority& authority;
    const Clock& clock;
    std::function<void(const std::string& token_id)> on_revoked;
  };
  explicit HeadAccess(Parts parts) : parts_(std::move(parts)) {}

  template <class T>
  using Done = std::function<void(Result<T>)>;

  // As CoreRunner.
  const DurationHistogram& decision_times() const;
  void watch(std::function<void(v1::Changes)> on_changes);
  void watch_logs(std::function<void(const protocol::LogLines&)> on_lines);

  void explain(std::string id, Done<v1::ExplainReply> done);
  // The newest lines of an actor, a trial, or a node with what its actors wrote; not of "head", and without following.
  void logs(const v1::LogsRequest& request, Done<std::vector<v1::LogLine>> done);
  // Some lines of the whole log of an actor, a trial or a node's worker, or what a search finds in it.
  void read_log(v1::ReadLogRequest request, Done<v1::ReadLogReply> done);
  // As process_views.h has them.
  void stack(std::string id, Done<v1::StackReply> done);
  void timeline(v1::TimelineRequest request, Done<v1::TimelineReply> done);
  // The id of the actor that runs or ran an actor or trial, in hex.
  void actor_of(std::string id, Done<std::string> done);
  // The largest `limit` of all nodes' stores.
  void processes(std::string node, Done<v1::NodeProcesses> done);
  void objects(int limit, Done<v1::ListObjectsReply> done);
  // The newest entries of the audit log first. limit: 1000 where it is 0. filter: a part of by, action, object or outcome.
  void list_audit(v1::ListRequest request, Done<v1::ListAuditReply> done);
  // `by`: id of the token of who asked, for the event and the audit log.
  void drain(std::string node, bool undo, std::string by, Done<void> done);
  void kill(v1::KillRequest request, std::string by, Done<v1::KillReply> done);
  void control_experiment(v1::ControlExperimentRequest request, std::string by, Done<v1::ControlExperimentReply> done);
  void annotate_experiment(v1::AnnotateExperimentRequest request, std::string by, Done<v1::AnnotateExperimentReply> done);
  // As run_file_reader.h.
  void list_run_files(std::string experiment, std::string trial, Done<std::vector<RunFiles::Entry>> done);
  void open_run_file(std::string experiment, std::string trial, std::string name, Done<RemoteFile> done);

  Result<Gate::Bearer> bearer(std::string_view text) const { return parts_.gate.bearer(text); }
  bool token_counts(std::string_view token_id) const { return parts_.gate.counts(token_id); }
  std::vector<v1::Token> list_tokens() const;
  // The reply has the text of the token, which is shown once. `valid_for`: 0: without end.
  void create_token(const std::string& role, std::chrono::milliseconds valid_for, const std::string& note, const std::string& by, Done<v1::CreateTokenReply> done);
  void revoke_token(const std::string& id, const std::string& by, Done<void> done);

  // A key and certificate of the cluster's own authority for a server on these names.
  Result<security::Credentials> issue_certificate(const std::vector<std::string>& names) const;

 private:
  template <class Reply>
  void change(AuditRequest asked, std::function<Result<void>(HeadCore& core, Reply& reply)> step, Done<Reply> done);
  // Writes into the audit log what became of a request; on the loop, within an event of the core.
  void record(const AuditRequest& asked, const Result<void>& outcome) const;
  // The same in an event of its own, of a request that the core does not see.
  void note(AuditRequest asked, const Result<void>& outcome) const;

  const Parts parts_;
};

// What the API and its neighbours show.
v1::Token to_api(const protocol::TokenRecord& record);

}  // namespace volador::head
