#include "head/read_model/explainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "head/experiments/experiment_rows.h"
#include "head/kernel/wire.h"
#include "head/read_model/rows.h"
#include "runtime/language/health_reason.h"
#include "runtime/protocol/node_affinity.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::head {

// Lines for users, each with its reason.
class Explanation {
 public:
  void add(size_t indent, const Reason& reason) {
    reply_.mutable_text()->append(indent, ' ').append(reason.text()).append("\n");
    reply_.add_why(reason.to_json());
  }
  // Adds text of a program, line by line.
  void quote(std::string_view text) {
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      add(0, Reason::said(std::string(text.substr(at, end - at))));
      at = end + 1;
    }
  }
  v1::ExplainReply take() { return std::move(reply_); }

 private:
  v1::ExplainReply reply_;
};

namespace {

void explain_trial(const protocol::TrialRow& trial, const Experiment& experiment, Explanation& out) {
  const std::string name = trial.name().empty() ? std::string() : fmt::format(" ({})", trial.name());
  out.add(0,
          reason("explain.trial", trial.trial_id(), name, experiment.name, cluster_word(trial.status()), trial.step()));
  if (!trial.tags().empty()) out.add(2, reason("explain.tags", fmt::format("{}", fmt::join(trial.tags(), ", "))));
  if (!trial.reason().empty()) out.add(2, reason_of(trial));
  if (!trial.error().empty()) {
    auto known = Reason::from_json(trial.error_why());
    out.add(2, reason("explain.error", known ? std::move(*known) : Reason(trial.error())));
  }
}

// Why the scheduler chose this node among those with room.
Reason why_there(const NodeAffinity& wishes, std::string_view node) {
  const bool asked = !wishes.node.empty() && wishes.node == node;
  return reason(!asked                  ? "place.fullest"
                : wishes.node_preferred ? "place.preferred"
                                        : "place.asked",
                wishes.labels.empty() ? Reason() : reason("place.of_those", to_string(wishes.labels)),
                wishes.apart.empty() ? Reason() : reason("place.apart", wishes.apart));
}

// Aligns times such as "made  …" and "+0.25 s  …" to the right of a column.
constexpr size_t kTimeIndent = 4, kTimeColumns = 10;
size_t indent_of(std::string_view time) { return kTimeIndent + kTimeColumns - std::min(time.size(), kTimeColumns); }

}  // namespace

void Explainer::explain_history(const Actor& actor, Explanation& out) const {
  const auto& changes = actor.history.changes();
  if (changes.empty()) return;
  out.add(2, reason("explain.history"));
  for (size_t at = 0; at < changes.size(); ++at) {
    const StateChange& change = changes[at];
    Reason what = reason("explain.state", word_of(change.state));
    if (!change.node.is_nil() && (change.state == protocol::STARTING || change.state == protocol::ALIVE)) {
      what = reason("explain.on", word_of(change.state), tables_.nodes.name_of(change.node), change.epoch);
    }
    Reason why = change.why;
    if (why.empty() && change.state == protocol::STARTING) {
      const Group* group = tables_.groups.find(actor.group());
      why = group != nullptr ? reason("place.in_group", group->in_words())
                             : why_there(wishes_of(actor.spec.wishes()), tables_.nodes.name_of(change.node));
    }
    what = because(std::move(what), std::move(why));
    const std::string time =
        fmt::format("+{:.2f} s", std::chrono::duration<double>(change.at - changes.front().at).count());
    at == 0 ? out.add(indent_of("made"), reason("explain.made", std::move(what)))
            : out.add(indent_of(time), reason("explain.later", time, std::move(what)));
    if (at == 0 && actor.history.left_out() > 0)
      out.add(indent_of("."), reason("explain.later", "…", reason("explain.left_out", actor.history.left_out())));
  }
}

void Explainer::explain_group(GroupId id, BootTime now, Explanation& out) const {
  const Group* group = tables_.groups.find(id);
  if (group == nullptr) return out.add(0, tables_.groups.end_of(id));
  const Reason::Argument state = cluster_word(group_state_name(group->state)),
                         strategy = cluster_word(to_string(static_cast<Strategy>(group->spec.strategy())));
  out.add(0, group->is_removed()
                 ? reason("explain.group_removed", group->in_words(), state, strategy, message_of(group->cause))
                 : reason("explain.group", group->in_words(), state, strategy));
  if (const Reason why = reasons_.of_request(group->holder); !why.empty()) out.add(2, why);
  if (now < context_.window_end && group->waits_for_places() && tables_.nodes.awaited() > 0) {
    out.add(2, reason("waits.nodes_back", tables_.nodes.awaited(), in_seconds(context_.window_end - now)));
  }
  for (size_t at = 0; at < group->bundles.size(); ++at) {
    const Bundle& bundle = group->bundles[at];
    const std::string labels = bundle_labels(*group, at);
    Reason place = reason(group->is_removed() ? "explain.bundle_returned" : "explain.bundle_unplaced");
    if (bundle.is_placed()) {
      const std::string why_not = tables_.placement.why_not(bundle.node);
      place = reason(
          "explain.bundle_on", tables_.nodes.name_of(bundle.node),
          bundle.gpus.empty() ? Reason()
                              : reason("explain.bundle_gpus", fmt::format("{}", fmt::join(bundle.gpus, ","))),
          why_not.empty() ? Reason() : reason("explain.bundle_node_is", cluster_word(why_not)),
          bundle.drawing.empty() ? Reason() : reason("explain.bundle_actors", bundle.drawing.size(), bundle.pool.used));
    }
    out.add(2, reason("explain.bundle", at, bundle.resources,
                      labels.empty() ? Reason() : reason("explain.bundle_labels", labels), std::move(place)));
  }
  if (!group->waiting.empty()) out.add(2, reason("explain.group_waiting", group->waiting.size()));
}

