#include "volador/roles/katib_suggestion_server.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <utility>

#include "experiments/katib/median_stop.h"
#include "experiments/katib/own_suggestions.h"
#include "runtime/control/channel.h"
#include "runtime/control/status.h"
#include "runtime/protocol/katib/v1beta1/api.grpc.pb.h"

namespace volador {
namespace {

using namespace ::api::v1::beta1;  // NOLINT: names of the protocol only.

constexpr std::chrono::seconds kLogDeadline{10};

grpc::Status status_of_suggestion(const Error& error) {
  // Katib's client takes an unknown algorithm for a wrong argument.
  if (error.code == ErrorCode::kNotFound) return {grpc::StatusCode::INVALID_ARGUMENT, error.message};
  return control::to_status(error);
}

class ServedSuggestion final : public Suggestion::Service {
  grpc::Status GetSuggestions(grpc::ServerContext*, const GetSuggestionsRequest* request,
                              GetSuggestionsReply* reply) override {
    auto made = experiments::katib::OwnSuggestions().suggest(*request);
    if (!made) return status_of_suggestion(made.error());
    *reply = std::move(*made);
    return grpc::Status::OK;
  }
  grpc::Status ValidateAlgorithmSettings(grpc::ServerContext*, const ValidateAlgorithmSettingsRequest* request,
                                         ValidateAlgorithmSettingsReply*) override {
    const auto valid = experiments::katib::OwnSuggestions().validate(request->experiment());
    return valid ? grpc::Status::OK : status_of_suggestion(valid.error());
  }
};

class ServedEarlyStopping final : public EarlyStopping::Service {
  grpc::Status GetEarlyStoppingRules(grpc::ServerContext* context, const GetEarlyStoppingRulesRequest* request,
                                     GetEarlyStoppingRulesReply* reply) override {
    if (request->db_manager_address().empty())
      return {grpc::StatusCode::INVALID_ARGUMENT, "db_manager_address is empty; expected host:port of a DBManager"};
    const auto channel = grpc::CreateChannel(request->db_manager_address(), grpc::InsecureChannelCredentials());
    DBManager::Stub store(channel);
    experiments::katib::ObjectiveLogs logs;
    for (const Trial& trial : request->trials()) {
      if (trial.status().condition() != TrialStatus::SUCCEEDED) continue;
      if (context->IsCancelled()) return grpc::Status::CANCELLED;
      GetObservationLogRequest wanted;
      wanted.set_trial_name(trial.name());
      wanted.set_metric_name(request->experiment().spec().objective().objective_metric_name());
      GetObservationLogReply log;
      grpc::ClientContext call;
      call.set_deadline(std::chrono::system_clock::now() + kLogDeadline);
      if (const grpc::Status read = store.GetObservationLog(&call, wanted, &log); !read.ok()) {
        return {grpc::StatusCode::UNAVAILABLE, fmt::format("the log of trial {} at {}: {}", trial.name(),
                                                           request->db_manager_address(), read.error_message())};
      }
      std::vector<double>& values = logs[trial.name()];
      for (const MetricLog& one : log.observation_log().metric_logs()) {
        const std::string& text = one.metric().value();
        double value = 0;
        const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (failed == std::errc() && end == text.data() + text.size() && std::isfinite(value)) values.push_back(value);
      }
    }
    auto made = experiments::katib::median_stop_rules(request->experiment(), request->trials(), logs);
    if (!made) return status_of_suggestion(made.error());
    *reply = std::move(*made);
    return grpc::Status::OK;
  }
  grpc::Status SetTrialStatus(grpc::ServerContext*, const SetTrialStatusRequest*, SetTrialStatusReply*) override {
    return {grpc::StatusCode::UNIMPLEMENTED, "the controller of a trial sets its status"};
  }
  grpc::Status ValidateEarlyStoppingSettings(grpc::ServerContext*, const ValidateEarlyStoppingSettingsRequest* request,
                                             ValidateEarlyStoppingSettingsReply*) override {
    const auto settings = experiments::katib::median_stop_settings(request->early_stopping());
    return settings ? grpc::Status::OK : status_of_suggestion(settings.error());
  }
};

}  // namespace

struct KatibSuggestionServer::Impl {
  ServedSuggestion suggestion;
  ServedEarlyStopping early_stopping;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

KatibSuggestionServer::KatibSuggestionServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

KatibSuggestionServer::~KatibSuggestionServer() {
  impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  impl_->server->Wait();
}

uint16_t KatibSuggestionServer::port() const { return static_cast<uint16_t>(impl_->port); }

Result<std::unique_ptr<KatibSuggestionServer>> KatibSuggestionServer::start(const std::string& address, uint16_t port) {
  VOLADOR_TRY(control::prepare_grpc());
  grpc::EnableDefaultHealthCheckService(true);
  auto impl = std::make_unique<Impl>();
  const std::string place = fmt::format("{}:{}", address, port);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(static_cast<int>(control::kMessageBytesMax));
  builder.SetMaxSendMessageSize(static_cast<int>(control::kMessageBytesMax));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(place, grpc::InsecureServerCredentials(), &impl->port);
  builder.RegisterService(&impl->suggestion);
  builder.RegisterService(&impl->early_stopping);
  impl->server = builder.BuildAndStart();
  if (!impl->server || impl->port == 0) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("cannot listen at {}; choose another --port, or 0 for any free one", place));
  }
  // The names that Katib's probes ask for.
  for (const char* name : {"manager.v1beta1.Suggestion", "manager.v1beta1.EarlyStopping"})
    impl->server->GetHealthCheckService()->SetServingStatus(name, true);
  return std::unique_ptr<KatibSuggestionServer>(new KatibSuggestionServer(std::move(impl)));
}

}  // namespace volador
