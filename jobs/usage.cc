#include "jobs/usage.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>

namespace volador::jobs {
namespace {

constexpr int64_t kUsageDayMs = int64_t{24} * 3600 * 1000;
constexpr double kHourMs = 3600.0 * 1000;

std::string key_text(const std::tuple<std::string, std::string, std::string>& key) {
  return std::get<0>(key) + '\0' + std::get<1>(key) + '\0' + std::get<2>(key);
}

bool is_day(const std::string& text) {
  if (text.size() != 10) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 4 || i == 7;
    if (dash ? text[i] != '-' : text[i] < '0' || text[i] > '9') return false;
  }
  return true;
}

// Adds the part of the run that lies in each day: part(day, milliseconds).
template <class Part>
void by_day(const UsageLedger::Run& run, const Part& part) {
  for (int64_t from = run.from_ms; from < run.to_ms;) {
    const int64_t to = std::min(run.to_ms, (from / kUsageDayMs + 1) * kUsageDayMs);
    part(day_of(from), to - from);
    from = to;
  }
}

void add_part(v1::Usage& usage, const ResourceSet& held, int64_t milliseconds) {
  const double hours = static_cast<double>(milliseconds) / kHourMs;
  const auto units = [&](const char* name) { return static_cast<double>(held.get(name)) / double{kUnit}; };
  usage.set_cpu_hours(usage.cpu_hours() + units("cpus") * hours);
  usage.set_gpu_hours(usage.gpu_hours() + units("gpus") * hours);
  const double gib = static_cast<double>(held.get("memory")) / (1 << 30);
  usage.set_memory_gib_hours(usage.memory_gib_hours() + gib * hours);
}

v1::Usage& row_of(std::map<std::tuple<std::string, std::string, std::string>, v1::Usage>& rows, const std::string& day,
                  const UsageLedger::Run& run) {
  v1::Usage& row = rows[{day, run.project, run.owner}];
  row.set_day(day);
  row.set_project(run.project);
  row.set_owner(run.owner);
  return row;
}

}  // namespace

std::string day_of(int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:%Y-%m-%d}", utc);
}

bool UsageLedger::load(std::string_view value) {
  v1::Usage row;
  if (!row.ParseFromArray(value.data(), static_cast<int>(value.size())) || !is_day(row.day())) return false;
  const Key key{row.day(), row.project(), row.owner()};
  rows_[key] = std::move(row);
  return true;
}

void UsageLedger::add(const Run& run) {
  by_day(run, [&](const std::string& day, int64_t milliseconds) {
    add_part(row_of(rows_, day, run), run.held, milliseconds);
    changed_.insert({day, run.project, run.owner});
  });
  const std::string last = day_of(run.to_ms);
  v1::Usage& row = row_of(rows_, last, run);
  row.set_attempts(row.attempts() + 1);
  changed_.insert({last, run.project, run.owner});
  const std::string first_kept = day_of(run.to_ms - kUsageDays * kUsageDayMs);
  while (!rows_.empty() && std::get<0>(rows_.begin()->first) < first_kept) {
    changed_.erase(rows_.begin()->first);
    removed_.push_back(key_text(rows_.begin()->first));
    rows_.erase(rows_.begin());
  }
}

void UsageLedger::add_idle(int64_t from_ms, int64_t to_ms, const ResourceSet& idle) {
  const Run span{.from_ms = from_ms, .to_ms = to_ms, .project = {}, .owner = {}, .held = {}};
  by_day(span, [&](const std::string& day, int64_t milliseconds) {
    add_part(row_of(rows_, day, span), idle, milliseconds);
    changed_.insert({day, {}, {}});
  });
}

Result<v1::GetUsageReply> UsageLedger::usage(const std::string& from_day, const std::string& to_day,
                                             const std::vector<Run>& running) const {
  for (const auto& [name, day] : {std::pair("from_day", &from_day), std::pair("to_day", &to_day)}) {
    if (!day->empty() && !is_day(*day)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: expected a day such as 2026-11-27, got \"{}\"", name, *day));
    }
  }
  std::map<Key, v1::Usage> rows = rows_;
  for (const Run& run : running) {
    by_day(run, [&](const std::string& day, int64_t milliseconds) {
      add_part(row_of(rows, day, run), run.held, milliseconds);
    });
  }
  v1::GetUsageReply reply;
  for (auto& [key, row] : rows) {
    if (row.day() < from_day || (!to_day.empty() && row.day() > to_day)) continue;
    *reply.add_usage() = std::move(row);
  }
  return reply;
}

std::vector<std::pair<std::string, std::string>> UsageLedger::take_changed() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Key& key : std::exchange(changed_, {})) out.emplace_back(key_text(key), rows_.at(key).SerializeAsString());
  return out;
}

std::vector<std::string> UsageLedger::take_removed() { return std::exchange(removed_, {}); }

}  // namespace volador::jobs