void Explainer::explain_node(NodeId id, BootTime now, Explanation& out) const {
  const Node& node = *tables_.nodes.find(id);
  Reason how;
  if (!node.is_member()) how = reason("explain.node_dead", node.why_dead);
  if (node.state == NodeState::kAwaited)
    how = reason("explain.node_awaited", in_seconds(tables_.leases.ends(node.id) - now));
  if (node.state == NodeState::kSuspect) {
    how = reason("explain.node_suspect", in_seconds(now - node.last_heard),
                 in_seconds(tables_.leases.ends(node.id) - now));
  }
  out.add(0, reason("explain.node", node.name, short_id(node.id), cluster_word(to_string(node.state)), std::move(how),
                    node.stopping   ? reason("explain.node_stops")
                    : node.draining ? reason("explain.node_drains")
                                    : Reason()));
  for (const NodeProblem& problem : node.problems) {
    out.add(2, reason(problem.found.has_gpu() ? "explain.gpu_problem" : "explain.node_problem",
                      health_reason(problem.found), in_seconds(now - problem.since)));
  }
  if (const auto* entry = tables_.placement.ledger().find(node.id)) {
    out.add(2, reason("explain.in_use", entry->used, entry->total, tables_.actors.on_node(node.id).size()));
  }
}

void Explainer::explain_actor(const Actor& actor, BootTime now, Explanation& out) const {
  const std::string what =
      fmt::format("{}{}{}", actor.spec.class_name(), actor.spec.name().empty() ? "" : ", ", full_name(actor.spec));
  const bool is_placed = actor.incarnation && !actor.waits_for_place();
  Reason state = reason("explain.state", word_of(actor.state));
  if (is_placed)
    state = reason("explain.on", word_of(actor.state), tables_.nodes.name_of(actor.incarnation->node), actor.epoch);
  out.add(0, reason("explain.actor", short_id(actor.id), what, std::move(state)));
  if (is_placed) {
    const Node* node = tables_.nodes.find(actor.incarnation->node);
    if (!actor.is_dead() && node != nullptr && node->state != NodeState::kAlive) {
      out.add(2, reason(node->state == NodeState::kAwaited ? "explain.awaited" : "explain.suspect",
                        tables_.nodes.name_of(node->id), in_seconds(tables_.leases.ends(node->id) - now)));
    }
    if (actor.is_dead()) out.add(2, reason("explain.host_there"));
  }
  if (actor.waits_for_place()) out.add(2, reasons_.of_actor(actor, now));
  if (const Reason waits = reasons_.in_debugger(actor); !waits.text().empty()) out.add(2, waits);
  if (actor.is_dead()) out.add(2, describe(actor.cause));
  if (actor.restarts > 0) {
    const int most = actor.spec.max_restarts();
    out.add(2,
            reason("explain.restarts", actor.restarts,
                   most < 0 ? Reason::Argument(reason("count.any")) : Reason::Argument(most), describe(actor.cause)));
  }
  if (const protocol::Checkpoint* checkpoint = tables_.checkpoints.find(actor.id)) {
    out.add(2, reason("explain.checkpoint", checkpoint->sequence(), checkpoint->epoch(),
                      format_bytes(static_cast<int64_t>(checkpoint->archive().size()))));
  }
  if (const Group* group = tables_.groups.find(actor.group())) {
    const int bundle = actor.incarnation ? actor.incarnation->bundle : actor.spec.bundle();
    out.add(2, bundle == kAnyBundle ? reason("explain.asks_in_any", actor.resources, group->in_words())
                                    : reason("explain.asks_in", actor.resources, bundle, group->in_words()));
  } else {
    out.add(2, reason("explain.asks", actor.resources));
  }
  explain_history(actor, out);
  if (actor.cause.stderr_tail().empty()) return;
  out.add(2, reason("explain.stderr"));
  out.quote(actor.cause.stderr_tail());
}

Result<v1::ExplainReply> Explainer::explain(BootTime now, std::string_view id) const {
  const auto named = names_.resolve(id);
  if (!named) return make_error(named.error());
  Explanation out;
  ActorId actor_id = named->actor;
  if (!named->group.is_nil()) {
    explain_group(named->group, now, out);
  } else if (!named->node.is_nil()) {
    explain_node(named->node, now, out);
  } else if (named->trial != nullptr) {
    explain_trial(*named->trial, *named->experiment, out);
    if (!named->trial->actor_id().empty()) actor_id = id_from_raw<ActorId>(named->trial->actor_id());
  }
  if (const Actor* actor = tables_.actors.find(actor_id)) explain_actor(*actor, now, out);
  return out.take();
}

Result<std::string> Explainer::text(BootTime now, std::string_view id) const {
  return explain(now, id).map([](const v1::ExplainReply& reply) { return reply.text(); });
}

}  // namespace volador::head
