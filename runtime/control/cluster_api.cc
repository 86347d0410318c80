#include "runtime/control/cluster_api.h"

#include "runtime/control/unary.h"
#include "runtime/protocol/volador/v1/cluster.grpc.pb.h"
#include "runtime/protocol/volador/v1/live.grpc.pb.h"
#include "runtime/protocol/volador/v1/studies.grpc.pb.h"
#include "runtime/security/handshake.h"

namespace volador::control {

using Stub = v1::Cluster::Stub;
using StudyStub = v1::Studies::Stub;

struct ClusterApi::Impl {
  std::shared_ptr<Channel> channel;
  security::Secret bearer;
  std::chrono::milliseconds timeout;
  std::unique_ptr<Stub> stub;
  std::unique_ptr<StudyStub> studies;
  std::unique_ptr<v1::Live::Stub> live;

  void prepare(grpc::ClientContext& context) const {
    if (!bearer.empty()) context.AddMetadata("authorization", "Bearer " + bearer.reveal());
  }

  template <class Request, class Reply>
  Result<Reply> call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*), const Request& request) {
    grpc::ClientContext context;
    set_timeout(context, timeout);
    prepare(context);
    return ask_once(*channel, *stub, method, context, request);
  }
  template <class Request, class Reply>
  Result<Reply> call(grpc::Status (StudyStub::*method)(grpc::ClientContext*, const Request&, Reply*), const Request& request) {
    grpc::ClientContext context;
    set_timeout(context, timeout);
    prepare(context);
    return ask_once(*channel, *studies, method, context, request);
  }
};

ClusterApi::ClusterApi(std::shared_ptr<Channel> channel, std::string bearer, std::chrono::milliseconds timeout)
    : impl_(std::make_unique<Impl>(Impl{.channel = std::move(channel),
                                        .bearer = security::Secret(std::move(bearer)),
                                        .timeout = timeout,
                                        .stub = nullptr,
                                        .studies = nullptr,
                                        .live = nullptr})) {
  impl_->stub = v1::Cluster::NewStub(impl_->channel->grpc());
  impl_->studies = v1::Studies::NewStub(impl_->channel->grpc());
  impl_->live = v1::Live::NewStub(impl_->channel->grpc());
}

ClusterApi::~ClusterApi() = default;

Result<std::unique_ptr<ClusterApi>> ClusterApi::connect(const std::string& address, const security::JoinToken& token,
                                                        std::chrono::milliseconds timeout, const Clock& clock) {
  VOLADOR_TRY(prepare_grpc());
  auto head = security::probe_expected(address, token.authority, timeout, clock);
  if (!head) return make_error(head.error());
  auto channel = std::make_shared<Channel>(
      address, security::Credentials{.certificate_pem = {}, .key_pem = {}, .authority_pem = head->authority_pem});
  return std::make_unique<ClusterApi>(std::move(channel), security::token_text(token).reveal(), timeout);
}

Result<v1::StatusReply> ClusterApi::status() { return impl_->call(&Stub::Status, v1::StatusRequest()); }
Result<v1::ListNodesReply> ClusterApi::list_nodes(const v1::ListRequest& request) {
  return impl_->call(&Stub::ListNodes, request);
}
Result<v1::ListActorsReply> ClusterApi::list_actors(const v1::ListRequest& request) {
  return impl_->call(&Stub::ListActors, request);
}
Result<v1::ListGroupsReply> ClusterApi::list_groups(const v1::ListRequest& request) {
  return impl_->call(&Stub::ListGroups, request);
}

