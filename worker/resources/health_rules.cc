#include "worker/resources/health_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "runtime/node_health.h"
#include "runtime/quantities.h"
#include "runtime/utf8.h"

namespace volador::worker {
namespace {

constexpr int kWholeNode = -1;
constexpr std::chrono::seconds kOwnGap{2};  // This process was stopped, not the reading.

// Errors after which a GPU needs a reset or a repair; the driver reports others for faults of programs.
constexpr int kGraveXids[] = {48, 64, 74, 79, 95, 119, 120, 140};

protocol::HealthProblem problem_of(std::string_view code, int gpu, std::string subject, std::string detail) {
  protocol::HealthProblem problem;
  problem.set_code(std::string(code));
  if (gpu != kWholeNode) problem.set_gpu(gpu);
  problem.set_subject(std::move(subject));
  problem.set_detail(std::move(detail));
  return problem;
}

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

// "gpu 1: text": the number and the text. Nullopt: another line.
std::optional<std::pair<int, std::string_view>> line_of_gpu(std::string_view line) {
  if (line.size() < 4 || (line.substr(0, 3) != "gpu" && line.substr(0, 3) != "GPU")) return std::nullopt;
  const std::string_view rest = without_spaces(line.substr(3));
  int index = 0;
  const auto [end, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
  if (failed != std::errc()) return std::nullopt;
  const std::string_view after = without_spaces(rest.substr(static_cast<size_t>(end - rest.data())));
  if (!after.starts_with(':')) return std::nullopt;
  return std::pair(index, without_spaces(after.substr(1)));
}

}  // namespace

void HealthRules::on_sample(const HealthSample& sample) {
  std::map<Key, std::string> found;
  const auto add = [&](std::string_view code, int gpu, const std::string& subject, std::string detail) {
    found.emplace(Key(code, gpu, subject), std::move(detail));
  };
  for (const HealthSample::Gpu& gpu : sample.gpus) {
    if (!gpu.error.empty()) add(health::kGpuLost, gpu.index, {}, plain_text(gpu.error, kLineBytesMax));
    if (gpu.memory_errors > 0) add(health::kGpuMemory, gpu.index, {}, std::to_string(gpu.memory_errors));
    if (gpu.remap_failed) add(health::kGpuRemap, gpu.index, {}, {});
    if (gpu.reset_due) add(health::kGpuResetDue, gpu.index, {}, {});
    if (gpu.too_hot)
      add(health::kGpuHot, gpu.index, {},
          gpu.temperature_celsius ? fmt::format("{:.0f} °C", *gpu.temperature_celsius) : "?");
    for (const int xid : gpu.xids) {
      if (std::ranges::find(kGraveXids, xid) != std::end(kGraveXids)) xids_[gpu.index] = xid;
    }
  }
  for (const auto& [gpu, xid] : xids_) add(health::kGpuXid, gpu, {}, std::to_string(xid));
  for (const HealthSample::Card& card : sample.cards) {
    if (!card.up) add(health::kNetworkDown, kWholeNode, card.name, {});
  }
  for (const HealthSample::FileSystem& row : sample.file_systems) {
    const std::string path = plain_text(row.path, kLineBytesMax);
    if (row.read_only) {
      add(health::kDiskReadOnly, kWholeNode, path, {});
    } else if (row.free_bytes < kFullBytes) {
      add(health::kDiskFull, kWholeNode, path, format_bytes(row.free_bytes));
    }
  }
  const int needed = std::exchange(sampled_, true) ? kSamplesToBegin : 1;
  for (auto& [key, detail] : found) {
    Finding& finding = findings_[key];
    finding.detail = std::move(detail);
    finding.good = 0;
    ++finding.bad;
    // The driver reports an error once.
    finding.holds |= finding.bad >= needed || std::get<0>(key) == health::kGpuXid;
  }
  for (auto at = findings_.begin(); at != findings_.end();) {
    Finding& finding = at->second;
    const bool is_over = !found.contains(at->first) && (!finding.holds || ++finding.good >= kSamplesToEnd);
    if (!found.contains(at->first)) finding.bad = 0;
    at = is_over ? findings_.erase(at) : std::next(at);
  }
}

void HealthRules::on_check(const CheckResult& result) {
  checked_.clear();
  const std::string program = plain_text(result.program, kLineBytesMax);
  const auto of_node = [&](std::string_view code, std::string detail) {
    checked_.push_back(problem_of(code, kWholeNode, program, std::move(detail)));
  };
  // The lines of one GPU, or of the node, are one problem.
  std::map<int, std::set<std::string>> seen;
  std::map<int, std::string> lines;
  std::string_view left = result.output;
  for (int count = 0; !left.empty() && count < kLinesMax;) {
    const size_t end = std::min(left.find('\n'), left.size());
    const std::string_view line = without_spaces(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
    if (line.empty()) continue;
    auto gpu = line_of_gpu(line);
    if (gpu && std::ranges::find(gpus_, gpu->first) == gpus_.end()) gpu.reset();  // The node does not offer it.
    const int index = gpu ? gpu->first : kWholeNode;
    std::string text = plain_text(gpu ? gpu->second : line, kLineBytesMax);
    if (!seen[index].insert(text).second) continue;
    ++count;
    std::string& joined = lines[index];
    joined += (joined.empty() ? "" : "; ") + text;
  }
  for (auto& [index, joined] : lines)
    checked_.push_back(problem_of(health::kCheckFailed, index, program, plain_text(joined, kTextBytesMax)));
  switch (result.end) {
    case CheckResult::End::kTimedOut:
      of_node(health::kCheckTimeout, format_duration(result.timeout));
      break;
    case CheckResult::End::kNotStarted:
      of_node(health::kCheckStart, plain_text(result.error, kLineBytesMax));
      break;
    case CheckResult::End::kSignaled:
      if (checked_.empty()) of_node(health::kCheckExit, fmt::format("signal {}", result.code));
      break;
    case CheckResult::End::kExited:
      if (checked_.empty() && result.code != 0) of_node(health::kCheckExit, fmt::format("exit code {}", result.code));
      break;
  }
}

void HealthRules::on_look(BootTime now, std::optional<BootTime> began, bool of_gpus) {
  if (!looked_at_ || now - *looked_at_ > kOwnGap) counts_from_ = now;
  looked_at_ = now;
  silent_.clear();
  if (!began || now - std::max(*began, counts_from_) < kSilent) return;
  const std::string time = format_duration(kSilent);
  if (!of_gpus) return silent_.push_back(problem_of(health::kDiskSilent, kWholeNode, {}, time));
  for (const int gpu : driven_) silent_.push_back(problem_of(health::kGpuSilent, gpu, {}, time));
}

std::vector<protocol::HealthProblem> HealthRules::problems() const {
  std::vector<protocol::HealthProblem> all;
  for (const auto& [key, finding] : findings_) {
    const auto& [code, gpu, subject] = key;
    if (finding.holds) all.push_back(problem_of(code, gpu, subject, finding.detail));
  }
  all.insert(all.end(), silent_.begin(), silent_.end());
  all.insert(all.end(), checked_.begin(), checked_.end());
  return all;
}

}  // namespace volador::worker
