#include "runtime/actor/placement_group.h"

#include <utility>
#include <variant>

#include "runtime/actor/session.h"

namespace volador {
namespace {

std::shared_ptr<GroupSession> groups() {
  auto session = Session::current()->groups();
  if (session == nullptr)
    throw Exception(Error{ErrorCode::kUnavailable,
                          "placement groups need a cluster: call volador::init(argc, argv) first in main"});
  return session;
}

std::vector<LabelRule> rules_of(const std::map<std::string, LabelValue>& labels, const std::string& where) {
  std::vector<LabelRule> rules;
  for (const auto& [key, value] : labels) rules.push_back({key, value});
  if (auto checked = check(NodeAffinity{.labels = rules, .node = {}, .apart = {}}); !checked) {
    throw Exception(Error{checked.error().code, where + checked.error().message});
  }
  return rules;
}

GroupAsk ask_of(const std::vector<Resources>& bundles, Strategy strategy, const GroupOptions& options) {
  GroupAsk ask{.bundles = {},
               .strategy = strategy,
               .name = options.name,
               .detached = options.detached,
               .priority = options.priority,
               .wait_if_infeasible = options.wait_if_infeasible,
               .labels = {},
               .bundle_labels = {}};
  ask.labels = rules_of(options.labels, "");
  if (!options.bundle_labels.empty() && options.bundle_labels.size() != bundles.size()) {
    throw Exception(Error{ErrorCode::kInvalidArgument, "bundle_labels: expected one entry for each of the " +
                                                           std::to_string(bundles.size()) +
                                                           " bundles ({} where it asks for none), got " +
                                                           std::to_string(options.bundle_labels.size())});
  }
  for (const auto& labels : options.bundle_labels) {
    ask.bundle_labels.push_back(rules_of(labels, "bundle " + std::to_string(ask.bundle_labels.size()) + ": "));
  }
  for (const Resources& bundle : bundles) {
    auto set = ResourceSet::from(bundle);
    if (!set)
      throw Exception(
          Error{set.error().code, "bundle " + std::to_string(ask.bundles.size()) + ": " + set.error().message});
    ask.bundles.push_back(std::move(*set));
  }
  return ask;
}

GroupSession::Done to_nothing(const std::shared_ptr<Reply>& reply) {
  return [reply](Result<GroupStatus> status) {
    reply->set(status ? Result<std::string>(to_bytes(std::monostate{})) : make_error(std::move(status).error()));
  };
}

}  // namespace

std::string_view to_string(GroupState state) {
  switch (state) {
    case GroupState::kPending:
      return "pending";
    case GroupState::kReady:
      return "ready";
    case GroupState::kRescheduling:
      return "rescheduling";
  }
  return "?";
}

Future<void> PlacementGroup::ready() const {
  auto reply = std::make_shared<Reply>();
  groups()->when_ready(id_, to_nothing(reply));
  return Future<void>(std::move(reply));
}

bool PlacementGroup::wait(std::chrono::nanoseconds timeout) const {
  const Future<void> all = ready();
  if (!all.wait_for(timeout)) return false;
  all.get();
  return true;
}

GroupStatus PlacementGroup::status() const {
  auto status = groups()->status(id_);
  if (!status) throw Exception(std::move(status).error());
  return std::move(*status);
}

Future<void> PlacementGroup::remove() const {
  auto reply = std::make_shared<Reply>();
  groups()->remove(id_, to_nothing(reply));
  return Future<void>(std::move(reply));
}

Future<PlacementGroup> placement_group_async(const std::vector<Resources>& bundles, Strategy strategy,
                                             const GroupOptions& options) {
  auto reply = std::make_shared<Reply>();
  groups()->create(ask_of(bundles, strategy, options), [reply](Result<GroupStatus> status) {
    reply->set(status ? Result<std::string>(to_bytes(PlacementGroup(status->id)))
                      : make_error(std::move(status).error()));
  });
  return Future<PlacementGroup>(std::move(reply));
}

PlacementGroup placement_group(const std::vector<Resources>& bundles, Strategy strategy, const GroupOptions& options) {
  return placement_group_async(bundles, strategy, options).get();
}

PlacementGroup get_placement_group(const std::string& name) {
  auto found = groups()->find(name);
  if (!found) throw Exception(std::move(found).error());
  return PlacementGroup(found->id);
}

}  // namespace volador
