// Time from the death of a rank to the next steps of the others, and to that of the rank in its place.
#include <fcntl.h>
#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <thread>

#include "tests/bench/train/models.h"
#include "tests/bench/train/rows.h"
#include "train/trainer/trainer.h"

namespace volador::train::bench {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kRanks = 4;
constexpr int kKillsARound = 2;
constexpr int64_t kStepsBetween = 10;  // Steps of a group before a rank is killed.
constexpr auto kLimit = 60s;           // For what is waited for.
constexpr int64_t kSamples =
    4096;  // Rows of the data; an epoch goes over them many times, so that a run has one epoch.
constexpr int64_t kRepeats = 160;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

// A step that a rank has done. Each process appends its own to a file named by its id.
struct Trace {
  int64_t at_ns = 0;    // steady_clock at its end.
  int64_t step = 0;     // Steps done before in the run.
  int64_t call = 0;     // Number of this process's call of train_epoch(): another one for each group.
  int64_t of_call = 0;  // Steps done before in the call.
};

class Repeated final : public Dataset {
 public:
  explicit Repeated(DatasetPtr dataset) : dataset_(std::move(dataset)) {}
  int64_t size() const override { return dataset_->size() * kRepeats; }
  train::Batch rows(std::span<const int64_t> rows) const override {
    std::vector<int64_t> within(rows.begin(), rows.end());
    for (int64_t& row : within) row %= dataset_->size();
    return dataset_->rows(within);
  }

 private:
  const DatasetPtr dataset_;
};

// Trains until the folder holds a file "stop".
class Traced final : public TrainingOperator {
 public:
  void setup(const Config& config) override {
    torch::set_num_threads(1);
    const fs::path folder = config.text("folder");
    stop_ = folder / "stop";
    fd_ = ::open((folder / std::to_string(getpid())).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd_ < 0) throw std::runtime_error(fmt::format("no file can be made in {}", folder.string()));
    register_all(make("mlp").module, sgd({.lr = 0.01, .momentum = 0.9}), cross_entropy());
    const auto data = tensor_dataset({torch::randn({kSamples, 784}), torch::randint(10, {kSamples}, torch::kLong)});
    register_data({.train = std::make_shared<Repeated>(data), .batch_size = kBatch * kRanks});
  }
  ~Traced() override {
    if (fd_ >= 0) ::close(fd_);
  }

  Metrics train_epoch(BatchIterator& batches, const EpochInfo&) override {
    Trace trace{.call = ++calls_};
    Metrics metrics;
    for (; auto loaded = batches.next(); ++trace.of_call) {
      if (::access(stop_.c_str(), F_OK) == 0) request_stop();
      metrics = train_batch(loaded->batch, loaded->info);
      trace.step = loaded->info.step;
      trace.at_ns = now_ns();
      if (::write(fd_, &trace, sizeof trace) != sizeof trace) throw std::runtime_error("a step could not be written");
    }
    return metrics;
  }

