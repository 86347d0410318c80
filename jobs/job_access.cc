#include "jobs/job_access.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/security/user.h"

namespace volador::jobs {
namespace {

// Null: the settings do not have it.
const v1::Project* project_of(const v1::QueueSettings& settings, const std::string& name) {
  const auto found = std::ranges::find(settings.projects(), name, &v1::Project::name);
  return found == settings.projects().end() ? nullptr : &*found;
}

bool is_open(const v1::Project* project) { return project == nullptr || project->members().empty(); }

bool belongs(const v1::Project* project, const Requester& by) {
  return is_open(project) || security::is_member(project->members(), by.user, by.groups);
}

Result<void> check_maximum(std::string_view field, int64_t asked, int64_t most) {
  if (most == 0 || asked <= most) return {};
  return make_error(
      ErrorCode::kPermissionDenied,
      fmt::format("{}: at most {} is allowed on this cluster, got {}; an operator changes the maximum with "
                  "`volador job queue --apply`",
                  field, most, asked));
}

}  // namespace

Result<JobAccess> parse_job_access(std::string_view text) {
  if (text.empty() || text == "read") return JobAccess::kRead;
  if (text == "none") return JobAccess::kNone;
  if (text == "write") return JobAccess::kWrite;
  return make_error(ErrorCode::kInvalidArgument, fmt::format("access: expected none, read or write, got \"{}\"", text));
}

bool is_owner(const v1::Job& job, const Requester& by) {
  return job.user().empty() ? job.owner() == by.token_id : job.user() == by.user;
}

v1::Job access_part(const v1::Job& job) {
  v1::Job part;
  part.set_owner(job.owner());
  part.set_user(job.user());
  part.mutable_spec()->set_project(job.spec().project());
  part.mutable_spec()->set_access(job.spec().access());
  return part;
}

const std::string& owner_name(const v1::Job& job) { return job.user().empty() ? job.owner() : job.user(); }

bool same_owner(const v1::Job& one, const v1::Job& other) {
  return one.user() == other.user() && (!one.user().empty() || one.owner() == other.owner());
}

JobAccess access_to(const v1::Job& job, const v1::QueueSettings& settings, const Requester& by) {
  if (by.operates || is_owner(job, by)) return JobAccess::kWrite;
  if (settings.private_jobs() || !belongs(project_of(settings, job.spec().project()), by)) return JobAccess::kNone;
  return parse_job_access(job.spec().access()).value_or(JobAccess::kNone);
}

bool seen_by_all(const v1::Job& job, const v1::QueueSettings& settings) {
  return !settings.private_jobs() && is_open(project_of(settings, job.spec().project())) &&
         parse_job_access(job.spec().access()).value_or(JobAccess::kNone) != JobAccess::kNone;
}

Result<void> check_member(const v1::QueueSettings& settings, const std::string& project, const Requester& by) {
  if (by.operates || belongs(project_of(settings, project), by)) return {};
  return make_error(ErrorCode::kPermissionDenied,
                    fmt::format("project: {} takes jobs of its members only, and {}; use another project, or ask an "
                                "operator to add a member with `volador job queue --apply` or `volador group add`",
                                project,
                                by.user.empty() ? fmt::format("token {} has no user", by.token_id)
                                                : fmt::format("{} is none of them", by.user)));
}

Result<void> check_duration_maximum(const v1::QueueSettings& settings, int64_t duration_s) {
  const int64_t most = settings.maxima().duration_s();
  if (most == 0 || duration_s > 0) return check_maximum("duration_s", duration_s, most);
  return make_error(ErrorCode::kPermissionDenied,
                    fmt::format("duration_s: at most {} is allowed on this cluster, got 0 (unlimited); set a maximum "
                                "running time",
                                most));
}

Result<void> check_maxima(const v1::QueueSettings& settings, const v1::JobSpec& spec) {
  const v1::JobMaxima& most = settings.maxima();
  VOLADOR_TRY(check_maximum("max_restarts", spec.max_restarts(), most.restarts()));
  VOLADOR_TRY(check_maximum("max_resumes", spec.max_resumes(), most.resumes()));
  VOLADOR_TRY(check_maximum("graceful_s", spec.graceful_s(), most.graceful_s()));
  VOLADOR_TRY(check_maximum("debug_s", spec.debug_s(), most.debug_s()));
  return check_duration_maximum(settings, spec.duration_s());
}

}  // namespace volador::jobs
