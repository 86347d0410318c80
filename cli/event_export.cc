#include "cli/event_export.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <system_error>

#include "cli/render/experiment_view.h"
#include "runtime/clock.h"
#include "runtime/control/cluster_api.h"
#include "runtime/files/durable_file.h"
#include "runtime/paths.h"
#include "tune/loop/metrics.h"
#include "tune/results/tensorboard_events.h"
#include "tune/space/config.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;

// The groups that are written; the API answers for one group at a time.
constexpr std::array<const char*, 3> kGroups{"training", "validation", "observation"};

WallTime wall_of(int64_t unix_ms) { return WallTime(std::chrono::milliseconds(unix_ms)); }

Result<void> append_to_file(const fs::path& path, std::string_view bytes) {
  auto file = FileHandle::open(path, O_WRONLY | O_CREAT | O_APPEND);
  if (!file) return make_error(file.error());
  return write_all(file->get(), bytes, path);
}

}  // namespace

int64_t append_series(std::string& out, const v1::GetMetricsReply& metrics) {
  struct Point {
    int64_t time_ms = 0;
    tune::Metrics values;
  };
  std::map<int64_t, Point> points;
  for (const v1::TrialMetricSeries& series : metrics.series()) {
    const std::string tag = fmt::format("{}/{}", series.group(), series.metric());
    const int size = std::min({series.batches_size(), series.values_size(), series.times_ms_size()});
    for (int i = 0; i < size; ++i) {
      Point& point = points[series.batches(i)];
      point.time_ms = series.times_ms(i);
      point.values.set(tag, series.values(i));
    }
  }
  for (const auto& [batches, point] : points)
    tune::append_event_scalars(out, wall_of(point.time_ms), batches, point.values);
  return points.empty() ? -1 : points.rbegin()->first;
}

Result<bool> EventExport::add(control::ClusterApi& api, const v1::TrialInfo& trial, const fs::path& folder) {
  Written& written = written_[trial.id()];
  if (written.complete) return false;
  std::map<std::string, int64_t> last = written.last;
  if (written.run != trial.run()) {
    for (auto& [group, batches] : last) batches = std::min(batches, trial.batches());
  }
  std::string records;
  for (const char* group : kGroups) {
    v1::GetMetricsRequest request;
    request.add_trials(trial.id());
    request.set_group(group);
    request.set_max_points(-1);
    const auto known = last.find(group);
    if (known != last.end()) request.set_from_batch(known->second + 1);
    const auto reply = api.call<v1::GetMetricsReply>("Experiments/GetMetrics", request);
    if (!reply) return make_error(reply.error());
    if (const int64_t at = append_series(records, *reply); at >= 0) last[group] = at;
  }
  const bool is_over = is_final_state(trial.state());
  if (!records.empty()) {
    const std::string name = fmt::format("trial-{}", trial.id());
    std::string start;
    std::string file = written.file;
    if (file.empty()) {
      const WallTime created = wall_of(trial.created_ms());
      file = tune::event_file_name(created, name);
      tune::append_event_version(start, created);
      if (const auto config = tune::Config::from_json(trial.hparams()); config && config->is_map())
        tune::append_event_session_start(start, created, name, *config);
      std::error_code code;
      fs::create_directories(folder, code);
      if (code) return make_error(file_error("make", folder, code.value()));
    }
    if (is_over) tune::append_event_session_end(records, wall_of(trial.ended_ms()), trial.state() == "COMPLETED");
    VOLADOR_TRY(append_to_file(folder / file, start + records));
    written.file = file;
  }
  written.last = std::move(last);
  written.run = trial.run();
  written.complete = is_over;
  return !records.empty();
}

bool EventExport::is_complete(int64_t trial) const {
  const auto found = written_.find(trial);
  return found != written_.end() && found->second.complete;
}

}  // namespace volador::cli
