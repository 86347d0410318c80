// The two streams that transfer programs. Include from .cc files only: it includes gRPC.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <string>

#include "runtime/protocol/control.pb.h"

namespace volador::head {

class ProgramExchange;

// Both delete themselves when gRPC releases them. `reply` lives as long as the call.
grpc::ServerReadReactor<protocol::ProgramChunk>* new_put_program(ProgramExchange& programs, protocol::ErrorInfo* reply);
grpc::ServerWriteReactor<protocol::ProgramChunk>* new_get_program(ProgramExchange& programs, std::string sha256);

}  // namespace volador::head
