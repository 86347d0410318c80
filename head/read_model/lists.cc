#include "head/read_model/lists.h"

#include <algorithm>
#include <vector>

#include "head/experiments/experiment_rows.h"
#include "head/kernel/wire.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::head {
namespace {

constexpr int kListDefault = 1000;
constexpr int kListMax = 100'000;

int limit_of(const v1::ListRequest& request) {
  return request.limit() <= 0 ? kListDefault : std::min(request.limit(), kListMax);
}

}  // namespace

v1::StatusReply Lists::status(BootTime now) const {
  v1::StatusReply reply;
  rows_.fill_totals(reply);
  for (const auto& [id, node] : tables_.nodes.all()) {
    if (!node.is_member() || reply.nodes_size() >= kListDefault) continue;
    rows_.fill_node(node, now, *reply.add_nodes());
  }
  for (const auto& [name, experiment] : tables_.experiments.all())
    fill_experiment(experiment, tables_.experiment_notes, *reply.add_experiments());
  return reply;
}

v1::ListNodesReply Lists::nodes(BootTime now, const v1::ListRequest& request) const {
  v1::ListNodesReply reply;
  for (const auto& [id, node] : tables_.nodes.all()) {
    if (reply.nodes_size() >= limit_of(request)) return reply;
    v1::Node row;
    rows_.fill_node(node, now, row);
    const std::string& filter = request.filter();
    if (!filter.empty() && row.state() != filter && row.name().find(filter) == std::string::npos &&
        !row.id().starts_with(filter))
      continue;
    *reply.add_nodes() = std::move(row);
  }
  return reply;
}

v1::ListActorsReply Lists::actors(BootTime now, const v1::ListRequest& request) const {
  v1::ListActorsReply reply;
  ActorsCursor cursor;
  while (add_actors(now, request, cursor, reply).value()) {
  }
  return reply;
}

Result<bool> Lists::add_actors(BootTime now, const v1::ListRequest& request, ActorsCursor& cursor,
                               v1::ListActorsReply& reply) const {
  const auto& actors = tables_.actors.all();
  const std::string& filter = request.filter();
  const auto has = [&filter](const std::string& text) { return text.find(filter) != std::string::npos; };
  size_t looked = 0;
  for (auto next = actors.upper_bound(cursor.last); next != actors.end(); ++next) {
    if (looked++ == kPartRows) return true;
    const auto& [id, actor] = *next;
    cursor.last = id;
    const bool is_full = reply.actors_size() >= limit_of(request);
    if (filter.empty() && is_full) {
      reply.set_total(static_cast<int64_t>(actors.size()));
      return false;
    }
    if (!filter.empty() && state_name(actor.state) != filter && !has(actor.spec.class_name()) &&
        !has(full_name(actor.spec)) && !has(actor.display()) && !to_string(id).starts_with(filter)) {
      continue;
    }
    reply.set_total(reply.total() + 1);
    if (!is_full) rows_.fill_actor(actor, now, *reply.add_actors());
  }
  return false;
}

v1::ListGroupsReply Lists::groups(const v1::ListRequest& request) const {
  v1::ListGroupsReply reply;
  int64_t total = 0;
  for (const auto& [id, group] : tables_.groups.all()) {
    const std::string& filter = request.filter();
    const bool shown = filter.empty() || group_state_name(group.state) == filter ||
                       group.spec.name().find(filter) != std::string::npos || to_string(id).starts_with(filter);
    if (!shown) continue;
    ++total;
    if (reply.groups_size() < limit_of(request)) rows_.fill_group(group, *reply.add_groups());
  }
  reply.set_total(total);
  return reply;
}

v1::ListQueueReply Lists::queue(BootTime now, const v1::ListRequest& request) const {
  v1::ListQueueReply reply;
  QueueCursor cursor;
  while (add_queue(now, request, cursor, reply).value()) {
  }
  return reply;
}

