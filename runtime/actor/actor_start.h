// Steps to start an actor from HostStart, for dedicated and shared hosts. Include from .cc files only: it brings
// protobuf.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/actor/actor_class.h"
#include "runtime/actor/self.h"
#include "runtime/protocol/host.pb.h"
#include "runtime/result.h"

namespace volador {

// kInvalidArgument: no such constructor. kApplication: the constructor threw.
[[nodiscard]] Result<std::shared_ptr<void>> make_object(const ActorClass& actor_class, const std::string& arguments);

Self self_of(const protocol::HostStart& start, const std::filesystem::path& scratch);
int math_threads_of(const protocol::ActorSpec& spec);
bool keeps_checkpoints(const protocol::HostStart& start, const ActorClass& actor_class);

// Builds the report that the actor of `start` accepts calls at this socket.
protocol::FromHost ready_message(const protocol::HostStart& start, const std::string& socket_path);
// Error for a call that addresses another actor or incarnation.
Error other_target(const protocol::HostStart& start, const ActorId& asked, uint64_t epoch);
Error exit_error_of(const std::string& class_name, const ActorId& id);

}  // namespace volador
