// Requests and replies of operations as JSON, by the descriptors of their messages and the options of operation.proto. Pure.
#pragma once

#include <google/protobuf/message.h>

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "dashboard/request_body.h"
#include "runtime/operations/catalogue.h"
#include "runtime/result.h"

namespace volador::dashboard {

// The members that the body of the route may have.
std::vector<BodyField> body_fields_of(const operations::Entry& operation, const v1::HttpRoute& route);

// The request of a call: `path` has the parameters of the route's pattern, `body` has passed parse_body() with the fields above.
std::unique_ptr<google::protobuf::Message> request_of(const operations::Entry& operation, const v1::HttpRoute& route, const std::map<std::string, std::string>& path,
                                                      const nlohmann::ordered_json& body);

// All fields by their names in the .proto file; 64-bit numbers as numbers, NaN and infinities as null, bytes left out.
nlohmann::ordered_json json_of(const google::protobuf::Message& message);
// The JSON schema of json_of().
nlohmann::ordered_json schema_of(const google::protobuf::Descriptor& message);

}  // namespace volador::dashboard
