#include "volador/roles/rank_guard.h"

#include <mutex>

namespace volador {

jobs::Requester requester_of(const security::Principal& by, const GroupsOf& groups_of) {
  return {.token_id = by.token_id,
          .user = by.user,
          .operates = by.role == security::Role::kOperator,
          .groups = groups_of && !by.user.empty() ? groups_of(by.user) : std::vector<std::string>()};
}

void RankGuard::set_groups(GroupsOf groups_of) {
  const std::unique_lock lock(mutex_);
  groups_of_ = std::move(groups_of);
}

void RankGuard::set_loaded(DriverId driver) {
  const std::unique_lock lock(mutex_);
  is_loaded_ = true;
  driver_ = driver;
}

bool RankGuard::owns(DriverId driver) const {
  const std::shared_lock lock(mutex_);
  return !driver.is_nil() && driver == driver_;
}

void RankGuard::set_settings(const v1::QueueSettings& settings) {
  const std::unique_lock lock(mutex_);
  settings_.Clear();
  settings_.set_private_jobs(settings.private_jobs());
  *settings_.mutable_projects() = settings.projects();
}

void RankGuard::set_actors(const jobs::JobActors& job) {
  const std::unique_lock lock(mutex_);
  jobs::JobActors& known = jobs_[job.number];
  for (const ActorId actor : known.actors) by_actor_.erase(actor);
  known = job;
  for (const ActorId actor : known.actors) by_actor_[actor] = job.number;
  if (job.actors.empty()) jobs_.erase(job.number);
}

std::optional<bool> RankGuard::shows(ActorId actor, const security::Principal& by) const {
  const std::shared_lock lock(mutex_);
  const auto found = by_actor_.find(actor);
  if (found == by_actor_.end()) return is_loaded_ ? std::nullopt : std::optional(false);
  return jobs::access_to(jobs_.at(found->second).access, settings_, requester_of(by, groups_of_)) !=
         jobs::JobAccess::kNone;
}

}  // namespace volador
