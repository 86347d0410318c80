// Client of the public API (volador.v1.Cluster and volador.v1.Studies), for the command line. Thin: a call is a call, nothing is retried.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/clock.h"
#include "runtime/control/channel.h"
#include "runtime/result.h"
#include "runtime/security/token.h"

namespace volador::v1 {
class StatusRequest;
class StatusReply;
class ListRequest;
class ListNodesReply;
class ListActorsReply;
class ListAuditReply;
class ListGroupsReply;
class ListQueueReply;
class ListTrialsReply;
class ListObjectsReply;
class ExplainRequest;
class ExplainReply;
class StackRequest;
class StackReply;
class NodeProcesses;
class TimelineRequest;
class TimelineReply;
class ListRowsRequest;
class ListRowsReply;
class LogsRequest;
class LogLine;
class CreateTokenRequest;
class CreateTokenReply;
class ListTokensRequest;
class ListTokensReply;
class RevokeTokenRequest;
class RevokeTokenReply;
class DrainRequest;
class DrainReply;
class KillRequest;
class KillReply;
class LoginLinkReply;
class ControlExperimentRequest;
class ControlExperimentReply;
class CreateStudyRequest;
class Study;
class GetStudyRequest;
class ListStudiesReply;
class DeleteStudyRequest;
class DeleteStudyReply;
class ListStudyTrialsRequest;
class ListStudyTrialsReply;
class AskRequest;
class AskReply;
class TellRequest;
class StudyTrial;
class ReportRequest;
class ReportReply;
}  // namespace volador::v1

namespace volador::control {

// Thread safe. Every call blocks for at most `timeout` (kTimeout after it). kUnauthenticated and kPermissionDenied as the head says;
// kUnavailable names what was tried.
class ClusterApi {
 public:
  // bearer: the text of a token, sent as "authorization: Bearer …" where the channel has no certificate. Empty: none.
  explicit ClusterApi(std::shared_ptr<Channel> channel, std::string bearer = {},
                      std::chrono::milliseconds timeout = std::chrono::seconds(10));
  ~ClusterApi();

  // Checks the fingerprint first, so that the token goes to its own cluster only. Errors as join().
  [[nodiscard]] static Result<std::unique_ptr<ClusterApi>> connect(const std::string& address, const security::JoinToken& token,
                                                                   std::chrono::milliseconds timeout, const Clock& clock);

  [[nodiscard]] Result<v1::StatusReply> status();
  [[nodiscard]] Result<v1::ListNodesReply> list_nodes(const v1::ListRequest& request);
  [[nodiscard]] Result<v1::ListActorsReply> list_actors(const v1::ListRequest& request);
  [[nodiscard]] Result<v1::ListGroupsReply> list_groups(const v1::ListRequest& request);
  [[nodiscard]] Result<v1::ListQueueReply> list_queue(const v1::ListRequest& request);
  [[nodiscard]] Result<v1::ListTrialsReply> list_trials(const v1::ListRequest& request);
  [[nodiscard]] Result<v1::ListObjectsReply> list_objects(const v1::ListRequest& request);
  // A page of a live list. kNotFound: the head serves none (--no-dashboard), or the list has another name.
  [[nodiscard]] Result<v1::ListRowsReply> list_rows(const v1::ListRowsRequest& request);
  [[nodiscard]] Result<v1::ExplainReply> explain(const v1::ExplainRequest& request);
  [[nodiscard]] Result<v1::StackReply> stack(const v1::StackRequest& request);
  [[nodiscard]] Result<v1::NodeProcesses> list_processes(const v1::ListRequest& request);
  [[nodiscard]] Result<v1::TimelineReply> timeline(const v1::TimelineRequest& request);
  [[nodiscard]] Result<v1::CreateTokenReply> create_token(const v1::CreateTokenRequest& request);
  [[nodiscard]] Result<v1::ListAuditReply> list_audit(const v1::ListRequest& request);
  [[nodiscard]] Result<v1::ListTokensReply> list_tokens();
  [[nodiscard]] Result<v1::RevokeTokenReply> revoke_token(const v1::RevokeTokenRequest& request);
  [[nodiscard]] Result<v1::DrainReply> drain(const v1::DrainRequest& request);
  [[nodiscard]] Result<v1::KillReply> kill(const v1::KillRequest& request);
  [[nodiscard]] Result<v1::ControlExperimentReply> control_experiment(const v1::ControlExperimentRequest& request);
  [[nodiscard]] Result<v1::LoginLinkReply> login_link();

  [[nodiscard]] Result<v1::Study> create_study(const v1::CreateStudyRequest& request);
  [[nodiscard]] Result<v1::Study> get_study(const v1::GetStudyRequest& request);
  [[nodiscard]] Result<v1::ListStudiesReply> list_studies();
  [[nodiscard]] Result<v1::DeleteStudyReply> delete_study(const v1::DeleteStudyRequest& request);
  [[nodiscard]] Result<v1::ListStudyTrialsReply> list_study_trials(const v1::ListStudyTrialsRequest& request);
  [[nodiscard]] Result<v1::AskReply> ask(const v1::AskRequest& request);
  [[nodiscard]] Result<v1::StudyTrial> tell(const v1::TellRequest& request);
  [[nodiscard]] Result<v1::ReportReply> report(const v1::ReportRequest& request);

  // Calls on_line until the lines end (without follow), the connection is lost (error), or on_line returns false. No timeout.
  [[nodiscard]] Result<void> logs(const v1::LogsRequest& request, const std::function<bool(const v1::LogLine&)>& on_line);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::control
