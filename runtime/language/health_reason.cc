#include "runtime/language/health_reason.h"

#include <fmt/format.h>

#include <array>

#include "runtime/node_health.h"

namespace volador {
namespace {

enum class Takes : uint8_t { kNothing, kSubject, kDetail, kBoth };

struct HealthSentence {
  std::string_view code;
  std::string_view key;
  Takes takes;
};

constexpr std::array kHealthSentences{
    HealthSentence{health::kGpuLost, "health.gpu_lost", Takes::kDetail},
    HealthSentence{health::kGpuSilent, "health.gpu_silent", Takes::kDetail},
    HealthSentence{health::kGpuMemory, "health.gpu_memory", Takes::kDetail},
    HealthSentence{health::kGpuRemap, "health.gpu_remap", Takes::kNothing},
    HealthSentence{health::kGpuResetDue, "health.gpu_reset_due", Takes::kNothing},
    HealthSentence{health::kGpuXid, "health.gpu_xid", Takes::kDetail},
    HealthSentence{health::kGpuHot, "health.gpu_hot", Takes::kDetail},
    HealthSentence{health::kNetworkDown, "health.network_down", Takes::kSubject},
    HealthSentence{health::kDiskFull, "health.disk_full", Takes::kBoth},
    HealthSentence{health::kDiskReadOnly, "health.disk_read_only", Takes::kSubject},
    HealthSentence{health::kDiskSilent, "health.disk_silent", Takes::kDetail},
    HealthSentence{health::kCheckFailed, "health.check_failed", Takes::kBoth},
    HealthSentence{health::kCheckExit, "health.check_exit", Takes::kBoth},
    HealthSentence{health::kCheckTimeout, "health.check_timeout", Takes::kBoth},
    HealthSentence{health::kCheckStart, "health.check_start", Takes::kBoth},
};

Reason without_gpu(std::string_view code, std::string_view subject, std::string_view detail) {
  for (const HealthSentence& known : kHealthSentences) {
    if (known.code != code) continue;
    switch (known.takes) {
      case Takes::kNothing:
        return reason(known.key);
      case Takes::kSubject:
        return reason(known.key, subject);
      case Takes::kDetail:
        return reason(known.key, detail);
      case Takes::kBoth:
        return reason(known.key, subject, detail);
    }
  }
  return Reason::said(
      fmt::format("{}{}{}{}{}", code, subject.empty() ? "" : " ", subject, detail.empty() ? "" : ": ", detail));
}

}  // namespace

Reason health_reason(std::string_view code, std::optional<int> gpu, std::string_view subject, std::string_view detail) {
  Reason what = without_gpu(code, subject, detail);
  return gpu ? reason("health.gpu", *gpu, std::move(what)) : what;
}

}  // namespace volador
