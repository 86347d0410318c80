#include "head/read_model/wait_reasons.h"

#include "head/kernel/wire.h"

namespace volador::head {

Reason WaitReasons::of_actor(const Actor& actor, BootTime now) const {
  if (actor.incarnation) {
    const Incarnation& incarnation = *actor.incarnation;
    const Node* node = tables_.nodes.find(incarnation.node);
    const std::string name = tables_.nodes.name_of(incarnation.node);
    if (incarnation.gone_at) return reason("waits.former_host_until", name, in_seconds(*incarnation.gone_at - now));
    if (node == nullptr || node->session) return reason("waits.former_host", name);
    return reason("waits.former_host_node", name, cluster_word(to_string(node->state)),
                  in_seconds(tables_.leases.ends(node->id) - now));
  }
  if (actor.not_before > now)
    return reason("waits.restart_delay", in_seconds(actor.not_before - now), actor.early_deaths);
  if (const Actor* former = tables_.actors.lingering(actor)) {
    return reason("waits.former_actor", full_name(actor.spec), short_id(former->id),
                  tables_.nodes.name_of(former->incarnation->node));
  }
  Reason why = actor.group().is_nil() ? of_request(actor.id) : in_group(actor);
  if (now >= context_.window_end) return why;
  const size_t missing = tables_.nodes.awaited();
  return missing == 0
             ? why
             : and_also(std::move(why), reason("waits.nodes_back", missing, in_seconds(context_.window_end - now)));
}

Reason WaitReasons::in_debugger(const Actor& actor) const {
  if (!actor.incarnation || actor.incarnation->breakpoint.empty()) return {};
  return reason("waits.debugger", actor.incarnation->breakpoint, short_id(actor.id));
}

Reason WaitReasons::of_request(HolderId holder) const {
  return tables_.placement.explain(holder, [this](HolderId other) { return name_of(other); });
}

// For an actor that waits for room in its group.
Reason WaitReasons::in_group(const Actor& actor) const {
  const Group* group = tables_.groups.find(actor.group());
  if (group == nullptr) return {};
  if (group->state == protocol::GROUP_PENDING)
    return because(reason("waits.group_no_place", group->in_words()), of_request(group->holder));
  const int wanted = actor.spec.bundle();
  Reason why;
  for (size_t at = 0; at < group->bundles.size(); ++at) {
    const Bundle& bundle = group->bundles[at];
    if (wanted != kAnyBundle && wanted != static_cast<int>(at)) continue;
    if (!actor.resources.fits_in(bundle.resources)) continue;
    const std::string why_not = bundle.is_placed() ? tables_.placement.why_not(bundle.node) : "";
    if (!bundle.is_placed()) {
      why = because(reason("waits.bundle_lost", at, group->in_words()), of_request(group->holder));
    } else if (const Reason problem = tables_.placement.problem(bundle.node); !problem.empty()) {
      why = reason("waits.bundle_problem", at, group->in_words(), tables_.nodes.name_of(bundle.node), problem);
    } else if (!why_not.empty()) {
      why = reason("waits.bundle_node_is", at, group->in_words(), tables_.nodes.name_of(bundle.node),
                   cluster_word(why_not));
    } else if (tables_.placement.is_excluded(bundle.node, actor.spec.program_sha256())) {
      why = reason("waits.bundle_program", at, group->in_words(), tables_.nodes.name_of(bundle.node));
    } else if (!bundle.pool.fits(actor.resources)) {
      why = reason("waits.bundle_in_use", actor.resources, at, group->in_words(), bundle.pool.used, bundle.resources,
                   bundle.drawing.size());
    } else {
      return reason("waits.soon");
    }
  }
  if (wanted == kAnyBundle && group->bundles.size() > 1)
    why = reason("waits.bundle_last", std::move(why), group->bundles.size());
  return why;
}

Reason WaitReasons::name_of(HolderId holder) const {
  if (const Group* group = tables_.groups.find(holder)) return group->in_words();
  const Actor* actor = tables_.actors.find(holder.actor());
  if (actor == nullptr) return reason("name.gone", short_id(holder.actor()));
  const Experiment* experiment = nullptr;
  if (const protocol::TrialRow* trial = tables_.experiments.trial_of(actor->id, &experiment)) {
    const std::string name = trial->name().empty() ? trial->trial_id() : trial->name();
    return reason("name.trial", name, experiment->name, short_id(actor->id));
  }
  if (actor->runs_tasks()) return reason("name.tasks", short_id(actor->id));
  if (actor->spec.name().empty()) return reason("name.actor", actor->display(), short_id(actor->id));
  return reason("name.named_actor", full_name(actor->spec), short_id(actor->id), actor->spec.class_name());
}

}  // namespace volador::head
