#include "jobs/queue_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "jobs/notify/notice_settings.h"
#include "runtime/nearest_word.h"
#include "runtime/security/user.h"

namespace volador::jobs {
namespace {

constexpr int kSettingsEntriesMax = 1000;
constexpr size_t kEntryNameBytesMax = 63;
constexpr size_t kEntryNoteBytesMax = 4096;
constexpr double kWeightMax = 1e6;
constexpr std::string_view kHostEnvironment = "host";

tl::unexpected<Error> bad_setting(std::string message) {
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}

bool is_plain_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

// The names and notes of the entries of one list.
template <class Entries>
Result<void> check_entries(std::string_view list, const Entries& entries) {
  if (entries.size() > kSettingsEntriesMax)
    return bad_setting(fmt::format("{}: expected at most {}, got {}", list, kSettingsEntriesMax, entries.size()));
  std::set<std::string> names;
  for (const auto& entry : entries) {
    const std::string& name = entry.name();
    if (name.empty() || name.size() > kEntryNameBytesMax)
      return bad_setting(
          fmt::format("{}: expected a name of 1 to {} bytes, got \"{}\"", list, kEntryNameBytesMax, name));
    if (!names.insert(name).second) return bad_setting(fmt::format("{}: {} is given twice; remove one", list, name));
    if (entry.note().size() > kEntryNoteBytesMax) {
      return bad_setting(fmt::format("{}: {}: note: expected at most {} bytes, got {}", list, name, kEntryNoteBytesMax,
                                     entry.note().size()));
    }
  }
  return {};
}

Result<void> check_project(const v1::Project& project) {
  const std::string where = fmt::format("projects: {}", project.name());
  if (!(project.weight() > 0 && project.weight() <= kWeightMax))
    return bad_setting(fmt::format("{}: weight: expected above 0 to {}, got {}", where, kWeightMax, project.weight()));
  for (const auto& [resource, amount] : project.limits()) {
    if (resource.empty() || !std::isfinite(amount) || amount < 0) {
      return bad_setting(
          fmt::format("{}: limits: expected the name of a resource and an amount of 0 or more, got {}: {}", where,
                      resource, amount));
    }
  }
  if (project.urgent_jobs() < 0)
    return bad_setting(
        fmt::format("{}: urgent_jobs: expected 0 (no limit) or more, got {}", where, project.urgent_jobs()));
  if (project.members_size() > kSettingsEntriesMax)
    return bad_setting(
        fmt::format("{}: members: expected at most {}, got {}", where, kSettingsEntriesMax, project.members_size()));
  for (const std::string& member : project.members()) {
    const auto group = security::group_in(member);
    VOLADOR_TRY(group ? security::check_group_name(where + ": members", *group)
                      : security::check_user_name(where + ": members", member));
  }
  return {};
}

Result<void> check_maxima_setting(const v1::JobMaxima& maxima) {
  for (const auto& [field, value] :
       std::initializer_list<std::pair<std::string_view, int64_t>>{{"restarts", maxima.restarts()},
                                                                   {"resumes", maxima.resumes()},
                                                                   {"graceful_s", maxima.graceful_s()},
                                                                   {"debug_s", maxima.debug_s()},
                                                                   {"duration_s", maxima.duration_s()}}) {
    if (value < 0) return bad_setting(fmt::format("maxima: {}: expected 0 (no limit) or more, got {}", field, value));
  }
  return {};
}

std::optional<JobPriority> preempts_from(std::string_view preemption) {
  if (preemption == "urgent") return JobPriority::kUrgent;
  if (preemption == "very_urgent") return JobPriority::kVeryUrgent;
  return std::nullopt;
}

// A limit as an amount. A limit of 0 becomes the smallest amount, as a ResourceSet has no entries of 0.
Amount limit_of(const std::string& resource, double amount) {
  constexpr double kMost = 9e18;
  const double units = resource == "memory" ? amount : amount * static_cast<double>(kUnit);
  return std::max<Amount>(1, std::llround(std::min(units, kMost)));
}

}  // namespace

Result<v1::QueueSettings> checked_settings(const v1::QueueSettings& given) {
  v1::QueueSettings settings = given;
  VOLADOR_TRY(check_entries("pools", settings.pools()));
  VOLADOR_TRY(check_entries("projects", settings.projects()));
  VOLADOR_TRY(check_entries("environments", settings.environments()));
  for (v1::Project& project : *settings.mutable_projects()) {
    if (project.weight() == 0) project.set_weight(1);
    VOLADOR_TRY(check_project(project));
  }
  for (const v1::Environment& environment : settings.environments()) {
    if (!is_plain_name(environment.name()) || environment.name() == kHostEnvironment) {
      return bad_setting(
          fmt::format("environments: expected a name of letters, digits, - and _ other than {}, got \"{}\"",
                      kHostEnvironment, environment.name()));
    }
    const std::string& source = environment.source();
    if (source.empty() || (is_plain_name(source) && source != kHostEnvironment)) {
      return bad_setting(
          fmt::format("environments: {}: source: expected host, a path or an image such as "
                      "/opt/conda/envs/cuda12, got \"{}\"",
                      environment.name(), source));
    }
  }
  VOLADOR_TRY(check_notifications(settings));
  VOLADOR_TRY(check_maxima_setting(settings.maxima()));
  if (settings.preemption().empty()) settings.set_preemption("never");
  if (settings.preemption() != "never" && !preempts_from(settings.preemption()))
    return bad_setting(
        fmt::format("preemption: expected never, urgent or very_urgent, got \"{}\"", settings.preemption()));
  return settings;
}

PlannerOptions planner_options(const v1::QueueSettings& settings) {
  PlannerOptions options;
  for (const v1::Project& project : settings.projects()) {
    options.weights[project.name()] = project.weight();
    if (project.urgent_jobs() > 0) options.urgent_quota[project.name()] = project.urgent_jobs();
    for (const auto& [resource, amount] : project.limits())
      options.limits[project.name()].set(resource, limit_of(resource, amount));
  }
  options.preempt_from = preempts_from(settings.preemption());
  return options;
}

Result<void> check_pool(const v1::QueueSettings& settings, const std::set<std::string>& pools, const std::string& pool,
                        const std::string& project) {
  const auto listed = std::ranges::find(settings.pools(), pool, &v1::Pool::name);
  if (listed == settings.pools().end() && pool != kDefaultPool && !pools.contains(pool)) {
    std::set<std::string> known = pools;
    known.emplace(kDefaultPool);
    for (const v1::Pool& each : settings.pools()) known.insert(each.name());
    return make_error(ErrorCode::kNotFound,
                      fmt::format("pool: there is no pool \"{}\"; the pools are {}. A node joins a pool with `volador "
                                  "start --labels=pool=NAME`",
                                  pool, fmt::join(known, ", ")));
  }
  if (listed == settings.pools().end() || listed->projects().empty()) return {};
  if (std::ranges::find(listed->projects(), project) != listed->projects().end()) return {};
  return make_error(
      ErrorCode::kPermissionDenied,
      fmt::format("pool: {} takes jobs of {} only, and this job belongs to project {}; use another pool or "
                  "project",
                  pool, fmt::join(listed->projects(), ", "), project));
}

Result<std::string> resolved_environment(const v1::QueueSettings& settings, const std::string& text) {
  if (text.empty() || text == kHostEnvironment || !is_plain_name(text)) return text;
  std::vector<std::string> names{std::string(kHostEnvironment)};
  for (const v1::Environment& each : settings.environments()) {
    if (each.name() == text) return each.source();
    names.push_back(each.name());
  }
  return make_error(
      ErrorCode::kNotFound,
      fmt::format("environment: there is no environment \"{}\"{}; the names are {}, and a file of the code "
                  "folder or a path is allowed too",
                  text, did_you_mean(text, names), fmt::join(names, ", ")));
}

}  // namespace volador::jobs
