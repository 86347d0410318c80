// What a process and the relay of its node tell each other (call_relay.h), as bodies of the call channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/serialize/codec.h"

namespace volador::control {

inline constexpr const char* kRelaySocket = "head.sock";            // In the node's run folder.
inline constexpr size_t kRelayedRequestBytesMax = size_t{1} << 20;  // Processes send larger requests themselves.

struct RelayedCall {
  std::string authority;  // Fingerprint of the cluster that the process means.
  std::string path;       // "/volador.v1.Jobs/GetJob".
  std::string bearer;     // Token; empty: none.
  Bytes request;
};
VOLADOR_FIELDS(RelayedCall, authority, path, bearer, request);

// The status of gRPC, and the reply if that is OK.
struct RelayedAnswer {
  int32_t code = 0;
  std::string message;
  Bytes details;
  Bytes reply;
};
VOLADOR_FIELDS(RelayedAnswer, code, message, details, reply);

}  // namespace volador::control