Result<v1::ListQueueReply> ClusterApi::list_queue(const v1::ListRequest& request) {
  return impl_->call(&Stub::ListQueue, request);
}
Result<v1::ListTrialsReply> ClusterApi::list_trials(const v1::ListRequest& request) {
  return impl_->call(&Stub::ListTrials, request);
}
Result<v1::ListObjectsReply> ClusterApi::list_objects(const v1::ListRequest& request) {
  return impl_->call(&Stub::ListObjects, request);
}
Result<v1::ListRowsReply> ClusterApi::list_rows(const v1::ListRowsRequest& request) {
  grpc::ClientContext context;
  set_timeout(context, impl_->timeout);
  impl_->prepare(context);
  return ask_once(*impl_->channel, *impl_->live, &v1::Live::Stub::List, context, request);
}
Result<v1::ExplainReply> ClusterApi::explain(const v1::ExplainRequest& request) {
  return impl_->call(&Stub::Explain, request);
}
Result<v1::StackReply> ClusterApi::stack(const v1::StackRequest& request) { return impl_->call(&Stub::Stack, request); }
Result<v1::NodeProcesses> ClusterApi::list_processes(const v1::ListRequest& request) { return impl_->call(&Stub::ListProcesses, request); }
Result<v1::TimelineReply> ClusterApi::timeline(const v1::TimelineRequest& request) { return impl_->call(&Stub::Timeline, request); }
Result<v1::CreateTokenReply> ClusterApi::create_token(const v1::CreateTokenRequest& request) {
  return impl_->call(&Stub::CreateToken, request);
}
Result<v1::ListAuditReply> ClusterApi::list_audit(const v1::ListRequest& request) { return impl_->call(&Stub::ListAudit, request); }
Result<v1::ListTokensReply> ClusterApi::list_tokens() { return impl_->call(&Stub::ListTokens, v1::ListTokensRequest()); }
Result<v1::RevokeTokenReply> ClusterApi::revoke_token(const v1::RevokeTokenRequest& request) {
  return impl_->call(&Stub::RevokeToken, request);
}
Result<v1::DrainReply> ClusterApi::drain(const v1::DrainRequest& request) { return impl_->call(&Stub::Drain, request); }
Result<v1::KillReply> ClusterApi::kill(const v1::KillRequest& request) { return impl_->call(&Stub::Kill, request); }
Result<v1::ControlExperimentReply> ClusterApi::control_experiment(const v1::ControlExperimentRequest& request) {
  return impl_->call(&Stub::ControlExperiment, request);
}
Result<v1::LoginLinkReply> ClusterApi::login_link() { return impl_->call(&Stub::LoginLink, v1::LoginLinkRequest()); }

Result<v1::Study> ClusterApi::create_study(const v1::CreateStudyRequest& request) {
  return impl_->call(&StudyStub::CreateStudy, request);
}
Result<v1::Study> ClusterApi::get_study(const v1::GetStudyRequest& request) { return impl_->call(&StudyStub::GetStudy, request); }
Result<v1::ListStudiesReply> ClusterApi::list_studies() { return impl_->call(&StudyStub::ListStudies, v1::ListStudiesRequest()); }
Result<v1::DeleteStudyReply> ClusterApi::delete_study(const v1::DeleteStudyRequest& request) {
  return impl_->call(&StudyStub::DeleteStudy, request);
}
Result<v1::ListStudyTrialsReply> ClusterApi::list_study_trials(const v1::ListStudyTrialsRequest& request) {
  return impl_->call(&StudyStub::ListStudyTrials, request);
}
Result<v1::AskReply> ClusterApi::ask(const v1::AskRequest& request) { return impl_->call(&StudyStub::Ask, request); }
Result<v1::StudyTrial> ClusterApi::tell(const v1::TellRequest& request) { return impl_->call(&StudyStub::Tell, request); }
Result<v1::ReportReply> ClusterApi::report(const v1::ReportRequest& request) { return impl_->call(&StudyStub::Report, request); }

Result<void> ClusterApi::logs(const v1::LogsRequest& request, const std::function<bool(const v1::LogLine&)>& on_line) {
  grpc::ClientContext context;
  impl_->prepare(context);
  const auto reader = impl_->stub->Logs(&context, request);
  v1::LogLine line;
  while (reader->Read(&line)) {
    if (!on_line(line)) {
      context.TryCancel();
      reader->Finish();
      return {};
    }
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return make_error(from_status(status, impl_->channel->address()));
  return {};
}

}  // namespace volador::control
