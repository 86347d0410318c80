// Which problems a node and its GPUs have, from what its inspections found.
// Pure: no clock, thread or I/O.
//
// A finding must hold in kSamplesToBegin samples in a row before it is a problem, so that one odd reading does not move
// jobs, and be absent from kSamplesToEnd samples in a row before the problem is over. The first sample counts at once:
// nothing runs on the node yet. The result of the check program counts at once, both ways: its author decides.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/clock.h"
#include "runtime/protocol/control.pb.h"

namespace volador::worker {

// What one inspection of the machine found.
struct HealthSample {
  // A GPU of the node that has a driver.
  struct Gpu {
    int index = 0;
    std::string error;           // Why the driver does not reach it; empty: it does.
    uint64_t memory_errors = 0;  // Not corrected, since the driver was loaded.
    bool remap_failed = false;   // A faulty row of its memory cannot be replaced.
    bool reset_due = false;      // Faulty memory is replaced at its next reset.
    bool too_hot = false;        // It slows down because of its temperature.
    std::optional<double> temperature_celsius;
    std::vector<int> xids;  // Critical errors since the last sample.
  };
  // A network card that was up when the node started.
  struct Card {
    std::string name;
    bool up = true;
  };
  struct FileSystem {
    std::string path;  // Mount point.
    int64_t free_bytes = 0;
    bool read_only = false;
  };
  std::vector<Gpu> gpus;
  std::vector<Card> cards;
  std::vector<FileSystem> file_systems;  // Those that the worker writes to.
};

// How a run of the operator's check program ended.
struct CheckResult {
  enum class End : uint8_t { kExited, kSignaled, kTimedOut, kNotStarted };
  std::string program;  // File name.
  End end = End::kExited;
  int code = 0;        // Exit code or signal.
  std::string output;  // Its standard output.
  std::string error;   // Why it was not started.
  std::chrono::milliseconds timeout{0};
};

class HealthRules {
 public:
  static constexpr int kSamplesToBegin = 2;
  static constexpr int kSamplesToEnd = 3;
  static constexpr std::chrono::seconds kSilent{30};  // A reading that takes longer hangs.
  static constexpr int64_t kFullBytes = 16 << 20;     // A file system with less free space is full.
  static constexpr int kLinesMax = 16;                // Lines of the check program; the rest is ignored.
  static constexpr size_t kLineBytesMax = 200;
  static constexpr size_t kTextBytesMax = 600;  // Lines of one GPU, or of the node, together.

  // `gpus`: indices of the node's GPUs. `driven`: those with a driver.
  HealthRules(std::vector<int> gpus, std::vector<int> driven) : gpus_(std::move(gpus)), driven_(std::move(driven)) {}

  void on_sample(const HealthSample& sample);
  // Each line that it prints tells of a problem: "gpu 1: text" of that GPU, another line of the node. A timeout is a
  // problem, and so are, without a line, an exit code other than 0 and a signal.
  void on_check(const CheckResult& result);
  // A reading of the machine, or of the GPUs, that began then has not ended; nullopt: none is in progress. Call at
  // least every two seconds while one is; a longer gap means that this process was stopped.
  void on_look(BootTime now, std::optional<BootTime> began, bool of_gpus);

  // At most one for each code, GPU and subject.
  std::vector<protocol::HealthProblem> problems() const;

 private:
  using Key = std::tuple<std::string, int, std::string>;  // Code; GPU, -1: the node; subject.
  struct Finding {
    std::string detail;
    int bad = 0;   // Samples in a row that have it.
    int good = 0;  // Samples in a row that lack it.
    bool holds = false;
  };

  const std::vector<int> gpus_;
  const std::vector<int> driven_;
  std::map<Key, Finding> findings_;
  std::map<int, int> xids_;  // By GPU; they last until the worker is started again.
  bool sampled_ = false;
  std::vector<protocol::HealthProblem> silent_;
  std::vector<protocol::HealthProblem> checked_;
  std::optional<BootTime> looked_at_;
  BootTime counts_from_{};
};

}  // namespace volador::worker
