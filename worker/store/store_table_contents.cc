// StoreTable: references inside objects of this node and copies, counted like those of a process.
// See "Who keeps an object".
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/store/object_name.h"
#include "worker/store/store_table.h"

namespace volador::worker {

std::optional<std::string> StoreTable::contain(StoreSession id, const Client& client,
                                               const protocol::ObjectContents& message, StoreActions& actions) {
  const ObjectKey key{node_, client.writer, message.number()};
  const auto found = objects_.find(key);
  if (found == objects_.end() || !found->second.references.held.contains(id))
    return fmt::format("object {}, of which it says what is in it, is not its own or gone", message.number());
  Object& object = found->second;
  if (!object.contents) object.contents = std::make_unique<Contents>();
  Contents& contents = *object.contents;
  const size_t count = contents.objects.size() + contents.actors.size() + static_cast<size_t>(message.objects_size()) +
                       static_cast<size_t>(message.actors_size());
  if (count > limits_.contents_max)
    return fmt::format("object {} has more than {} references and handles in it", message.number(),
                       limits_.contents_max);
  for (const std::string& actor : message.actors()) {
    hold_actor(contents, id_from_raw<ActorId>(actor), actions);
  }
  if (message.last() && !contents.actors.empty()) {
    protocol::FromStore kept;
    kept.mutable_kept()->set_number(message.number());
    actions.send.push_back({id, std::move(kept), {}});
  }
  for (const protocol::ObjectName& name : message.objects()) {
    const ObjectKey inner = object_key_of(name);
    if (inner != key && refer(inner, name.address(), actions)) contents.objects.push_back(inner);
  }
  if (message.last()) end_naming(key, object, actions);
  return std::nullopt;
}

// Answers stores of other nodes that asked meanwhile.
void StoreTable::end_naming(const ObjectKey& key, Object& object, StoreActions& actions) {
  object.naming = false;
  const auto others = std::stable_partition(object.asked.begin(), object.asked.end(), [this](const Asked& one) {
    const auto client = clients_.find(one.client);
    return client != clients_.end() && client->second.writer != kOwnWriter;
  });
  const std::vector<Asked> peers(others, object.asked.end());
  object.asked.erase(others, object.asked.end());
  for (const Asked& one : peers) {
    const auto peer = clients_.find(one.client);
    if (peer == clients_.end()) continue;
    --peer->second.waiting;
    if (object.references.held.contains(one.client)) {
      answer(one.client, one.request, object, actions);
    } else {
      refuse(one.client, one.request, lost(key, "nobody referred to it any more"), actions);
    }
  }
}

// Lists references for another node's copy, without objects of this node: they end with it.
void StoreTable::report_contained_refs(const Object& object, protocol::Located& located) const {
  if (!object.contents) return;
  for (const ObjectKey& key : object.contents->objects) {
    const auto inner = objects_.find(key);
    if (key.node == node_ || inner == objects_.end()) continue;
    if (located.objects_size() == kNamedMax) return;
    protocol::ObjectName& name = *located.add_objects();
    name = to_message(key);
    name.set_address(inner->second.address);
  }
  for (const ActorId& actor : object.contents->actors) {
    if (located.objects_size() + located.actors_size() == kNamedMax) return;
    located.add_actors(raw(actor));
  }
}

StoreActions StoreTable::set_contents(BootTime now, const ObjectKey& key, const protocol::Located& at_home) {
  StoreActions actions;
  now_ = now;
  const auto found = objects_.find(key);
  const auto count = static_cast<size_t>(at_home.objects_size()) + static_cast<size_t>(at_home.actors_size());
  if (found == objects_.end() || found->second.freed || found->second.contents || count == 0 ||
      count > limits_.contents_max)
    return actions;
  auto contents = std::make_unique<Contents>();
  for (const std::string& actor : at_home.actors()) hold_actor(*contents, id_from_raw<ActorId>(actor), actions);
  for (const protocol::ObjectName& name : at_home.objects()) {
    const ObjectKey inner = object_key_of(name);
    if (inner.node != key.node && refer(inner, name.address(), actions)) contents->objects.push_back(inner);
  }
  objects_.at(key).contents = std::move(contents);
  return actions;
}

void StoreTable::hold_actor(Contents& contents, const ActorId& actor, StoreActions& actions) {
  contents.actors.push_back(actor);
  if (++actors_[actor] == 1) actions.actors.push_back(actor);
}

// False: it is lost and not counted. An object of another node is only counted there, not copied.
bool StoreTable::refer(const ObjectKey& key, const std::string& address, StoreActions& actions) {
  Client& themselves = clients_.at(kContainedRefs);
  const auto found = objects_.find(key);
  if (found != objects_.end() || key.node != node_) {
    const bool is_new = found == objects_.end();
    Object& object = is_new ? objects_[key] : found->second;
    if (is_new) {
      object.fetched = false;
      object.named = true;
      object.site = "copy";
      object.address = address;
    }
    ++object.references.held[kContainedRefs].count;
    themselves.refers.insert(key);
    if (!object.fetched && !std::exchange(object.counted, true))
      actions.home.push_back({key, object.address, StoreActions::Home::What::kRefer, false});
    return true;
  }
  const auto writer = writers_.find(key.writer);
  if (writer == writers_.end() || key.number <= clients_.at(writer->second).last_number) return false;
  ++themselves.waiting;  // Its writer's message is on the way, as in acquire().
  expected_[key].push_back({kContainedRefs, 0, false});
  return true;
}

void StoreTable::remove_reference(const ObjectKey& key, StoreActions& actions) {
  Client& themselves = clients_.at(kContainedRefs);
  if (const auto expected = expected_.find(key); expected != expected_.end()) {
    auto& asked = expected->second;
    const auto one =
        std::find_if(asked.begin(), asked.end(), [](const Asked& each) { return each.client == kContainedRefs; });
    if (one == asked.end()) return;
    --themselves.waiting;
    asked.erase(one);
    if (asked.empty()) expected_.erase(expected);
    return;
  }
  const auto found = objects_.find(key);
  // It was lost meanwhile.
  if (found == objects_.end() || !found->second.references.held.contains(kContainedRefs)) return;
  release(kContainedRefs, key, actions);
}

void StoreTable::release_contained_refs(Object& object) {
  if (object.contents) let_go_.push_back(std::exchange(object.contents, nullptr));
}

// Iterative, because objects may form long chains.
void StoreTable::drop_contents(StoreActions& actions) {
  while (!let_go_.empty()) {
    const auto contents = std::move(let_go_.back());
    let_go_.pop_back();
    for (const ActorId& actor : contents->actors) {
      const auto held = actors_.find(actor);
      if (--held->second > 0) continue;
      actors_.erase(held);
      actions.actors.push_back(actor);
    }
    for (const ObjectKey& key : contents->objects) remove_reference(key, actions);
  }
}

bool StoreTable::on_home_lost(const std::string& address) {
  bool refers = false;
  for (auto& [key, object] : objects_) {
    if (!object.counted || object.address != address) continue;
    object.counted = false;
    refers = refers || object.named;
  }
  return refers;
}

StoreActions StoreTable::refer_again(const std::string& address) {
  StoreActions actions;
  for (auto& [key, object] : objects_) {
    if (!object.named || object.freed || object.address != address || std::exchange(object.counted, true)) continue;
    actions.home.push_back({key, address, StoreActions::Home::What::kRefer, false});
  }
  return actions;
}

std::vector<ActorId> StoreTable::actors() const {
  std::vector<ActorId> all;
  all.reserve(actors_.size());
  for (const auto& [actor, objects] : actors_) all.push_back(actor);
  return all;
}

}  // namespace volador::worker
