#include "head/shell/object_lists.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "head/kernel/core.h"
#include "head/shell/core_runner.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/store/object_key.h"

namespace volador::head {
namespace {

constexpr int kLimitDefault = 1000;
constexpr int kGroupsMax = 10'000;

// State of one request; confined to the loop.
struct Gathering {
  v1::ListObjectsReply* reply;
  int limit;
  std::function<void(const Result<void>&)> done;
  size_t missing = 0;

  void add(const std::string& node, const Result<protocol::WorkerMessage>& answer) {
    v1::ObjectStore& store = *reply->add_stores();
    store.set_node(node);
    if (!answer) {
      store.set_error(answer.error().message);
      return;
    }
    const protocol::ObjectList& list = answer->objects();
    store.set_bytes(list.bytes());
    store.set_bytes_max(list.bytes_max());
    store.set_objects(list.objects_total());
    store.set_spilled(list.spilled());
    store.set_spilled_max(list.spilled_max());
    reply->set_total(reply->total() + list.objects_total());
    for (const protocol::StoredObject& one : list.objects()) {
      v1::Object& object = *reply->add_objects();
      object.set_id(to_string(ObjectKey{id_from_raw<NodeId>(one.node_id()), one.writer(), one.number()}));
      object.set_node(node);
      object.set_bytes(one.bytes());
      object.set_type(one.type());
      object.set_put_by(one.put_by());
      object.mutable_held_by()->CopyFrom(one.held_by());
      object.set_copy(one.copy());
      object.set_state(one.in_memory() ? (one.spilled() ? "both" : "memory") : one.spilled() ? "spilled" : "freed");
      object.set_references(one.references());
      object.set_place(one.place());
    }
    for (const protocol::ObjectGroup& one : list.groups()) {
      v1::ObjectGroup& group = *reply->add_groups();
      group.set_node(node);
      group.set_type(one.type());
      group.set_place(one.place());
      group.set_put_by(one.put_by());
      group.set_objects(one.objects());
      group.set_bytes(one.bytes());
      group.set_bytes_in_memory(one.bytes_in_memory());
      group.set_bytes_spilled(one.bytes_spilled());
      group.set_references(one.references());
    }
  }
  void finish() {
    auto& objects = *reply->mutable_objects();
    std::stable_sort(objects.begin(), objects.end(),
                     [](const v1::Object& a, const v1::Object& b) { return a.bytes() > b.bytes(); });
    if (objects.size() > limit) objects.DeleteSubrange(limit, objects.size() - limit);
    auto& groups = *reply->mutable_groups();
    std::stable_sort(groups.begin(), groups.end(),
                     [](const v1::ObjectGroup& a, const v1::ObjectGroup& b) { return a.bytes() > b.bytes(); });
    if (groups.size() > kGroupsMax) groups.DeleteSubrange(kGroupsMax, groups.size() - kGroupsMax);
    done({});
  }
};

}  // namespace

void list_objects(CoreRunner& runner, int limit, v1::ListObjectsReply* reply,
                  std::function<void(const Result<void>&)> done) {
  const auto gathering =
      std::make_shared<Gathering>(Gathering{reply, limit > 0 ? limit : kLimitDefault, std::move(done)});
  runner.ask([&runner, gathering](const HeadCore& core, BootTime now) {
    const v1::ListNodesReply nodes = core.lists().nodes(now, v1::ListRequest());
    std::vector<std::pair<std::string, NodeSession>> connected;
    for (const v1::Node& node : nodes.nodes()) {
      if (const auto session = core.lookups().node_session(node.name())) connected.emplace_back(node.name(), *session);
    }
    gathering->missing = connected.size();
    if (connected.empty()) return gathering->finish();
    const auto question = [limit = gathering->limit](uint64_t number) {
      protocol::HeadToWorker message;
      message.mutable_list_objects()->set_request(number);
      message.mutable_list_objects()->set_limit(limit);
      return message;
    };
    for (const auto& [name, session] : connected) {
      runner.ask_node(session, question, [gathering, name = name](const Result<protocol::WorkerMessage>& answer) {
        gathering->add(name, answer);
        if (--gathering->missing == 0) gathering->finish();
      });
    }
  });
}

}  // namespace volador::head
