#include "tests/bench/mixed_queue.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <queue>
#include <set>

#include "head/scheduling/placement.h"
#include "runtime/random.h"

namespace volador::bench {
namespace {

using head::GroupRequest;
using head::HolderId;
using head::Placement;
using head::PlacementRequest;

constexpr int kNodesMixed = 32;  // Half of them with GPUs.
constexpr double kHoursOfArrivals = 8;
constexpr int64_t kTickSeconds = 1;
constexpr Amount kCpusOfNode = 32;
constexpr Amount kGpusOfNode = 4;

struct Kind {
  const char* name;
  Amount cpus;  // CPUs of one bundle.
  double gpus;
  size_t bundles;        // 1: an actor.
  double seconds;        // Mean of a log-normal distribution.
  double share_of_cpus;  // Fraction of the cluster's CPUs taken by the arriving work.
  double share_of_gpus;
};

// GPU demand temporarily exceeds the supply, CPU demand is slightly below it.
constexpr Kind kKinds[] = {
    {"cpu_1", 1, 0, 1, 60, 0.30, 0},          {"cpu_8", 8, 0, 1, 300, 0.30, 0},
    {"gpu_half", 1, 0.5, 1, 300, 0, 0.20},    {"gpu_1", 4, 1, 1, 900, 0, 0.35},
    {"gpu_node", 16, 4, 1, 1200, 0, 0.20},    {"cpu_node", 32, 0, 1, 300, 0.10, 0},
    {"group_4_nodes", 4, 2, 4, 900, 0, 0.15},
};

struct Job {
  const Kind* kind = nullptr;
  int64_t arrives = 0;
  int64_t runs = 0;
  int64_t started = -1;
};

HolderId mixed_id(uint32_t number, uint8_t part) {
  std::array<uint8_t, 16> bytes{};
  for (size_t at = 0; at < 4; ++at) bytes[at] = static_cast<uint8_t>(number >> (24 - 8 * at));
  bytes[14] = part;
  bytes[15] = 1;
  return HolderId(bytes);
}

uint32_t job_of(HolderId id) {
  uint32_t number = 0;
  for (size_t at = 0; at < 4; ++at) number = number << 8 | id.bytes()[at];
  return number;
}

ResourceSet amounts_of(const Kind& kind) {
  ResourceSet amounts;
  amounts.set("cpus", kind.cpus * kUnit);
  amounts.set("gpus", static_cast<Amount>(kind.gpus * static_cast<double>(kUnit)));
  return amounts;
}

double uniform(SeededRandom& random) { return (static_cast<double>(random.below(1'000'000)) + 0.5) / 1e6; }

std::vector<Job> arrivals(SeededRandom& random) {
  std::vector<Job> jobs;
  const double cpus = kNodesMixed * static_cast<double>(kCpusOfNode);
  const double gpus = kNodesMixed / 2 * static_cast<double>(kGpusOfNode);
  const auto end = static_cast<int64_t>(kHoursOfArrivals * 3600);
  for (const Kind& kind : kKinds) {
    const double bundles = static_cast<double>(kind.bundles);
    const double work = kind.share_of_gpus > 0 ? kind.share_of_gpus * gpus / (kind.gpus * bundles)
                                               : kind.share_of_cpus * cpus / (static_cast<double>(kind.cpus) * bundles);
    const double gap = kind.seconds / work;  // Mean interarrival time.
    for (double at = -gap * std::log(uniform(random)); at < static_cast<double>(end);
         at += -gap * std::log(uniform(random))) {
      const double normal = std::sqrt(-2 * std::log(uniform(random))) * std::cos(2 * M_PI * uniform(random));
      const double seconds = kind.seconds * std::exp(0.8 * normal - 0.32);
      jobs.push_back({.kind = &kind,
                      .arrives = static_cast<int64_t>(at),
                      .runs = std::max<int64_t>(1, static_cast<int64_t>(seconds))});
    }
  }
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.arrives < b.arrives; });
  return jobs;
}

// Lower bound of the end of any schedule: for each resource, the work that arrives from any time on divided by all
// nodes; and no request ends before its own duration.
double least_end(const std::vector<Job>& jobs, double gpus) {
  double least = 0;
  double cpu_work = 0;
  double gpu_work = 0;
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
    const double runs = static_cast<double>(job->runs) * static_cast<double>(job->kind->bundles);
    cpu_work += runs * static_cast<double>(job->kind->cpus);
    gpu_work += runs * job->kind->gpus;
    const double arrives = static_cast<double>(job->arrives);
    least =
        std::max({least, arrives + static_cast<double>(job->runs),
                  arrives + cpu_work / (kNodesMixed * static_cast<double>(kCpusOfNode)), arrives + gpu_work / gpus});
  }
  return least;
}

