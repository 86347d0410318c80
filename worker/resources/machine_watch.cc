#include "worker/resources/machine_watch.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "worker/resources/health_reader.h"

namespace volador::worker {
namespace {

constexpr std::chrono::milliseconds kWatchEndPatience{200};

}  // namespace

struct MachineWatch::State {
  State(const Clock& time, std::vector<UsedFolder> used, bool with_gpus, std::string bound_card,
        std::function<void()> then)
      : clock(&time),
        folders(std::move(used)),
        has_gpus(with_gpus),
        card(std::move(bound_card)),
        on_inspection(std::move(then)) {}

  void run();

  std::mutex mutex;
  std::condition_variable wake, idle;
  const Clock* const clock;  // Valid until `closed`.
  const std::vector<UsedFolder> folders;
  const bool has_gpus;
  const std::string card;
  const std::function<void()> on_inspection;  // Called under the lock.
  std::optional<Reading> reading;
  std::optional<Waiting> waiting;
  std::optional<Inspection> inspection;
  BootTime read_at{};
  bool closed = false;
  bool ended = false;
};

// The lock is released while the machine is read.
void MachineWatch::State::run() {
  pthread_setname_np(pthread_self(), "machine");
  MachineMeter machine(folders);
  std::optional<GpuMeter> gpus;
  const HealthReader health(card);
  std::optional<BootTime> inspected_at;
  std::unique_lock lock(mutex);
  while (!closed) {
    const BootTime now = clock->now();
    waiting = Waiting{.since = now};
    const bool inspects = !inspected_at || now - *inspected_at >= kInspectEvery;
    lock.unlock();
    Reading next{.machine = machine.read(now)};
    Inspection found;
    if (inspects) found.sample = health.read(next.machine);
    if (has_gpus) {
      lock.lock();
      if (closed) break;
      waiting = Waiting{.since = clock->now(), .of_gpus = true};
      lock.unlock();
      if (!gpus) gpus.emplace();
      next.gpus = gpus->read();
      if (inspects) found.gpus = gpus->inspect();
    }
    lock.lock();
    waiting.reset();
    reading = std::move(next);
    read_at = now;
    if (inspects && !closed) {
      inspected_at = now;
      inspection = std::move(found);
      if (on_inspection) on_inspection();
    }
    wake.wait_for(lock, has_gpus ? kEveryWithGpus : kEvery, [this] { return closed; });
  }
  ended = true;
  idle.notify_all();
}

MachineWatch::MachineWatch(const Clock& clock, std::vector<UsedFolder> folders, bool has_gpus, std::string card,
                           std::function<void()> on_inspection)
    : state_(std::make_shared<State>(clock, std::move(folders), has_gpus, std::move(card), std::move(on_inspection))) {
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

std::optional<MachineWatch::Waiting> MachineWatch::waiting() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting;
}

std::optional<MachineWatch::Inspection> MachineWatch::take_inspection() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->inspection, std::nullopt);
}

}  // namespace volador::worker
