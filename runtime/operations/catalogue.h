// The operations of the head: the methods of its gRPC services with the options of operation.proto. Immutable after the first use.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/protocol/volador/v1/operation.pb.h"
#include "runtime/security/role.h"

namespace google::protobuf {
class MethodDescriptor;
class ServiceDescriptor;
}  // namespace google::protobuf

namespace volador::operations {

struct Entry {
  std::string name;  // "Cluster/Drain".
  std::string path;  // "/volador.v1.Cluster/Drain".
  const google::protobuf::MethodDescriptor* method = nullptr;
  const v1::Operation* rule = nullptr;
};

// All methods of Control, Cluster, Live, Studies, Jobs and Users.
std::span<const Entry> catalogue();
// Null: there is no such operation.
const Entry* find(std::string_view name);
const Entry* find_path(std::string_view path);
// Aborts where there is no such service: "Cluster".
const google::protobuf::ServiceDescriptor& service_named(std::string_view name);

bool allows(v1::Access access, security::Role role);
// Whether the bearer of a token may call it without a certificate.
bool takes_token(v1::Access access);
// The roles that may call it: "viewer, driver or operator".
std::string roles_of(v1::Access access);
// The role of the least powerful token with which it can be called.
security::TokenRole token_role_for(v1::Access access);

}  // namespace volador::operations
