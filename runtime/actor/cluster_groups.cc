#include "runtime/actor/cluster_groups.h"

#include <fmt/format.h>

#include <future>

#include "runtime/protocol/node_affinity.h"
#include "runtime/protocol/resource_map.h"

namespace volador {
namespace {

Result<GroupStatus> status_of(const Result<protocol::Reply>& reply) {
  if (!reply) return make_error(reply.error());
  const protocol::GroupInfo& info = reply->group();
  GroupStatus status;
  status.id = id_from_raw<GroupId>(info.group_id());
  status.name = info.name();
  status.strategy = static_cast<Strategy>(info.strategy());
  status.state = info.state() == protocol::GROUP_READY          ? GroupState::kReady
                 : info.state() == protocol::GROUP_RESCHEDULING ? GroupState::kRescheduling
                                                                : GroupState::kPending;
  status.reason = info.reason();
  for (const protocol::BundleInfo& bundle : info.bundles()) {
    status.bundles.push_back(
        {resources_of(bundle.resources()), bundle.node_name(), {bundle.gpus().begin(), bundle.gpus().end()}});
  }
  return status;
}

}  // namespace

GroupId ClusterGroups::create(const GroupAsk& ask, Done done) {
  const auto id = new_id<GroupId>(*options_.random);
  protocol::ClientMessage message;
  message.mutable_create_group()->set_request_id(raw(id));
  protocol::GroupSpec& spec = *message.mutable_create_group()->mutable_spec();
  spec.set_group_id(raw(id));
  spec.set_name(ask.name);
  spec.set_strategy(static_cast<protocol::GroupStrategy>(ask.strategy));
  for (const ResourceSet& bundle : ask.bundles) *spec.add_bundles() = to_message(bundle);
  spec.set_detached(ask.detached);
  spec.set_priority(ask.priority);
  spec.set_wait_if_infeasible(ask.wait_if_infeasible);
  for (const LabelRule& rule : ask.labels) *spec.add_labels() = to_message(rule);
  for (const std::vector<LabelRule>& rules : ask.bundle_labels) {
    protocol::LabelRules& of_one = *spec.add_bundle_labels();
    for (const LabelRule& rule : rules) *of_one.add_rules() = to_message(rule);
  }
  spec.set_driver_id(raw(options_.driver));
  spec.set_program_sha256(options_.program_sha256);
  options_.ask(RequestId(id.bytes()), std::move(message),
               [done = std::move(done)](const Result<protocol::Reply>& reply) { done(status_of(reply)); });
  return id;
}

void ClusterGroups::ask_about(protocol::FindGroup find, Done done) {
  const auto request = new_id<RequestId>(*options_.random);
  find.set_request_id(raw(request));
  protocol::ClientMessage message;
  *message.mutable_find_group() = std::move(find);
  options_.ask(request, std::move(message),
               [done = std::move(done)](const Result<protocol::Reply>& reply) { done(status_of(reply)); });
}

void ClusterGroups::when_ready(const GroupId& group, Done done) {
  protocol::FindGroup find;
  find.set_group_id(raw(group));
  find.set_when_ready(true);
  ask_about(std::move(find), std::move(done));
}

void ClusterGroups::remove(const GroupId& group, Done done) {
  const auto request = new_id<RequestId>(*options_.random);
  protocol::ClientMessage message;
  message.mutable_remove_group()->set_request_id(raw(request));
  message.mutable_remove_group()->set_group_id(raw(group));
  options_.ask(request, std::move(message),
               [done = std::move(done)](const Result<protocol::Reply>& reply) { done(status_of(reply)); });
}

Result<GroupStatus> ClusterGroups::wait_for(protocol::FindGroup find) {
  const auto answer = std::make_shared<std::promise<Result<GroupStatus>>>();
  auto there = answer->get_future();
  ask_about(std::move(find), [answer](Result<GroupStatus> status) { answer->set_value(std::move(status)); });
  if (there.wait_for(options_.patience) == std::future_status::ready) return there.get();
  return make_error(ErrorCode::kUnknownOutcome,
                    fmt::format("the head did not answer within {} s; ask again", options_.patience.count() / 1000));
}

Result<GroupStatus> ClusterGroups::find(const std::string& name) {
  protocol::FindGroup find;
  find.set_name(name);
  return wait_for(std::move(find));
}

Result<GroupStatus> ClusterGroups::status(const GroupId& group) {
  protocol::FindGroup find;
  find.set_group_id(raw(group));
  return wait_for(std::move(find));
}

}  // namespace volador