Result<bool> Lists::add_queue(BootTime now, const v1::ListRequest& request, QueueCursor& cursor,
                              v1::ListQueueReply& reply) const {
  if (!cursor.begun) {
    cursor.begun = true;
    cursor.waiting = waiting();
  }
  const std::string& filter = request.filter();
  for (const size_t end = cursor.next + kPartRows; cursor.next < cursor.waiting.size(); ++cursor.next) {
    if (cursor.next == end) return true;
    const bool is_full = reply.queue_size() >= limit_of(request);
    if (filter.empty() && is_full) {
      reply.set_total(static_cast<int64_t>(cursor.waiting.size()));
      return false;
    }
    const auto queued = find_queued(cursor.waiting[cursor.next]);
    if (!queued) continue;  // Placed since the first part.
    v1::QueueEntry row;
    rows_.fill_queue_entry(*queued, cursor.next + 1, now, row);
    const auto has = [&](const std::string& text) { return text.find(filter) != std::string::npos; };
    if (!filter.empty() && row.kind() != filter && row.experiment() != filter && !has(row.name()) &&
        !has(row.display()) && !row.id().starts_with(filter))
      continue;
    reply.set_total(reply.total() + 1);
    if (!is_full) *reply.add_queue() = std::move(row);
  }
  return false;
}

std::vector<std::variant<ActorId, GroupId>> Lists::waiting() const {
  std::vector<Queued> found;
  for (const auto& [id, actor] : tables_.actors.all()) {
    if (actor.waits_for_place()) found.push_back(Queued(actor));
  }
  for (const auto& [id, group] : tables_.groups.all()) {
    if (group.waits_for_places()) found.push_back(Queued(group));
  }
  std::sort(found.begin(), found.end(), [](const Queued& a, const Queued& b) { return a.order < b.order; });
  std::vector<std::variant<ActorId, GroupId>> out;
  out.reserve(found.size());
  for (const Queued& one : found) {
    if (one.actor != nullptr) {
      out.emplace_back(one.actor->id);
    } else {
      out.emplace_back(one.group->id);
    }
  }
  return out;
}

std::optional<Queued> Lists::find_queued(const std::variant<ActorId, GroupId>& id) const {
  if (const auto* actor_id = std::get_if<ActorId>(&id)) {
    const Actor* actor = tables_.actors.find(*actor_id);
    return actor != nullptr && actor->waits_for_place() ? std::optional(Queued(*actor)) : std::nullopt;
  }
  const Group* group = tables_.groups.find(std::get<GroupId>(id));
  return group != nullptr && group->waits_for_places() ? std::optional(Queued(*group)) : std::nullopt;
}

Result<v1::ListTrialsReply> Lists::trials(BootTime now, const v1::ListRequest& request) const {
  v1::ListTrialsReply reply;
  TrialsCursor cursor;
  while (true) {
    const auto more = add_trials(now, request, cursor, reply);
    if (!more) return make_error(more.error());
    if (!*more) return reply;
  }
}

Result<bool> Lists::add_trials(BootTime now, const v1::ListRequest& request, TrialsCursor& cursor,
                               v1::ListTrialsReply& reply) const {
  if (!request.filter().empty() && cursor.only.empty()) {
    const auto found = tables_.experiments.resolve(request.filter());
    if (!found) return make_error(found.error());
    cursor.only = (*found)->name;
    cursor.experiment = cursor.only;
  }
  const auto is_wanted = [&request](const protocol::TrialRow& trial) {
    return std::all_of(request.tags().begin(), request.tags().end(), [&trial](const std::string& tag) {
      return std::find(trial.tags().begin(), trial.tags().end(), tag) != trial.tags().end();
    });
  };
  size_t looked = 0;
  const auto& experiments = tables_.experiments.all();
  for (auto at = experiments.lower_bound(cursor.experiment); at != experiments.end(); ++at) {
    const auto& [name, experiment] = *at;
    if (!cursor.only.empty() && name != cursor.only) break;
    if (name != cursor.experiment) cursor.trial.clear();
    cursor.experiment = name;
    if (request.tags().empty() && cursor.counted != name) {
      cursor.counted = name;
      reply.set_total(reply.total() +
                      std::max(experiment.trials_total, static_cast<int64_t>(experiment.trials.size())));
    }
    for (auto next = experiment.trials.upper_bound(cursor.trial); next != experiment.trials.end(); ++next) {
      const bool is_full = reply.trials_size() >= limit_of(request);
      if (request.tags().empty() && is_full) break;
      if (looked++ == kPartRows) return true;
      const auto& [id, trial] = *next;
      cursor.trial = id;
      if (!is_wanted(trial)) continue;
      if (!request.tags().empty()) reply.set_total(reply.total() + 1);
      if (!is_full) rows_.fill_trial(name, trial, now, *reply.add_trials());
    }
  }
  return false;
}

}  // namespace volador::head
