// Shows the actors that run the ranks of jobs to those who may see the job. Thread safe.
#pragma once

#include <functional>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "head/kernel/actor_guard.h"
#include "jobs/job_access.h"
#include "jobs/job_core.h"

namespace volador {

// The token of the jobs' driver, which no user has.
inline constexpr std::string_view kJobsToken = "jobs";

using GroupsOf = std::function<std::vector<std::string>(const std::string& user)>;
// `groups_of`: the groups of a user; may be empty.
jobs::Requester requester_of(const security::Principal& by, const GroupsOf& groups_of);

class RankGuard final : public head::ActorGuard {
 public:
  // Until then it shows nothing but to operators; from then on the actors of all jobs are known. `driver`: that of the
  // jobs; nil: there is none.
  void set_loaded(DriverId driver = {});
  // `groups_of`: thread safe; called as long as this object lives.
  void set_groups(GroupsOf groups_of);
  void set_settings(const v1::QueueSettings& settings);
  void set_actors(const jobs::JobActors& job);

  std::string_view token_id() const override { return kJobsToken; }
  bool owns(DriverId driver) const override;
  std::optional<bool> shows(ActorId actor, const security::Principal& by) const override;

 private:
  mutable std::shared_mutex mutex_;
  bool is_loaded_ = false;
  DriverId driver_;
  GroupsOf groups_of_;
  v1::QueueSettings settings_;                         // Only what jobs::access_to() reads.
  std::unordered_map<int64_t, jobs::JobActors> jobs_;  // By number.
  std::unordered_map<ActorId, int64_t> by_actor_;
};

}  // namespace volador