 private:
  std::string stop_;
  int fd_ = -1;
  int64_t calls_ = 0;
};
VOLADOR_TRAINING_OPERATOR(Traced);

class Folder {
 public:
  Folder() {
    std::string path = (fs::temp_directory_path() / "volador-bench-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr)
      throw std::runtime_error(fmt::format("no folder can be made in {}", fs::temp_directory_path().string()));
    path_ = path;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct Recovery {
  double others_s = 0;       // Until all other ranks have done a step in a new group.
  double replacement_s = 0;  // Until a new process has done a step.
  int64_t step_before = 0;   // The last step that a survivor did before the new group.
  int64_t step_after = 0;    // The first step of the new group.
};

// Kills ranks of a run that goes on in another thread. Throws std::runtime_error: something did not happen in time.
class Killer {
 public:
  Killer(const Trainer& trainer, const fs::path& folder, const std::atomic<bool>& ended)
      : trainer_(trainer), folder_(folder), ended_(ended) {}

  Recovery kill_rank(size_t rank) {
    std::vector<int> pids;
    std::map<int, std::vector<Trace>> before;
    wait_for("steps of a full group", [&] {
      pids = trainer_.worker_pids();
      if (pids.size() != kRanks) return false;
      before.clear();
      for (const int pid : pids) {
        before[pid] = traces(pid);
        if (before[pid].empty() || before[pid].back().of_call < kStepsBetween) return false;
      }
      return true;
    });
    const int victim = pids.at(rank);
    const int64_t killed = now_ns();
    ::kill(victim, SIGKILL);
    Recovery recovery;
    std::erase(pids, victim);
    wait_for("steps of the other ranks and of a new one", [&] { return read(pids, victim, before, killed, recovery); });
    return recovery;
  }

 private:
  std::vector<Trace> traces(int pid) const {
    std::ifstream file(folder_ / std::to_string(pid), std::ios::binary);
    std::vector<Trace> all;
    Trace one;
    while (file.read(reinterpret_cast<char*>(&one), sizeof one)) all.push_back(one);
    return all;
  }

  // Returns whether all steps are there.
  bool read(const std::vector<int>& survivors, int victim, const std::map<int, std::vector<Trace>>& before,
            int64_t killed, Recovery& recovery) const {
    const auto seconds = [&](int64_t at) { return static_cast<double>(at - killed) / 1e9; };
    recovery = {};
    for (const int pid : survivors) {
      const int64_t call = before.at(pid).back().call;
      const auto all = traces(pid);
      const auto next = std::find_if(all.begin(), all.end(), [&](const Trace& one) { return one.call > call; });
      if (next == all.end()) return false;
      recovery.others_s = std::max(recovery.others_s, seconds(next->at_ns));
      recovery.step_after = next->step;
      recovery.step_before = std::max(recovery.step_before, std::prev(next)->step);
    }
    for (const int pid : trainer_.worker_pids()) {
      if (pid == victim || before.contains(pid)) continue;
      const auto all = traces(pid);
      if (all.empty()) continue;
      recovery.replacement_s = seconds(all.front().at_ns);
      return true;
    }
    return false;
  }

  template <class Done>
  void wait_for(const char* what, Done done) const {
    const auto deadline = Clock::now() + kLimit;
    while (!done()) {
      if (ended_) throw std::runtime_error(fmt::format("the run ended before the {}", what));
      if (Clock::now() > deadline)
        throw std::runtime_error(fmt::format("no {} within {} s: {}", what, kLimit.count(), trainer_.explain()));
      std::this_thread::sleep_for(1ms);
    }
  }

  const Trainer& trainer_;
  const fs::path folder_;
  const std::atomic<bool>& ended_;
};

std::string range(const std::vector<double>& values) {
  return fmt::format("{} kills, {:.3f} to {:.3f}", values.size(), quantile(values, 0), quantile(values, 1));
}

std::vector<Row> measure_recovery(const Options& options) {
  const Folder folder;
  Row others{.name = "ddp_recover_kill", .unit = "s", .value_max = 0.5};
  Row replacement{.name = "ddp_recover_kill/replacement", .unit = "s", .value_max = 2};
  TorchTrainer<Traced> trainer(
      {.num_workers = {kRanks - 1, kRanks}, .config = {{"folder", folder.path().string()}}, .storage = "none"});
  std::atomic<bool> is_stopped = false;
  std::atomic<bool> ended = false;
  std::string failure;
  std::thread thread([&] {
    try {
      Killer killer(trainer, folder.path(), ended);
      for (int i = 0; i < kKillsARound * options.rounds; ++i) {
        const Recovery recovery = killer.kill_rank(static_cast<size_t>(i % kRanks));
        others.ours.push_back(recovery.others_s);
        replacement.ours.push_back(recovery.replacement_s);
        if (recovery.step_after != recovery.step_before + 1)
          others.wrong =
              fmt::format("step {} was done before, step {} after the loss", recovery.step_before, recovery.step_after);
      }
    } catch (const std::exception& e) {
      failure = e.what();
    }
    is_stopped = true;
    std::ofstream(folder.path() / "stop");
  });
  std::string error;
  try {
    while (!is_stopped) trainer.train();
  } catch (const std::exception& e) {
    error = e.what();
  }
  ended = true;
  thread.join();
  if (!error.empty()) throw std::runtime_error(fmt::format("train() failed: {}", error));
  if (!failure.empty()) throw std::runtime_error(failure);
  others.note = fmt::format("of {} ranks, until the next step of the others; {}", kRanks, range(others.ours));
  replacement.note = fmt::format("until the first step of the new rank; {}", range(replacement.ours));
  return {others, replacement};
}

}  // namespace

std::vector<Bench> recover_benches() { return {{"ddp_recover_kill", measure_recovery}}; }

}  // namespace volador::train::bench
