// An actor's information about itself: volador::self() inside its methods.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/ids.h"
#include "runtime/resources.h"

namespace volador {

// Identity, placement and resources of the calling actor.
struct Self {
  ActorId id;
  uint64_t epoch = 0;           // Epoch of this incarnation; grows with each restart.
  int restarts = 0;             // 0 in the first incarnation.
  std::string name;             // Empty: unnamed.
  std::string actor_namespace;  // Namespace of its name.
  std::string class_name;
  NodeId node;
  std::string node_name;
  std::string node_address;       // IP address at which other nodes reach this one; empty: unknown.
  ResourceSet resources;          // As granted.
  std::vector<int> gpus;          // Device indices of the node, as in CUDA_VISIBLE_DEVICES.
  std::filesystem::path scratch;  // Path of scratch_directory().

  // Returns a folder of this incarnation, created on the first call and removed after its end. Throws if it cannot be
  // created.
  const std::filesystem::path& scratch_directory() const;
};

// Throws kUnavailable outside an actor.
const Self& self();
// Whether this code runs in an actor or a task.
bool is_inside_actor();

}  // namespace volador