class MixedRun {
 public:
  MixedRun(uint64_t seed, int held_gpus) : random_(seed), jobs_(arrivals(random_)), held_(held_gpus) {
    for (uint32_t number = 0; number < kNodesMixed; ++number) {
      const bool has_gpus = number < kNodesMixed / 2;
      ResourceSet total;
      total.set("cpus", kCpusOfNode * kUnit);
      std::vector<int32_t> devices;
      for (int32_t index = 0; has_gpus && index < static_cast<int32_t>(kGpusOfNode); ++index) devices.push_back(index);
      const NodeId id(mixed_id(number + 1, 99).bytes());
      placement_.set_node(id, "n" + std::to_string(number), {}, total, devices);
      placement_.set_placeable(id, "");
    }
    for (int number = 0; number < held_; ++number) {
      PlacementRequest holder;
      holder.actor = mixed_id(static_cast<uint32_t>(number), 98).actor();
      holder.resources.set("gpus", kUnit);
      holder.program = "p";
      placement_.submit(time(0), holder);
    }
    placement_.schedule(time(0));
  }

  MixedQueue run() {
    const int64_t last_arrival = jobs_.back().arrives;
    size_t next = 0;
    size_t left = jobs_.size();
    int64_t now = 0;
    for (; left > 0; now += kTickSeconds) {
      while (!ends_.empty() && ends_.top().first <= now) {
        const uint32_t number = ends_.top().second;
        ends_.pop();
        release(number);
        --left;
      }
      for (; next < jobs_.size() && jobs_[next].arrives <= now; ++next) submit(now, static_cast<uint32_t>(next));
      placement_.on_tick(time(now));
      start(now);
      if (now > last_arrival) continue;
      cpu_seconds_ += static_cast<double>(placement_.ledger().used().get("cpus")) / kUnit;
      gpu_seconds_ += static_cast<double>(placement_.ledger().used().get("gpus")) / kUnit - held_;
    }
    return result(static_cast<double>(now - kTickSeconds), static_cast<double>(last_arrival));
  }

 private:
  static BootTime time(int64_t now) { return BootTime(std::chrono::seconds(1000 + now)); }

  void submit(int64_t now, uint32_t number) {
    const Kind& kind = *jobs_[number].kind;
    if (kind.bundles == 1) {
      PlacementRequest request;
      request.actor = mixed_id(number, 0).actor();
      request.resources = amounts_of(kind);
      request.program = "p";
      request.sequence = number + 1;
      placement_.submit(time(now), request);
      return;
    }
    GroupRequest group;
    group.holder = mixed_id(number, 0);
    group.strategy = Strategy::kStrictSpread;
    group.program = "p";
    group.sequence = number + 1;
    for (size_t at = 0; at < kind.bundles; ++at) {
      group.bundles.push_back(
          {.holder = mixed_id(number, static_cast<uint8_t>(at + 1)), .resources = amounts_of(kind), .index = at});
    }
    placement_.submit(time(now), std::move(group));
  }
  void start(int64_t now) {
    while (true) {
      const auto placed = placement_.schedule(time(now));
      for (const auto& one : placed) started(now, job_of(one.actor));
      for (const auto& group : placement_.take_placed_groups()) started(now, job_of(group.holder));
      if (placed.size() < Placement::kDecisionsMax) return;
    }
  }
  void started(int64_t now, uint32_t number) {
    jobs_[number].started = now;
    ends_.emplace(now + jobs_[number].runs, number);
  }
  void release(uint32_t number) {
    const size_t bundles = jobs_[number].kind->bundles;
    if (bundles == 1) return placement_.release(mixed_id(number, 0));
    for (size_t at = 0; at < bundles; ++at) placement_.release(mixed_id(number, static_cast<uint8_t>(at + 1)));
  }
  MixedQueue result(double end, double last_arrival) const {
    const double gpus = kNodesMixed / 2 * static_cast<double>(kGpusOfNode) - held_;
    MixedQueue result{.utilisation = least_end(jobs_, gpus) / end, .hours = end / 3600};
    result.cpus_used = cpu_seconds_ / (last_arrival * kNodesMixed * static_cast<double>(kCpusOfNode));
    result.gpus_used = gpu_seconds_ / (last_arrival * gpus);
    std::map<std::string, std::vector<double>> waits;
    for (const Job& job : jobs_) waits[job.kind->name].push_back(static_cast<double>(job.started - job.arrives));
    for (auto& [name, seconds] : waits) {
      std::sort(seconds.begin(), seconds.end());
      double sum = 0;
      for (const double one : seconds) sum += one;
      result.classes[name] = {seconds.size(), sum / static_cast<double>(seconds.size()),
                              seconds[seconds.size() * 99 / 100]};
    }
    return result;
  }

  SeededRandom random_;
  std::vector<Job> jobs_;
  const int held_;
  Placement placement_{head::Times{}, head::Limits{}};
  using End = std::pair<int64_t, uint32_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  double cpu_seconds_ = 0;
  double gpu_seconds_ = 0;
};

}  // namespace

MixedQueue run_mixed_queue(uint64_t seed, int held_gpus) { return MixedRun(seed, held_gpus).run(); }

}  // namespace volador::bench
