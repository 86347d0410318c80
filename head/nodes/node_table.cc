#include "head/nodes/node_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "head/kernel/wire.h"
#include "runtime/quantities.h"

namespace volador::head {
namespace {

constexpr int kGpusMax = 1024;  // Per node.

}  // namespace

std::string_view to_string(NodeState state) {
  switch (state) {
    case NodeState::kAwaited:
      return "awaited";
    case NodeState::kAlive:
      return "alive";
    case NodeState::kSuspect:
      return "suspect";
    case NodeState::kDead:
      return "dead";
  }
  return "unknown";
}

std::string Node::why_not_placeable() const {
  if (state == NodeState::kSuspect) return session ? "suspect (silent)" : "suspect (connection lost)";
  if (state != NodeState::kAlive) return std::string(to_string(state));
  if (stopping) return "stopping";
  if (draining) return "draining";
  return own_problem() != nullptr ? std::string(kUnhealthy) : "";
}

const NodeProblem* Node::own_problem() const {
  const auto own = std::find_if(problems.begin(), problems.end(),
                                [](const NodeProblem& problem) { return !problem.found.has_gpu(); });
  return own == problems.end() ? nullptr : &*own;
}

Result<NodeTable::Verdict> NodeTable::check(NodeSession session, const protocol::Register& message) const {
  const auto id = id_from_raw<NodeId>(message.node_id());
  if (sessions_.contains(static_cast<uint64_t>(session))) return Verdict::kRepeated;
  if (id.is_nil() || message.incarnation().empty() || message.incarnation().size() > limits_.name_bytes) {
    return make_error(ErrorCode::kInvalidArgument,
                      "Register: node_id takes 16 bytes and incarnation at least 1; this worker sent others");
  }
  if (message.name().empty() || message.name().size() > limits_.name_bytes) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("node name: expected 1 to {} bytes, got {}; start the node with --name=NAME",
                                  limits_.name_bytes, message.name().size()));
  }
  if (message.gpus_size() > kGpusMax) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("node {}: expected at most {} GPUs, got {}; start it with --num-gpus", message.name(),
                                  kGpusMax, message.gpus_size()));
  }
  if (message.labels().size() > limits_.labels) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("node {}: expected at most {}, got {}; give fewer in --labels", message.name(),
                                  counted(limits_.labels, "label"), message.labels().size()));
  }
  if (const Node* first = holder(message.name()); first != nullptr && first->id != id) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "node name \"{}\" is taken by node {}{} ({}); start this one with --name=OTHER, or stop that one first",
            message.name(), short_id(first->id), first->data_address.empty() ? "" : " at " + first->data_address,
            to_string(first->state)));
  }
  const Node* known = find(id);
  if (known == nullptr || !known->is_member()) {
    if (members() >= limits_.nodes) {
      return make_error(ErrorCode::kUnavailable, fmt::format("the cluster has {}, its limit; node {} was not admitted",
                                                             counted(members(), "node"), message.name()));
    }
    return Verdict::kNew;
  }
  if (known->incarnation != message.incarnation()) return Verdict::kRestarted;
  if (message.sent_boot_ns() < known->registered_boot_ns) return Verdict::kOlder;
  return Verdict::kReconnected;
}

std::optional<NodeSession> NodeTable::admit(BootTime now, NodeSession session, const protocol::Register& message,
                                            const ResourceSet& total) {
  const auto id = id_from_raw<NodeId>(message.node_id());
  Node& node = nodes_[id];
  const std::optional<NodeSession> replaced = node.session;
  detach(node);
  if (!node.name.empty() && node.is_member()) names_.erase(node.name);
  std::erase(dead_, id);
  node.id = id;
  node.name = message.name();
  node.incarnation = message.incarnation();
  node.version = message.version();
  node.machine_id = message.machine_id();
  node.data_address = message.data_address();
  node.store_socket = message.store_socket();
  node.total = total;
  node.gpus.assign(message.gpus().begin(), message.gpus().end());
  node.labels = labels_from(message.labels());
  node.state = NodeState::kAlive;
  node.session = session;
  node.registered_boot_ns = message.sent_boot_ns();
  node.last_heard = now;
  node.stopping = message.stopping();
  node.why_dead = {};
  node.is_lost = false;
  names_[node.name] = id;
  sessions_[static_cast<uint64_t>(session)] = id;
  return replaced;
}

Node& NodeTable::restore(NodeId id, const std::string& name, const std::string& incarnation, bool draining) {
  Node& node = nodes_[id];
  node.id = id;
  node.name = name;
  node.incarnation = incarnation;
  node.draining = draining;
  if (!name.empty()) names_[name] = id;
  return node;
}

