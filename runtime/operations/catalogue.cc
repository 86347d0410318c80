#include "runtime/operations/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>

#include <array>
#include <unordered_map>

#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/katib/v1beta1/api.pb.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/protocol/volador/v1/katib.pb.h"
#include "runtime/protocol/volador/v1/live.pb.h"
#include "runtime/protocol/volador/v1/models.pb.h"
#include "runtime/protocol/volador/v1/studies.pb.h"
#include "runtime/protocol/volador/v1/tensorboards.pb.h"
#include "runtime/protocol/volador/v1/users.pb.h"
#include "runtime/result.h"

namespace volador::operations {
namespace {

struct Catalogue {
  std::vector<Entry> entries;
  std::unordered_map<std::string_view, const Entry*> by_name, by_path;
};

std::array<const google::protobuf::FileDescriptor*, 11> files() {
  return {protocol::JoinRequest::descriptor()->file(),
          v1::DrainRequest::descriptor()->file(),
          v1::WatchRequest::descriptor()->file(),
          v1::AskRequest::descriptor()->file(),
          v1::SubmitJobRequest::descriptor()->file(),
          v1::LoginRequest::descriptor()->file(),
          v1::CreateExperimentRequest::descriptor()->file(),
          v1::ApplyKatibResourcesRequest::descriptor()->file(),
          api::v1::beta1::ReportObservationLogRequest::descriptor()->file(),
          v1::CreateModelRequest::descriptor()->file(),
          v1::StartTensorBoardRequest::descriptor()->file()};
}

const Catalogue& all() {
  static const Catalogue made = [] {
    Catalogue out;
    for (const auto* file : files()) {
      for (int s = 0; s < file->service_count(); ++s) {
        const auto* service = file->service(s);
        for (int m = 0; m < service->method_count(); ++m) {
          const auto* method = service->method(m);
          if (!method->options().HasExtension(v1::operation)) continue;  // Served by other processes than the head.
          out.entries.push_back({.name = service->name() + "/" + method->name(),
                                 .path = fmt::format("/{}/{}", service->full_name(), method->name()),
                                 .method = method,
                                 .rule = &method->options().GetExtension(v1::operation)});
        }
      }
    }
    for (const Entry& entry : out.entries) {
      out.by_name[entry.name] = &entry;
      out.by_path[entry.path] = &entry;
    }
    return out;
  }();
  return made;
}

const Entry* look_up(const std::unordered_map<std::string_view, const Entry*>& entries, std::string_view key) {
  const auto found = entries.find(key);
  return found == entries.end() ? nullptr : found->second;
}

}  // namespace

std::span<const Entry> catalogue() { return all().entries; }
const Entry* find(std::string_view name) { return look_up(all().by_name, name); }
const Entry* find_path(std::string_view path) { return look_up(all().by_path, path); }

const google::protobuf::ServiceDescriptor& service_named(std::string_view name) {
  const google::protobuf::ServiceDescriptor* found = nullptr;
  for (const auto* file : files()) {
    if (const auto* service = file->FindServiceByName(std::string(name))) found = service;
  }
  VOLADOR_CHECK(found != nullptr, name);
  return *found;
}

bool allows(v1::Access access, security::Role role) {
  using security::Role;
  switch (access) {
    case v1::OPEN:
      return true;
    case v1::NODE:
      return role == Role::kNode;
    case v1::READ:
      return role == Role::kViewer || role == Role::kDriver || role == Role::kOperator;
    case v1::PROGRAM:
    case v1::SUBMIT:
      return role == Role::kDriver || role == Role::kOperator;
    case v1::OPERATE:
      return role == Role::kOperator;
    default:
      return false;
  }
}

bool takes_token(v1::Access access) { return access == v1::READ || access == v1::OPERATE || access == v1::SUBMIT; }

std::string roles_of(v1::Access access) {
  switch (access) {
    case v1::NODE:
      return "node";
    case v1::PROGRAM:
    case v1::SUBMIT:
      return "driver or operator";
    case v1::READ:
      return "viewer, driver or operator";
    default:
      return "operator";
  }
}

security::TokenRole token_role_for(v1::Access access) {
  switch (access) {
    case v1::NODE:
      return security::TokenRole::kJoin;
    case v1::PROGRAM:
    case v1::SUBMIT:
      return security::TokenRole::kDriver;
    case v1::READ:
      return security::TokenRole::kViewer;
    default:
      return security::TokenRole::kOperator;
  }
}

}  // namespace volador::operations
