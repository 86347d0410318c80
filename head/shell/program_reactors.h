// The two streams that carry programs. Include from .cc files only: it brings gRPC.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <string>

#include "runtime/protocol/control.pb.h"

namespace volador::head {

class ProgramExchange;

// Each deletes itself when gRPC is done with it. `reply` lives as long as the call.
grpc::ServerReadReactor<protocol::ProgramChunk>* new_put_program(ProgramExchange& programs, protocol::ErrorInfo* reply);
grpc::ServerWriteReactor<protocol::ProgramChunk>* new_get_program(ProgramExchange& programs, std::string sha256);

}  // namespace volador::head
