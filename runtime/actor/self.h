// What an actor knows of itself: volador::self() inside its methods.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/ids.h"
#include "runtime/resources.h"

namespace volador {

struct Self {
  ActorId id;
  uint64_t epoch = 0;    // Of this incarnation; grows with each restart.
  int restarts = 0;      // 0 in the first incarnation.
  std::string name;      // Empty: unnamed.
  std::string actor_namespace;  // Of its name.
  std::string class_name;
  NodeId node;
  std::string node_name;
  ResourceSet resources;  // As granted.
  std::vector<int> gpus;  // Device indices of the node, as in CUDA_VISIBLE_DEVICES.
  std::filesystem::path scratch;  // Where scratch_directory() lies.

  // A folder of this incarnation's, made with the first call and removed after its end. Throws where it cannot be made.
  const std::filesystem::path& scratch_directory() const;
};

// Throws kUnavailable outside an actor.
const Self& self();
// Whether this code runs in an actor or a task.
bool is_inside_actor();

}  // namespace volador
