// Who may submit, see and change jobs. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"

namespace volador::jobs {

// Who asks.
struct Requester {
  std::string token_id;
  std::string user = {};  // Empty: the token has no user.
  bool operates = false;
  std::vector<std::string> groups = {};  // The groups of the user.
};

// What a requester may do with a job. Each includes the previous ones.
enum class JobAccess : uint8_t {
  kNone,   // For it the job does not exist.
  kRead,   // See and clone it.
  kWrite,  // Extend, stop and delete it, and change its priority.
};

// The access that a specification grants to others. kInvalidArgument: not one of none, read, write; empty is read.
Result<JobAccess> parse_job_access(std::string_view text);

// Owner and operators have all access: the owner is the job's user with any token, or without a user the token of the
// submission. Others have what the job grants if they belong to its project, and nothing if the settings make all jobs
// private. To a project without members everyone belongs; a member is a user, or a group of users as "@name".
JobAccess access_to(const v1::Job& job, const v1::QueueSettings& settings, const Requester& by);
bool is_owner(const v1::Job& job, const Requester& by);
// The part of a job that decides who has which access to it.
v1::Job access_part(const v1::Job& job);
// The user's name, else the id of the token: for usage and predictions.
const std::string& owner_name(const v1::Job& job);
// Whether both have the same owner.
bool same_owner(const v1::Job& one, const v1::Job& other);
// Whether everyone may see the job, so that events and the reasons of other jobs may name it.
bool seen_by_all(const v1::Job& job, const v1::QueueSettings& settings);

// kPermissionDenied: the project has members, and the requester is none of them and no operator.
Result<void> check_member(const v1::QueueSettings& settings, const std::string& project, const Requester& by);
// kPermissionDenied: the job asks for more than a maximum of the settings, which holds for operators too.
Result<void> check_maxima(const v1::QueueSettings& settings, const v1::JobSpec& spec);
// The same for a maximum running time in seconds; 0: unlimited.
Result<void> check_duration_maximum(const v1::QueueSettings& settings, int64_t duration_s);

}  // namespace volador::jobs
