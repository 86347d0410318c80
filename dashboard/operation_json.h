// Requests and replies of operations as JSON, based on message descriptors and the options of operation.proto. Pure.
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

// The allowed members of the route's body.
std::vector<BodyField> body_fields_of(const operations::Entry& operation, const v1::HttpRoute& route);

// The request of a call: `path` has the parameters of the route's pattern; `body` was validated by parse_body() with
// the fields above. kInvalidArgument: a parameter of the path is no whole number where the field is one.
[[nodiscard]] Result<std::unique_ptr<google::protobuf::Message>> request_of(
    const operations::Entry& operation, const v1::HttpRoute& route, const std::map<std::string, std::string>& path,
    const nlohmann::ordered_json& body);

// All fields by their .proto names; 64-bit numbers as numbers, NaN and infinities as null, bytes as base64. A field
// with the option `json` is the value itself, and absent if the text is empty.
nlohmann::ordered_json json_of(const google::protobuf::Message& message);
// The JSON schema of json_of().
nlohmann::ordered_json schema_of(const google::protobuf::Descriptor& message);

}  // namespace volador::dashboard
