// Resolves a name or id that a user gives to an actor, a trial, a placement group or a node.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "head/kernel/tables.h"
#include "runtime/result.h"

namespace volador::head {

// Exactly one is set; a trial also has its experiment.
struct Named {
  ActorId actor;
  const Experiment* experiment = nullptr;
  const protocol::TrialRow* trial = nullptr;
  GroupId group;
  NodeId node;
};

class Names {
 public:
  explicit Names(const Tables& tables) : tables_(tables) {}

  // Resolves a name, id, prefix of an id, run/trial or namespace/name; a whole name takes precedence over a prefix of
  // an id. kNotFound: none or several match; the message lists them.
  Result<Named> resolve(std::string_view text) const;
  // The error of resolve() for a text that denotes nothing.
  static Error unknown(std::string_view text);
  // "actor 3f2a91c0 (Learner, alive)", for messages.
  std::string in_words(const Named& named) const;

 private:
  Result<Named> trial_of_run(std::string_view text) const;
  void add_actors_named(std::string_view text, std::vector<Named>& found) const;

  const Tables& tables_;
};

}  // namespace volador::head
