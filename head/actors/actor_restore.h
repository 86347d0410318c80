// Restores actors and their checkpoints from the journal.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "head/kernel/context.h"
#include "head/kernel/tables.h"

namespace volador::head {

class ActorLife;
class ClientModule;
class GroupModule;
class NodeModule;

class ActorRestore {
 public:
  ActorRestore(Context& context, Tables& tables, ActorLife& life, NodeModule& node_module, GroupModule& group_module,
               ClientModule& client_module)
      : context_(context),
        actors_(tables.actors),
        checkpoints_(tables.checkpoints),
        handles_(tables.handles),
        groups_(tables.groups),
        life_(life),
        node_module_(node_module),
        group_module_(group_module),
        client_module_(client_module) {}

  // Loads journal rows; call before restore(). An actor's spec and state are separate rows.
  void load_spec(std::string_view key, protocol::ActorRecord record) {
    loaded_[std::string(key)].spec = std::move(record);
  }
  void load_state(std::string_view key, protocol::ActorRecord record) {
    loaded_[std::string(key)].state = std::move(record);
  }
  // Returns false if the checkpoint exceeds a limit.
  bool load_checkpoint(std::string_view key, protocol::Checkpoint checkpoint);
  bool has_loaded() const { return !loaded_.empty(); }

  // Call after the groups are restored. Ends actors whose owner or group is gone.
  void restore();

 private:
  struct Rows {
    std::optional<protocol::ActorRecord> spec, state;
  };
  void restore_actor(const std::string& key, const protocol::ActorRecord& spec, const protocol::ActorRecord& state);

  Context& context_;
  ActorDirectory& actors_;
  CheckpointTable& checkpoints_;
  HandleTable& handles_;
  const GroupTable& groups_;
  ActorLife& life_;
  NodeModule& node_module_;
  GroupModule& group_module_;
  ClientModule& client_module_;
  std::map<std::string, Rows> loaded_;
};

}  // namespace volador::head
