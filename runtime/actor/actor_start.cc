#include "runtime/actor/actor_start.h"

#include <fmt/format.h>
#include <unistd.h>

#include "runtime/paths.h"
#include "runtime/protocol/resource_map.h"

namespace volador {

Result<std::shared_ptr<void>> make_object(const ActorClass& actor_class, const std::string& arguments) {
  std::shared_ptr<void> made;
  auto outcome = guarded([&]() -> Result<std::string> {
    Decoder decoder(arguments);
    decoder.array();
    decoder.unsigned_integer();
    const uint64_t constructor = decoder.unsigned_integer();
    const auto found = actor_class.constructors.find(constructor);
    if (decoder.failed() || found == actor_class.constructors.end()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("class {} has no such constructor in this program", actor_class.name));
    }
    auto object = found->second(arguments);
    if (!object) return make_error(std::move(object).error());
    made = std::move(*object);
    return std::string();
  });
  if (!outcome) return make_error(std::move(outcome).error());
  return made;
}

const std::filesystem::path& Self::scratch_directory() const {
  if (auto made = make_private_directory(scratch); !made) throw Exception(std::move(made).error());
  return scratch;
}

Self self_of(const protocol::HostStart& start, const std::filesystem::path& scratch) {
  const protocol::ActorSpec& spec = start.start().spec();
  Self self;
  self.id = id_from_raw<ActorId>(spec.actor_id());
  self.epoch = start.start().epoch();
  self.restarts = start.start().restarts();
  self.name = spec.name();
  self.actor_namespace = spec.namespace_();
  self.class_name = spec.class_name();
  self.node = id_from_raw<NodeId>(start.node_id());
  self.node_name = start.node_name();
  self.node_address = start.data_address().substr(0, start.data_address().rfind(':'));
  if (self.node_address.starts_with('[')) self.node_address = self.node_address.substr(1, self.node_address.size() - 2);
  self.resources = resources_of(spec.resources());
  self.gpus.assign(start.start().gpus().begin(), start.start().gpus().end());
  self.scratch = scratch;
  return self;
}

int math_threads_of(const protocol::ActorSpec& spec) {
  return static_cast<int>(resources_of(spec.resources()).get("cpus") / kUnit);
}

bool keeps_checkpoints(const protocol::HostStart& start, const ActorClass& actor_class) {
  const protocol::ActorSpec& spec = start.start().spec();
  const bool saves = actor_class.save_checkpoint && (spec.checkpoint_calls() > 0 || spec.checkpoint_interval_ms() > 0);
  return saves || start.start().has_checkpoint();
}

protocol::FromHost ready_message(const protocol::HostStart& start, const std::string& socket_path) {
  const std::string& process = start.shared_host_id().empty() ? start.start().host_id() : start.shared_host_id();
  protocol::FromHost message;
  message.set_host_id(start.shared_host_id().empty() ? std::string() : start.start().host_id());
  auto& ready = *message.mutable_ready();
  ready.set_host_id(start.start().host_id());
  ready.set_actor_id(start.start().spec().actor_id());
  ready.set_epoch(start.start().epoch());
  ready.set_ready(true);
  ready.set_pid(::getpid());
  ready.mutable_address()->set_host_id(process);
  ready.mutable_address()->set_machine_id(start.machine_id());
  ready.mutable_address()->set_unix_path(socket_path);
  ready.mutable_address()->set_tcp_address(start.data_address());
  return message;
}

Error other_target(const protocol::HostStart& start, const ActorId& asked, uint64_t epoch) {
  return {ErrorCode::kUnavailable, fmt::format("this host runs actor {} at epoch {}, the call is for {} at epoch {}",
                                               short_id(id_from_raw<ActorId>(start.start().spec().actor_id())),
                                               start.start().epoch(), short_id(asked), epoch)};
}

Error exit_error_of(const std::string& class_name, const ActorId& id) {
  return {ErrorCode::kActorDied, fmt::format("actor {} {} ended itself by exit_actor()", class_name, short_id(id))};
}

}  // namespace volador
