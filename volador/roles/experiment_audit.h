// Requests for experiments and models in the audit log.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "head/shell/head_access.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/protocol/volador/v1/models.pb.h"

namespace volador {

// The action and the object of a request in the audit log; none: it changes nothing, or a trial's process sent it.
template <class Request>
std::optional<head::AuditRequest> audit_of(const Request&) {
  return std::nullopt;
}
inline std::optional<head::AuditRequest> audit_of(const v1::ChangeExperimentRequest& request) {
  return head::AuditRequest{
      .by = {}, .action = request.command() + "_experiment", .object = std::to_string(request.id())};
}
inline std::optional<head::AuditRequest> audit_of(const v1::EditExperimentRequest& request) {
  return head::AuditRequest{.by = {}, .action = "edit_experiment", .object = std::to_string(request.id())};
}
inline std::optional<head::AuditRequest> audit_of(const v1::KillTrialRequest& request) {
  return head::AuditRequest{.by = {}, .action = "kill_trial", .object = std::to_string(request.id())};
}
inline std::optional<head::AuditRequest> audit_of(const v1::DeleteCheckpointsRequest& request) {
  std::string ids;
  for (const std::string& id : request.ids()) ids += (ids.empty() ? "" : " ") + id;
  return head::AuditRequest{.by = {}, .action = "delete_checkpoints", .object = std::move(ids)};
}
inline std::optional<head::AuditRequest> audit_of(const v1::CreateModelRequest& request) {
  return head::AuditRequest{.by = {}, .action = "create_model", .object = request.model().name()};
}
inline std::optional<head::AuditRequest> audit_of(const v1::EditModelRequest& request) {
  return head::AuditRequest{.by = {}, .action = "edit_model", .object = request.model()};
}
inline std::optional<head::AuditRequest> audit_of(const v1::DeleteModelRequest& request) {
  return head::AuditRequest{.by = {}, .action = "delete_model", .object = request.model()};
}
inline std::optional<head::AuditRequest> audit_of(const v1::RegisterModelVersionRequest& request) {
  return head::AuditRequest{
      .by = {}, .action = "register_model_version", .object = request.model() + " " + request.version().checkpoint()};
}
inline std::optional<head::AuditRequest> audit_of(const v1::EditModelVersionRequest& request) {
  return head::AuditRequest{
      .by = {}, .action = "edit_model_version", .object = request.model() + " " + std::to_string(request.version())};
}
inline std::optional<head::AuditRequest> audit_of(const v1::DeleteModelVersionRequest& request) {
  return head::AuditRequest{
      .by = {}, .action = "delete_model_version", .object = request.model() + " " + std::to_string(request.version())};
}

}  // namespace volador
