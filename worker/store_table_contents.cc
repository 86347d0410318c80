// What objects of this node refer to: held for them as a process holds what it refers to. See "Who keeps an object".
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/store/object_name.h"
#include "worker/store_table.h"

namespace volador::worker {

std::optional<std::string> StoreTable::contain(StoreSession id, const Client& client, const protocol::ObjectContents& message, StoreActions& actions) {
  const ObjectKey key{node_, client.writer, message.number()};
  const auto found = objects_.find(key);
  if (found == objects_.end() || !found->second.references.held.contains(id)) return fmt::format("object {}, of which it says what is in it, is not its own or gone", message.number());
  Object& object = found->second;
  if (!object.contents) object.contents = std::make_unique<Contents>();
  Contents& contents = *object.contents;
  const size_t count = contents.objects.size() + contents.actors.size() + static_cast<size_t>(message.objects_size()) + static_cast<size_t>(message.actors_size());
  if (count > limits_.contents_max) return fmt::format("object {} has more than {} references and handles in it", message.number(), limits_.contents_max);
  for (const std::string& actor : message.actors()) {
    const auto of = id_from_raw<ActorId>(actor);
    contents.actors.push_back(of);
    if (++actors_[of] == 1) actions.actors.push_back(of);
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
  return std::nullopt;
}

// False: it is lost, and nobody's.
bool StoreTable::refer(const ObjectKey& key, const std::string& address, StoreActions& actions) {
  Client& themselves = clients_.at(kObjectsThemselves);
  if (const auto found = objects_.find(key); found != objects_.end()) {
    ++found->second.references.held[kObjectsThemselves].count;
    themselves.refers.insert(key);
    return true;
  }
  if (key.node != node_) {
    protocol::AcquireObject copy;
    *copy.mutable_name() = to_message(key);
    copy.mutable_name()->set_address(address);
    acquire_copy(kObjectsThemselves, key, copy, actions);
    return true;
  }
  const auto writer = writers_.find(key.writer);
  if (writer == writers_.end() || key.number <= clients_.at(writer->second).last_number) return false;
  ++themselves.waiting;  // Its writer's message is on the way: as in acquire().
  expected_[key].push_back({kObjectsThemselves, 0, false});
  return true;
}

void StoreTable::refer_no_more(const ObjectKey& key, StoreActions& actions) {
  Client& themselves = clients_.at(kObjectsThemselves);
  if (const auto expected = expected_.find(key); expected != expected_.end()) {
    auto& asked = expected->second;
    const auto one = std::find_if(asked.begin(), asked.end(), [](const Asked& each) { return each.client == kObjectsThemselves; });
    if (one == asked.end()) return;
    --themselves.waiting;
    asked.erase(one);
    if (asked.empty()) expected_.erase(expected);
    return;
  }
  const auto found = objects_.find(key);
  if (found == objects_.end() || !found->second.references.held.contains(kObjectsThemselves)) return;  // It was lost meanwhile.
  release(kObjectsThemselves, key, actions);
}

void StoreTable::let_go_contents(Object& object) {
  if (object.contents) let_go_.push_back(std::exchange(object.contents, nullptr));
}

// One after another, not one inside the other: objects may form long chains.
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
    for (const ObjectKey& key : contents->objects) refer_no_more(key, actions);
  }
}

std::vector<ActorId> StoreTable::actors() const {
  std::vector<ActorId> all;
  all.reserve(actors_.size());
  for (const auto& [actor, objects] : actors_) all.push_back(actor);
  return all;
}

}  // namespace volador::worker
