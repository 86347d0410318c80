// Requests to the head: actors and placement groups for attempts.
#include <utility>

#include "runtime/actor/group_session.h"
#include "tune/execution/trial_executor_impl.h"

namespace volador::tune {
namespace {

// Translates errors about actors and their options to the terms of tune::run. Bundles of a group have no option of
// their own.
Error in_words_of_trials(const Error& error, bool in_group) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"option.and_wait", "option.and_trials_wait"},
      {"option.or_wait", "option.or_trials_wait"},
      {"option.resources", "option.resources_per_trial"}};
  if (error.code != ErrorCode::kInfeasible) return error;
  const Reason why = reason_of(error).with_sentences(kWords);
  return error_of(error.code, in_group ? reason("option.of", "bundles_per_trial", why) : why);
}

}  // namespace

void TrialExecutor::Impl::ask_for_group(const AttemptPtr& attempt) {
  const auto groups = session->groups();
  if (groups == nullptr) {
    return on_spawn_refused(attempt,
                            {ErrorCode::kInvalidArgument, "bundles_per_trial: this cluster has no placement groups"});
  }
  attempt->group_asked = true;
  GroupAsk ask{.bundles = options.bundles, .strategy = options.strategy};
  ask.wait_if_infeasible = options.wait_if_infeasible;
  groups->create(ask, [self = shared_from_this(), attempt](Result<GroupStatus> made) {
    // The attempt, or the whole run, has ended meanwhile: only this callback can release the group.
    if (made && attempt->over) return self->session->groups()->remove(made->id, [](const Result<GroupStatus>&) {});
    self->on_head([self, attempt, made = std::move(made)] {
      if (!made) {
        attempt->group_asked = false;
        if (!attempt->over) self->on_spawn_refused(attempt, made.error());
        return;
      }
      attempt->group = made->id;
      attempt->over ? self->release_group(attempt, milliseconds(0)) : self->spawn(attempt);
    });
  });
}

void TrialExecutor::Impl::release_group(const AttemptPtr& attempt, milliseconds grace) {
  constexpr milliseconds kLook{20};
  if (!attempt->group) return;
  if (grace.count() > 0 && attempt->spawned) {
    const auto status = session->status(*attempt->spawned);
    if (status && status->state != ActorState::kDead) {
      return after_on_head(
          kLook, [self = shared_from_this(), attempt, left = grace - kLook] { self->release_group(attempt, left); });
    }
  }
  session->groups()->remove(*attempt->group, [](const Result<GroupStatus>&) {});
}

void TrialExecutor::Impl::spawn(const AttemptPtr& attempt) {
  if (attempt->over || attempt->adopted) return;
  if (!options.bundles.empty() && !attempt->group) {
    if (!attempt->group_asked) ask_for_group(attempt);
    return;
  }
  using Constructor = volador::registration::Constructor<TrialActor, TrialSpec>;
  (void)Constructor::enlisted;
  SpawnRequest request;
  request.class_name = type_name<TrialActor>();
  request.arguments = to_bytes(Constructor::id(), spec_of(attempt));
  request.resources = resources_of_attempt(attempt);
  if (attempt->group) request.group = *attempt->group;
  request.wait_if_infeasible = options.wait_if_infeasible && attempt->resources.empty();
  request.display = "trial " + attempt->name;
  request.retriable = true;  // The loop handles the death of a trial's actor; a user's program may not handle that of
                             // its actor.
  request.start_timeout = options.start_timeout;
  request.opening = opening_of(attempt);
  const auto actor = session->spawn(request);
  if (!actor) return on_spawn_refused(attempt, actor.error());
  attempt->spawned = *actor;
  on_control([self = shared_from_this(), attempt, id = *actor, token = watch(attempt, *actor)] {
    self->on_spawned(attempt, id, token);
  });
  // Handles changes from before the listener was registered.
  if (const auto status = session->status(*actor)) {
    on_control([self = shared_from_this(), attempt, now = *status] { self->on_status(attempt, now); });
  }
}

void TrialExecutor::Impl::on_spawn_refused(const AttemptPtr& attempt, const Error& refusal) {
  const Error error = in_words_of_trials(refusal, !options.bundles.empty());
  if (error.code == ErrorCode::kInfeasible && !attempt->resources.empty()) {
    on_control([self = shared_from_this(), attempt, error] {
      if (!self->live(attempt)) return;
      self->end(attempt);
      self->emit(ResourcesRefused{attempt->trial, attempt->number, reason_of(error)});
    });
    return;
  }
  if (!worth_a_retry(error.code)) {
    on_control([self = shared_from_this(), error] { self->emit(Abort{error}); });
    return;
  }
  on_control([self = shared_from_this(), attempt, error] {
    if (self->live(attempt)) self->emit(ActorWaiting{attempt->trial, attempt->number, reason_of(error)});
  });
  after_on_head(options.retry_pause, [self = shared_from_this(), attempt] { self->spawn(attempt); });
}

void TrialExecutor::Impl::kill(const ActorId& actor, milliseconds grace) {
  const auto killed = session->kill(actor, true, grace);
  if (killed || !worth_a_retry(killed.error().code)) return;
  after_on_head(options.retry_pause, [self = shared_from_this(), actor, grace] { self->kill(actor, grace); });
}

}  // namespace volador::tune
