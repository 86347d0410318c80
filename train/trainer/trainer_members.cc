#include "train/trainer/trainer_impl.h"

#include <algorithm>

#include "runtime/log.h"

namespace volador::train {
namespace {

using namespace std::chrono_literals;

// The first line in which two descriptions of parameters differ.
std::string first_difference(const std::string& a, const std::string& b) {
  size_t at = 0;
  while (at < a.size() && at < b.size()) {
    const size_t end_a = a.find('\n', at), end_b = b.find('\n', at);
    const std::string line_a = a.substr(at, end_a - at), line_b = b.substr(at, end_b - at);
    if (line_a != line_b) return fmt::format("{} and {}", line_a, line_b);
    at = end_a + 1;
  }
  return "their numbers of parameters";
}

}  // namespace

void Trainer::Impl::on_failure(MemberId id, uint64_t generation, const Error& error) {
  if (!members.contains(id)) return;
  if (error.code == ErrorCode::kApplication || error.code == ErrorCode::kInvalidArgument) {
    handle(elastic::UserError{id, generation, error.message});
  } else {
    lose(id, error.message);
  }
}

void Trainer::Impl::lose(MemberId id, const std::string& cause) {
  const auto found = members.find(id);
  if (found == members.end()) return;
  if (report != nullptr) report->fault(found->second.rank, cause);
  drop(id);
  handle(elastic::MemberLost{id, cause});
}

void Trainer::Impl::drop(MemberId id) {
  const auto found = members.find(id);
  if (found == members.end()) return;
  if (found->second.bundle >= 0) bundle_used[static_cast<size_t>(found->second.bundle)] = false;
  // Without waiting: the head may be away. It ends the actor with this program at the latest.
  if (const auto session = Session::current_or_none())
    session->kill_later(found->second.actor.id(), true, 0ms, [](const Result<void>&) {});
  members.erase(found);
}

void Trainer::Impl::carry_out(const elastic::Actions& actions) {
  for (const elastic::Action& action : actions) {
    std::visit([this](const auto& one) { perform(one); }, action);
  }
  fill_bundles();
  if (report != nullptr) report->activity(coordinator.explain());
  const std::string picture = describe_waiting();
  const std::lock_guard<std::mutex> hold(shown_mutex);
  shown = picture.empty() ? coordinator.explain() : fmt::format("{}\n{}", coordinator.explain(), picture);
  shown_pids.clear();
  for (const MemberId id : coordinator.members()) {
    const auto found = members.find(id);
    if (found != members.end() && found->second.ready) shown_pids.push_back(found->second.ready->pid);
  }
}

void Trainer::Impl::perform(const elastic::Spawn& action) {
  for (const MemberId id : action.members) {
    try {
      spawn(id);
    } catch (const Exception& exception) {
      if (!is_started) throw;
      // The head is away, for instance: the coordinator asks again later.
      inbox->post([id, cause = exception.error().message](Impl& impl) {
        impl.handle(elastic::MemberLost{id, cause, false});
      });
    }
  }
}

std::optional<int> Trainer::Impl::free_bundle() const {
  const auto free = std::find(bundle_used.begin(), bundle_used.end(), false);
  return free == bundle_used.end() ? std::nullopt : std::optional(static_cast<int>(free - bundle_used.begin()));
}

void Trainer::Impl::fill_bundles() {
  std::vector<MemberId> waiting;
  for (const auto& [id, member] : members) {
    if (member.bundle < 0 && !member.is_placed) waiting.push_back(id);
  }
  for (const MemberId id : waiting) {
    if (!free_bundle()) return;
    drop(id);
    perform(elastic::Spawn{{id}});
  }
}

void Trainer::Impl::spawn(MemberId id) {
  Member member;
  auto builder = volador::actor<RankActor>(
                     RankSpec{operator_name, options.config, options.seed, use_gpu, options.backend,
                              std::min(2.0, std::chrono::duration<double>(options.hang_timeout).count() / 2)})
                     .priority(options.priority)
                     .concurrency_group<&RankActor::pause, &RankActor::abort, &RankActor::status>("control", 1)
                     .concurrency_group<&RankActor::stored_copy>("copies", 2);
  for (const auto& [key, value] : options.env) std::move(builder).env(key, value);
  if (const auto bundle = free_bundle()) {
    member.bundle = *bundle;
    std::move(builder)
        .in(options.group ? *options.group : *group, options.first_bundle + member.bundle)
        .resources(options.resources_per_worker);
  } else {
    std::move(builder).resources(options.resources_per_worker);
    if (static_cast<int>(id) > options.num_workers.min) std::move(builder).wait_if_infeasible();
  }
  member.actor = std::move(builder).spawn();
  if (member.bundle >= 0) bundle_used[static_cast<size_t>(member.bundle)] = true;
  const auto box = inbox;
  const ActorId actor = member.actor.id();
  member.watch = Session::current()->on_status(actor, [box, id, actor](const ActorStatus& status) {
    if (status.state == ActorState::kDead) {
      box->post([id, actor, cause = status.death.message](Impl& impl) {
        if (impl.is_of(id, actor)) impl.lose(id, cause);
      });
    } else if (status.state != ActorState::kPending) {
      box->post([id, actor](Impl& impl) {
        if (impl.is_of(id, actor)) impl.members.at(id).is_placed = true;
      });
    }
    if (status.node_leaves) box->post([id, node = status.node_name](Impl& impl) { impl.on_notice(id, node); });
  });
  member.actor.call<&RankActor::prepare>().then([box, id, actor](Result<RankReady> ready) {
    box->post([id, actor, ready = std::move(ready)](Impl& impl) {
      if (impl.is_of(id, actor)) impl.on_ready(id, ready);
    });
  });
  members.insert_or_assign(id, std::move(member));
}

bool Trainer::Impl::is_of(MemberId id, const ActorId& actor) const {
  const auto found = members.find(id);
  return found != members.end() && found->second.actor.id() == actor;
}

void Trainer::Impl::on_ready(MemberId id, const Result<RankReady>& ready) {
  const auto found = members.find(id);
  if (found == members.end()) return;
  if (!ready) return on_failure(id, 0, ready.error());
  if (!first_ready) {
    first_ready = *ready;
  } else if (first_ready->layout != ready->layout) {
    return handle(elastic::UserError{
        id, 0,
        fmt::format("setup() registered different parameters or compression on two ranks: {}; all ranks must "
                    "register equal models and compress alike",
                    first_difference(first_ready->parameters, ready->parameters))});
  }
  if (ready->is_sharded && !options.copy_state) {
    return handle(elastic::UserError{
        id, 0,
        "an optimizer is registered with .shard = true, so that a lost worker takes its share of the state away: the "
        "trainer must have .copy_state = true to go on after a loss"});
  }
  found->second.ready = *ready;
  found->second.has_state = coordinator.generation() == 0;
  found->second.offer = ready->segment;
  handle(elastic::MemberReady{id, ready->node});
}

void Trainer::Impl::on_notice(MemberId id, const std::string& node) {
  const auto found = members.find(id);
  if (found == members.end() || std::exchange(found->second.is_leaving, true)) return;
  const std::string sentence =
      fmt::format("Node {} leaves: {} moves to another place.", node, describe(id).value_or("a starting worker"));
  log::info("train", sentence, {{"run", options.name}});
  if (report != nullptr) report->event(sentence);
  handle(elastic::MemberNotice{id});
}

void Trainer::Impl::perform(const elastic::Kill& action) {
  if (action.cause != elastic::KillCause::kLeaving) {
    const std::string picture = describe_waiting();
    const std::string reason = picture.empty() ? action.reason : fmt::format("{}\n{}", action.reason, picture);
    log::warn("train", reason, {{"run", options.name}});
    if (report != nullptr) {
      const auto found = members.find(action.id);
      report->fault(found == members.end() ? -1 : found->second.rank, reason);
    }
    last_hang = reason;
  }
  drop(action.id);
}

std::optional<std::string> Trainer::Impl::describe(MemberId id) const {
  const auto rank = std::find(asked_ranks.begin(), asked_ranks.end(), id);
  const auto found = members.find(id);
  if (rank == asked_ranks.end() || found == members.end() || !found->second.ready) return std::nullopt;
  return fmt::format("rank {} (pid {} on node {})", rank - asked_ranks.begin(), found->second.ready->pid,
                     found->second.ready->node);
}

std::string Trainer::Impl::describe_waiting() const {
  std::string text;
  bool is_long = false;
  for (const MemberId id : asked_ranks) {
    const auto found = members.find(id);
    const auto name = describe(id);
    if (found == members.end() || !name) continue;
    const auto& seen = found->second.seen;
    if (!seen) {
      text += fmt::format("{}: has not answered a status request.\n", *name);
      continue;
    }
    const RankStatus& loop = seen->loop;
    is_long = is_long || !seen->stack.empty();
    text += fmt::format("{}: {} in step {} for {:.1f} s", *name, loop.activity.empty() ? "idle" : loop.activity,
                        loop.step + 1, loop.in_step_s);
    if (!loop.waiting_for.empty()) text += fmt::format(", waits for rank {}", fmt::join(loop.waiting_for, ", "));
    text += ".\n";
    for (size_t at = 0; at < seen->stack.size();) {
      const size_t end = seen->stack.find('\n', at);
      text += fmt::format("    {}\n", seen->stack.substr(at, end - at));
      at = end + 1;
    }
  }
  if (!is_long) return {};
  text.pop_back();
  return text;
}

void Trainer::Impl::perform(const elastic::Abort& action) {
  tell<&RankActor::abort>(action.members, action.generation, std::string("a rank was lost; the group is formed anew"));
}

void Trainer::Impl::perform(const elastic::Form& action) {
  std::optional<MemberId> source = action.source;
  bool differ = false;
  if (source && first_ready->is_sharded) {
    // A rank alone has a share of the optimizers' state only: all take a whole state of this step, or the kept one.
    const int64_t at = members.at(*source).step;
    const auto whole = std::find_if(members.begin(), members.end(), [&](const auto& entry) {
      return entry.second.has_state && entry.second.step == at;
    });
    source = whole == members.end() ? std::nullopt : std::optional(whole->first);
    differ = true;
  }
  if (!source) {  // What was done since the kept state is done again.
    went_back_to = kept.is_valid() ? kept_step : 0;
    total = part = {};
    // Steps of earlier calls of train() are a segment of their own, whose metrics are not counted again.
    if (*went_back_to < counted_from)
      request.until_step = request.until_step < 0 ? counted_from : std::min(request.until_step, counted_from);
  }
  auto receivers = action.receivers;
  for (const MemberId id : action.members) differ = differ || members.at(id).may_differ;
  if (!source && !kept.is_valid()) source = action.members.front();
  if (differ || !action.source) receivers = action.members;
  if (source) std::erase(receivers, *source);
  for (const MemberId id : action.members) members.at(id).may_differ = false;

  std::vector<std::string> nodes;
  std::vector<SegmentOffer> offers;  // One for each node.
  Formation formation{
      .generation = action.generation, .rank = 0, .node_of_rank = {}, .segment = {}, .has_state = false};
  for (const MemberId id : action.members) {
    const Member& member = members.at(id);
    const auto known = std::find(nodes.begin(), nodes.end(), member.ready->node);
    formation.node_of_rank.push_back(static_cast<int>(known - nodes.begin()));
    if (known != nodes.end()) continue;
    nodes.push_back(member.ready->node);
    offers.push_back(member.offer);
  }
  // A table of its own for each generation: no rank of an older one can be mistaken for one of this.
  if (nodes.size() > 1 || (use_gpu && action.members.size() > 1)) {
    try {
      formation.rendezvous = volador::actor<RendezvousActor>().isolation(Isolation::kShared).spawn();
    } catch (const Exception& exception) {
      inbox->post([action, cause = exception.error().message](Impl& impl) {
        for (const MemberId id : action.members) impl.handle(elastic::JoinFailed{id, action.generation, cause});
      });
      return;
    }
  }
  std::vector<std::pair<MemberId, Formation>> told;
  for (size_t rank = 0; rank < action.members.size(); ++rank) {
    formation.rank = static_cast<int>(rank);
    formation.segment = offers[static_cast<size_t>(formation.node_of_rank[rank])];
    formation.has_state = std::find(receivers.begin(), receivers.end(), action.members[rank]) != receivers.end();
    told.emplace_back(action.members[rank], formation);
  }
  if (receivers.empty()) return form(told, {});
  if (!source) return form(told, kept);
  const auto box = inbox;
  members.at(*source).actor.call<&RankActor::stored_state>().then(
      [box, told, id = *source](Result<volador::Ref<StateBytes>> state) {
        box->post([told, id, state = std::move(state)](Impl& impl) {
          if (state) return impl.form(told, *state);
          for (const auto& [member, one] : told) {
            if (member != id)
              impl.handle(elastic::JoinFailed{member, one.generation, "the state of another rank did not arrive"});
          }
          impl.on_failure(id, told.front().second.generation, state.error());
        });
      });
}

void Trainer::Impl::form(const std::vector<std::pair<MemberId, Formation>>& told,
                         const volador::Ref<StateBytes>& state) {
  const auto box = inbox;
  for (const auto& [id, formation] : told) {
    const auto found = members.find(id);
    if (found == members.end()) continue;
    const auto on_reply = [box, id = id, generation = formation.generation](Result<FormReply> reply) {
      box->post([id, generation, reply = std::move(reply)](Impl& impl) { impl.on_formed(id, generation, reply); });
    };
    if (formation.has_state) {
      found->second.actor.call<&RankActor::form>(formation, state).then(on_reply);
    } else {
      found->second.actor.call<&RankActor::form>(formation, StateBytes{}).then(on_reply);
    }
  }
}

void Trainer::Impl::on_formed(MemberId id, uint64_t generation, const Result<FormReply>& reply) {
  const auto found = members.find(id);
  if (found == members.end()) return;
  if (!reply) {
    // A state that could not be fetched is no fault of the rank.
    const ErrorCode code = reply.error().code;
    if (code == ErrorCode::kObjectLost || code == ErrorCode::kStoreFull)
      return handle(elastic::JoinFailed{id, generation, reply.error().message});
    return on_failure(id, generation, reply.error());
  }
  found->second.offer = reply->segment;
  if (!reply->error.empty()) return handle(elastic::UserError{id, generation, reply->error});
  if (!reply->not_joined.empty()) return handle(elastic::JoinFailed{id, generation, reply->not_joined});
  found->second.has_state = true;
  found->second.step = reply->step;
  handle(elastic::Joined{id, generation, {reply->step}});
}

void Trainer::Impl::perform(const elastic::Run& action) {
  if (request.is_training) {
    total.add_part(part);
  } else {
    total = {};
  }
  part = {};
  if (report != nullptr && action.generation != reported_generation) {
    reported_generation = action.generation;
    report_ranks();
  }
  if (first_ready->is_sharded && !kept.is_valid()) keep_state();  // A loss in the first segment goes back to here.
  const auto box = inbox;
  for (const MemberId id : action.members) {
    const auto found = members.find(id);
    if (found == members.end()) continue;
    found->second.has_state = false;
    found->second.seen.reset();  // What it did in the generation before.
    found->second.actor.call<&RankActor::run>(action.generation, request)
        .then([box, id, generation = action.generation, segment = action.segment](Result<SegmentReply> reply) {
          box->post([id, generation, segment, reply = std::move(reply)](Impl& impl) {
            impl.on_stopped(id, generation, segment, reply);
          });
        });
  }
}

void Trainer::Impl::on_stopped(MemberId id, uint64_t generation, uint64_t segment, const Result<SegmentReply>& reply) {
  const auto found = members.find(id);
  if (found == members.end()) return;
  if (!reply) return on_failure(id, generation, reply.error());
  if (generation == coordinator.generation() && segment == coordinator.segment()) {
    part.add_rank(reply->metrics);
    found->second.data_s += reply->times.data;
    found->second.samples += reply->metrics.samples;
    if (!coordinator.members().empty() && coordinator.members().front() == id) add_times(reply->times);
    step = std::max(step, reply->step);
    if (reply->end == SegmentEnd::kFinished) {
      step = reply->step;
      epoch = reply->epoch;
      is_stopped = is_stopped || reply->is_stopped;
    }
  }
  found->second.may_differ = reply->may_differ;
  found->second.has_state = reply->has_state;
  found->second.step = reply->step;
  const Stop why = reply->end == SegmentEnd::kFinished ? Stop::kFinished
                   : reply->end == SegmentEnd::kPaused ? Stop::kPaused
                                                       : Stop::kAborted;
  handle(elastic::Stopped{id, generation, segment, {reply->step}, why});
}

void Trainer::Impl::perform(const elastic::AskStatus& action) {
  asked_ranks = coordinator.members();
  const uint64_t generation = coordinator.generation();
  const auto box = inbox;
  for (const MemberId id : action.members) {
    const auto found = members.find(id);
    if (found == members.end()) continue;
    found->second.actor.call_for<&RankActor::status>(kStatusTimeout)
        .then([box, id, ranks = asked_ranks, generation, round = action.round](Result<RankView> view) {
          box->post([id, ranks, generation, round, view = std::move(view)](Impl& impl) {
            if (!view) return impl.handle(elastic::NoStatus{id, round});
            // An answer that comes after the segment's end is not what the rank does now.
            if (const auto member = impl.members.find(id); member != impl.members.end() && !impl.is_finished)
              member->second.seen = *view;
            const RankStatus& status = view->loop;
            if (const auto member = impl.members.find(id); impl.report != nullptr && member != impl.members.end()) {
              impl.report->rank_activity({.rank = member->second.rank,
                                          .step = status.step,
                                          .in_step_s = status.in_step_s,
                                          .activity = status.activity,
                                          .waiting_for = status.waiting_for});
            }
            elastic::Status event{.id = id, .generation = generation, .round = round, .progress = {status.step}};
            event.in_step_for =
                std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(status.in_step_s));
            for (const int rank : status.waiting_for) {
              if (static_cast<size_t>(rank) < ranks.size())
                event.waiting_for.push_back(ranks[static_cast<size_t>(rank)]);
            }
            impl.handle(event);
          });
        });
  }
}

void Trainer::Impl::perform(const elastic::ReportSlow& action) {
  const auto ranks = coordinator.members();
  const auto rank = std::find(ranks.begin(), ranks.end(), action.id) - ranks.begin();
  const std::string sentence = fmt::format(
      "Rank {} is slow: its steps take {:.1f} times those of the others, which wait for it.", rank, action.factor);
  log::warn("train", sentence, {{"run", options.name}});
  if (report != nullptr) report->event(sentence);
}

void Trainer::Impl::perform(const elastic::Finish&) {
  is_finished = true;
  for (auto& [id, member] : members) member.seen.reset();
}

void Trainer::Impl::perform(const elastic::Fail& action) {
  error = action.error;
  if (!last_hang.empty() && error->code != ErrorCode::kApplication)
    error->message += fmt::format("\nThe last worker that was ended: {}", last_hang);
  send_report();
  if (report != nullptr) report->end(RunOutcome::kFailed, error->message);
  report.reset();
  end();
}

}  // namespace volador::train
