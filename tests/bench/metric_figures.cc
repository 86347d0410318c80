// Figures of the store of experiments' metrics, beside the bare file operations with the same bytes:
// build/bin/metric_figures FOLDER [POINTS]. FOLDER is created and removed.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "experiments/metrics/metric_store.h"
#include "runtime/files/durable_file.h"

namespace volador::experiments {
namespace {

namespace fs = std::filesystem;
using Timer = std::chrono::steady_clock;

double seconds_since(Timer::time_point begin) { return std::chrono::duration<double>(Timer::now() - begin).count(); }

template <class T>
T value_of(Result<T> result) {
  if (!result) throw Exception(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

uint64_t bytes_of(const fs::path& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    bytes += entry.is_regular_file() ? entry.file_size() : 0;
  return bytes;
}

// Writes as many bytes to one file, in as many writes, with as many syncs.
double seconds_to_append(const fs::path& path, uint64_t bytes, int64_t writes, bool sync) {
  const std::string piece(static_cast<size_t>(bytes / static_cast<uint64_t>(writes)), 'x');
  const auto begin = Timer::now();
  const auto file = value_of(FileHandle::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  for (int64_t i = 0; i < writes; ++i) {
    value_of(write_all(file.get(), piece, path));
    if (sync && fdatasync(file.get()) != 0) std::abort();
  }
  const double seconds = seconds_since(begin);
  fs::remove(path);
  return seconds;
}

double cpu_ms() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

// CPU time of this thread: other programs on the machine do not count. The files are in the page cache. Median.
template <class Function>
double ms_of(const Function& function) {
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    const double begin = cpu_ms();
    function();
    times.push_back(cpu_ms() - begin);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double ms_to_read(const fs::path& folder) {
  std::string buffer(size_t{1} << 20, '\0');
  return ms_of([&] {
    for (const auto& entry : fs::recursive_directory_iterator(folder / "trials")) {
      if (!entry.is_regular_file()) continue;
      const auto file = value_of(FileHandle::open(entry.path(), O_RDONLY));
      while (value_of(read_some(file.get(), buffer.data(), buffer.size(), entry.path())) == buffer.size()) {
      }
    }
  });
}

void measure(const fs::path& folder, int64_t trials, int64_t points, bool floats, bool sync) {
  fs::remove_all(folder);
  auto store = value_of(MetricStore::open({.folder = folder, .sync = sync}));
  constexpr int64_t kBatch = 1000;  // Reports of one call.
  std::vector<MetricReport> reports(kBatch, {1, 0, "training", 0, 0, {{"loss", 0}}});
  double seconds = 0, slowest = 0;
  for (int64_t made = 0; made < points; made += kBatch) {
    for (int64_t i = 0; i < kBatch; ++i) {
      MetricReport& report = reports[static_cast<size_t>(i)];
      const int64_t step = (made + i) / trials;
      report.trial = (made + i) % trials + 1;
      report.batches = (step + 1) * 100;
      report.time_ms = 1'700'000'000'000 + step * 1000 + (made + i) * 7919 % 300;
      double& value = report.values[0].second;
      value = std::sin(static_cast<double>(step) / 5000) + static_cast<double>((made + i) * 7919 % 1000) / 3000;
      if (floats) value = static_cast<float>(value);
    }
    const auto begin = Timer::now();
    value_of(store.append(reports));
    const double took = seconds_since(begin);
    seconds += took;
    slowest = std::max(slowest, took);
  }
  const auto begin = Timer::now();
  value_of(store.flush());
  seconds += seconds_since(begin);

  const uint64_t bytes = bytes_of(folder);
  const double bare = seconds_to_append(folder / "bare", bytes, points / kBatch, sync);
  v1::GetMetricsRequest request;
  for (int64_t trial = 1; trial <= trials; ++trial) request.add_trials(trial);
  request.set_group("training");
  int64_t found = 0;
  const double ms = ms_of([&] {
    found = 0;
    const auto reply = value_of(store.query(request, [](int64_t) { return 1; }));
    for (const auto& series : reply.series()) found += series.batches_size();
  });
  v1::GetMetricsRequest one = request;
  one.clear_trials();
  one.add_trials(1);
  const double one_ms = ms_of([&] { value_of(store.query(one, [](int64_t) { return 1; })); });
  const double read_ms = ms_to_read(folder);
  fmt::print(
      "{} trials, {} points in all, {}{}: {:.0f} points/s in ({:.1f} times the bare appends, slowest call {:.0f} ms), "
      "{:.1f} bytes a point, "
      "query of all {:.1f} ms ({} points; reading the files {:.1f} ms, ratio {:.2f}), of one trial {:.2f} ms\n",
      trials, points, floats ? "floats" : "doubles", sync ? ", synced" : "", static_cast<double>(points) / seconds,
      seconds / bare, slowest * 1e3, static_cast<double>(bytes) / static_cast<double>(points), ms, found, read_ms,
      ms / read_ms, one_ms);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace volador::experiments

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: metric_figures FOLDER [POINTS]\n");
    return 2;
  }
  const int64_t points = argc > 2 ? std::atoll(argv[2]) : 10'000'000;
  const std::filesystem::path folder = std::filesystem::path(argv[1]) / "metric-figures";
  for (const bool floats : {false, true}) {
    volador::experiments::measure(folder, 1, points, floats, false);
    volador::experiments::measure(folder, 1000, points, floats, false);
  }
  volador::experiments::measure(folder, 1000, points / 10, true, true);
  return 0;
}
