// Replies computed on another thread and sent on the server's thread. For the .cc files of Api only.
#pragma once

#include "dashboard/api.h"
#include "runtime/operations/registry.h"

namespace volador::dashboard {

template <class T, class Make>
auto Api::later(Respond respond, Make make) {
  return [to_here = to_here_, respond = std::move(respond), make = std::move(make)](Result<T> result) {
    to_here([respond, make, result = std::move(result)] { respond(result ? make(result) : problem(result.error())); });
  };
}

template <class Reply, class Make>
void Api::call_for(std::string_view operation, const Call& call, const google::protobuf::Message& request,
                   Respond respond, Make make) {
  using Shared = operations::Registry::Reply;  // Not copied: a timeline may take megabytes.
  port_.registry().call(operation, call.by, request,
                        later<Shared>(std::move(respond), [make = std::move(make)](const Result<Shared>& reply) {
                          return make(static_cast<const Reply&>(**reply));
                        }));
}

}  // namespace volador::dashboard
