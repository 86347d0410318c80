#include "dashboard/row_members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "dashboard/row_filter.h"
#include "runtime/nearest_word.h"

namespace volador::dashboard {
namespace {

using Members = std::vector<std::string_view>;

const std::map<std::string_view, Members>& members_by_pattern() {
  static const Members trial{"id",          "experiment", "status",   "node",      "step",   "config",
                             "config_text", "metrics",    "error",    "error_why", "reason", "why",
                             "actor",       "started_ms", "ended_ms", "name",      "tags",   "cloned_from"};
  static const Members checkpoint{"id",    "experiment", "trial",  "batches", "created_ms", "state", "resources",
                                  "bytes", "metadata",   "metric", "metrics", "storage",    "run"};
  static const std::map<std::string_view, Members> kMembers{
      {"/api/v1/nodes",
       {"id",
        "name",
        "state",
        "address",
        "total",
        "used",
        "labels",
        "actors",
        "cpu_cores_used",
        "memory_bytes_used",
        "gpu_model",
        "gpus",
        "file_systems",
        "problems",
        "disk_read_bytes_per_s",
        "disk_write_bytes_per_s",
        "network_receive_bytes_per_s",
        "network_send_bytes_per_s",
        "cpu_temperature_celsius",
        "cpu_power_watts",
        "version",
        "last_heard_ms"}},
      {"/api/v1/actors", {"id",     "class_name", "name",     "namespace", "display", "state",  "node",
                          "pid",    "epoch",      "restarts", "resources", "gpus",    "reason", "why",
                          "driver", "driver_id",  "owner",    "detached",  "group",   "bundle"}},
      {"/api/v1/drivers", {"id", "program", "pid", "state", "host", "owner", "connected_ms"}},
      {"/api/v1/queue",
       {"id", "kind", "name", "display", "class_name", "experiment", "trial", "group", "driver", "priority", "position",
        "resources", "bundles", "reason", "why", "reserved", "blocker", "since_ms"}},
      {"/api/v1/groups",
       {"id", "name", "strategy", "state", "reason", "why", "driver", "owner", "detached", "priority", "bundles_total",
        "bundles_placed", "actors", "total", "bundles"}},
      {"/api/v1/objects",
       {"id", "object", "node", "bytes", "type", "place", "put_by", "held_by", "references", "state", "copy"}},
      {"/api/v1/object_groups",
       {"id", "node", "place", "type", "put_by", "objects", "bytes", "bytes_in_memory", "bytes_spilled", "references"}},
      {"/api/v1/object_stores", {"id", "node", "bytes", "bytes_max", "objects", "spilled", "spilled_max", "error"}},
      {"/api/v1/experiments",
       {"id",
        "name",
        "state",
        "metric",
        "mode",
        "directory",
        "trials_total",
        "trials_by_status",
        "trials_planned",
        "best",
        "best_so_far",
        "left",
        "scheduler",
        "metrics",
        "tags",
        "note",
        "archived",
        "files",
        "driver_id",
        "started_ms",
        "updated_ms"}},
      {"/api/v1/trials", trial},
      {"/api/v1/experiments/{name}/trials", trial},
      {"/api/v1/audit", {"id", "time_ms", "by", "action", "object", "outcome", "message"}},
      {"/api/v1/events", {"id", "time_ms", "level", "text", "fields", "why"}},
      {"/api/v1/studies",
       {"name", "space", "searcher", "scheduler", "about", "objectives", "seed", "max_trials", "lease_s", "max_retries",
        "created_ms", "trials_total", "trials_by_state", "best"}},
      {"/api/v1/studies/{name}/trials",
       {"number", "state", "config", "values", "step", "reported", "attempt", "worker", "reason", "why", "started_ms",
        "ended_ms", "lease_ends_ms"}},
      {"/api/v1/jobs",
       {"id",          "spec",     "state",   "reason", "why",      "submitted_ms", "started_ms",     "ended_ms",
        "exit_code",   "restarts", "ranks",   "owner",  "stopping", "position",     "start",          "earlier",
        "preemptions", "ran_ms",   "resumes", "nodes",  "avoids",   "labels",       "debug_until_ms", "user"}},
      {"/api/v1/determined/experiments",
       {"id",
        "name",
        "description",
        "labels",
        "state",
        "phase",
        "archived",
        "progress",
        "user",
        "owner",
        "created_ms",
        "ended_ms",
        "smaller_is_better",
        "workspace",
        "project",
        "searcher",
        "metric",
        "trials",
        "trials_by_state",
        "best_trial",
        "best_metric",
        "parent",
        "files_sha256",
        "notes",
        "reason",
        "why",
        "checkpoints",
        "checkpoint_bytes",
        "run",
        "config",
        "storage",
        "original_config",
        "katib"}},
      {"/api/v1/determined/experiments/{id}/trials",
       {"id",
        "experiment",
        "request_id",
        "state",
        "hparams",
        "seed",
        "run",
        "restarts",
        "created_ms",
        "started_ms",
        "ended_ms",
        "batches",
        "best_metric",
        "latest_metric",
        "metrics",
        "job",
        "latest_checkpoint",
        "best_checkpoint",
        "reason",
        "why",
        "progress",
        "warm_start_trial",
        "training_metrics",
        "searched_length",
        "warm_start_checkpoint",
        "name"}},
      {"/api/v1/models",
       {"id", "name", "description", "notes", "labels", "metadata", "workspace", "user", "owner", "archived",
        "created_ms", "changed_ms", "versions", "newest_version", "aliases"}},
      {"/api/v1/models/{model}/versions",
       {"model", "version", "checkpoint", "name", "comment", "notes", "labels", "metadata", "user", "created_ms",
        "changed_ms", "checkpoint_info", "aliases"}},
      {"/api/v1/determined/experiments/{id}/checkpoints", checkpoint},
      {"/api/v1/determined/trials/{trial}/checkpoints", checkpoint},
      {"/api/v1/katib/resources",
       {"kind", "namespace", "name", "object", "version", "experiment", "trial", "job", "deleted"}},
      {"/api/v1/users",
       {"name", "role", "disabled", "full_name", "mail", "password_set", "created_ms", "subject", "groups"}},
      {"/api/v1/user_groups", {"name", "note", "members", "created_ms"}},
      {"/api/v1/job_usage", {"day", "project", "owner", "cpu_hours", "gpu_hours", "memory_gib_hours", "attempts"}},
  };
  return kMembers;
}

// A path starts with a member; nested members depend on the row.
Result<void> check(std::string_view what, const std::vector<std::string>& paths,
                   std::span<const std::string_view> members) {
  for (const std::string& path : paths) {
    const std::string_view name = std::string_view(path).substr(0, path.find('.'));
    if (std::find(members.begin(), members.end(), name) != members.end()) continue;
    const std::string shown(name.substr(0, 80));
    const std::vector<std::string> names(members.begin(), members.end());
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: rows of this list have no member \"{}\"{}; known: {}", what, shown,
                                  did_you_mean(shown, names), fmt::join(members, ", ")));
  }
  return {};
}

}  // namespace

std::span<const std::string_view> row_members(std::string_view pattern) {
  const auto found = members_by_pattern().find(pattern);
  return found == members_by_pattern().end() ? std::span<const std::string_view>()
                                             : std::span<const std::string_view>(found->second);
}

Result<void> check_members(std::string_view pattern, const Query& query) {
  const auto members = row_members(pattern);
  if (members.empty()) return {};
  if (const auto fields = check("fields", texts_in(query, "fields"), members); !fields) return fields;
  std::string order = text_in(query, "order");
  if (order.starts_with('-')) order.erase(0, 1);
  if (!order.empty()) {
    if (const auto known = check("order", {order}, members); !known) return known;
  }
  const auto filter = RowFilter::parse(text_in(query, "filter"));
  return filter ? check("filter", filter->members(), members) : make_error(filter.error());
}

}  // namespace volador::dashboard
