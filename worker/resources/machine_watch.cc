#include "worker/resources/machine_watch.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace volador::worker {
namespace {

constexpr std::chrono::milliseconds kWatchEndPatience{200};

}  // namespace

struct MachineWatch::State {
  State(const Clock& time, std::vector<UsedFolder> used, bool with_gpus)
      : clock(&time), folders(std::move(used)), has_gpus(with_gpus) {}

  void run();

  std::mutex mutex;
  std::condition_variable wake, idle;
  const Clock* const clock;  // Valid until `closed`.
  const std::vector<UsedFolder> folders;
  const bool has_gpus;
  std::optional<Reading> reading;
  BootTime read_at{};
  bool closed = false;
  bool ended = false;
};

// The lock is released while the machine is read.
void MachineWatch::State::run() {
  pthread_setname_np(pthread_self(), "machine");
  MachineMeter machine(folders);
  std::optional<GpuMeter> gpus;
  if (has_gpus) gpus.emplace();
  std::unique_lock lock(mutex);
  while (!closed) {
    const BootTime now = clock->now();
    lock.unlock();
    Reading next{.machine = machine.read(now), .gpus = gpus ? gpus->read() : std::vector<GpuMeter::Reading>{}};
    lock.lock();
    reading = std::move(next);
    read_at = now;
    wake.wait_for(lock, has_gpus ? kEveryWithGpus : kEvery, [this] { return closed; });
  }
  ended = true;
  idle.notify_all();
}

MachineWatch::MachineWatch(const Clock& clock, std::vector<UsedFolder> folders, bool has_gpus)
    : state_(std::make_shared<State>(clock, std::move(folders), has_gpus)) {
  std::thread([state = state_] { state->run(); }).detach();
}

MachineWatch::~MachineWatch() {
  std::unique_lock lock(state_->mutex);
  state_->closed = true;
  state_->wake.notify_all();
  state_->idle.wait_for(lock, kWatchEndPatience, [this] { return state_->ended; });
}

std::optional<MachineWatch::Reading> MachineWatch::newest(BootTime now) const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->reading || now - state_->read_at > kOldest) return std::nullopt;
  return state_->reading;
}

}  // namespace volador::worker