Node* NodeTable::lost(NodeSession session) {
  Node* node = find(session);
  if (node == nullptr) return nullptr;
  detach(*node);
  if (node->is_member()) node->state = NodeState::kSuspect;
  return node;
}

void NodeTable::detach(Node& node) {
  if (node.session) sessions_.erase(static_cast<uint64_t>(*node.session));
  node.session.reset();
}

void NodeTable::mark_dead(Node& node, Reason why, bool is_lost) {
  if (!node.is_member()) return;
  detach(node);
  const auto name = names_.find(node.name);
  if (name != names_.end() && name->second == node.id) names_.erase(name);
  node.state = NodeState::kDead;
  node.draining = false;
  node.stopping = false;
  node.problems.clear();
  node.why_dead = std::move(why);
  node.is_lost = is_lost;
  dead_.push_back(node.id);
  if (dead_.size() > limits_.dead_nodes) {
    const NodeId oldest = dead_.front();
    dead_.erase(dead_.begin());
    nodes_.erase(oldest);
  }
}

size_t NodeTable::lost_nodes() const {
  return static_cast<size_t>(std::count_if(dead_.begin(), dead_.end(), [this](NodeId id) {
    const Node& node = nodes_.at(id);
    return node.is_lost && holder(node.name) == nullptr;
  }));
}

Node* NodeTable::find(NodeId id) {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : &found->second;
}

const Node* NodeTable::find(NodeId id) const {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : &found->second;
}

Node* NodeTable::find(NodeSession session) {
  const auto found = sessions_.find(static_cast<uint64_t>(session));
  return found == sessions_.end() ? nullptr : find(found->second);
}

const Node* NodeTable::holder(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : find(found->second);
}

std::optional<NodeId> NodeTable::named_or_whole_id(std::string_view text) const {
  if (const auto named = names_.find(text); named != names_.end()) return named->second;
  for (const auto& [id, node] : nodes_) {
    if (node.name == text || to_string(id) == text) return id;
  }
  return std::nullopt;
}

Result<NodeId> NodeTable::resolve(std::string_view text) const {
  if (const auto named = names_.find(text); named != names_.end()) return named->second;
  std::vector<const Node*> matches;
  std::string names;
  for (const auto& [id, node] : nodes_) {
    if (!text.empty() && (to_string(id).starts_with(text) || node.name == text)) matches.push_back(&node);
    if (names.size() < 200) names += fmt::format("{}{}", names.empty() ? "" : ", ", node.name);
  }
  if (matches.size() == 1) return matches.front()->id;
  if (matches.size() > 1) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("node \"{}\": {} nodes match, {} and {} among them; give more of the id", text,
                                  matches.size(), to_string(matches[0]->id), to_string(matches[1]->id)));
  }
  return make_error(ErrorCode::kNotFound, names.empty()
                                              ? fmt::format("node \"{}\": no node has joined yet", text)
                                              : fmt::format("node \"{}\": no such node; there are {}", text, names));
}

void NodeTable::check_invariants() const {
  size_t with_session = 0;
  size_t dead = 0;
  for (const auto& [id, node] : nodes_) {
    if (node.session) {
      ++with_session;
      const auto session = sessions_.find(static_cast<uint64_t>(*node.session));
      VOLADOR_CHECK(session != sessions_.end() && session->second == id, node.name);
      VOLADOR_CHECK(node.state == NodeState::kAlive || node.state == NodeState::kSuspect, node.name);
    } else {
      VOLADOR_CHECK(node.state != NodeState::kAlive, node.name);
    }
    if (!node.is_member()) ++dead;
    if (node.is_member() && !node.name.empty())
      VOLADOR_CHECK(names_.contains(node.name) && names_.at(node.name) == id, node.name);
  }
  VOLADOR_CHECK(with_session == sessions_.size() && dead == dead_.size(),
                fmt::format("{} {}", with_session, sessions_.size()));
}

size_t NodeTable::awaited() const {
  return static_cast<size_t>(std::count_if(
      nodes_.begin(), nodes_.end(), [](const auto& entry) { return entry.second.state == NodeState::kAwaited; }));
}

std::string NodeTable::name_of(NodeId id) const {
  const Node* node = find(id);
  return node == nullptr || node->name.empty() ? short_id(id) : node->name;
}

std::string NodeTable::node_on(const std::string& machine_id) const {
  if (machine_id.empty()) return {};
  for (const auto& [id, node] : nodes_) {
    if (node.is_member() && node.machine_id == machine_id) return node.name;
  }
  return {};
}

std::string NodeTable::store_socket_on(const std::string& machine_id) const {
  if (machine_id.empty()) return {};
  for (const auto& [id, node] : nodes_) {
    if (node.is_member() && node.machine_id == machine_id && !node.store_socket.empty()) return node.store_socket;
  }
  return {};
}

}  // namespace volador::head
