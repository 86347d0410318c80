// Simulated members of a cluster for figures: send a driver's and a worker's messages to a head over real streams,
// without doing any work.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "runtime/control/client_link.h"
#include "runtime/control/worker_link.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/random.h"

namespace volador::bench {

constexpr size_t kMadeUpTrials = 10'000;

class MadeUpDriver {
 public:
  MadeUpDriver(const std::string& address, const std::string& token);
  ~MadeUpDriver();

  void send(protocol::ClientMessage message);
  ActorId make_actor() { return new_id<ActorId>(random_); }
  // Requests an actor with one CPU of a simulated node; it waits if none is free.
  void spawn(ActorId actor);
  // Reports trials 0 to `count` of an experiment that minimises "loss".
  void show_trials(const std::string& experiment, size_t count);

 private:
  SystemRandom random_;
  DriverId id_;
  std::unique_ptr<control::ClientLink> link_;
};

// Turns the message into an update of a running experiment with this number of trials that minimises "loss"; it
// contains no trials yet.
protocol::ExperimentUpdate& running_experiment(protocol::ClientMessage& message, const std::string& experiment,
                                               size_t trials);
// Row of simulated trial `number`: four parameters, two metrics, `step` reports so far. `sent` (0: none) becomes a
// third metric.
protocol::TrialRow trial_row(size_t number, int64_t step, double sent = 0);
std::string trial_id(size_t number);

// A node with 16 CPUs that immediately reports every actor as ready.
class MadeUpNode {
 public:
  struct Options {
    std::string name;
    int gpus = 0;
    int cpus = 16;
    std::function<void(const protocol::StartHost&)> on_start = {};  // Called on the link's thread.
  };
  MadeUpNode(const std::string& address, const std::string& token, Options options);
  ~MadeUpNode();

  // Includes the CPU usage and, with `hosts`, that of its actors.
  void heartbeat(bool hosts);
  uint64_t heartbeats_sent() const { return sent_; }
  uint64_t heartbeats_heard() const { return heard_; }
  // Ends actors that started at least `heartbeats` heartbeats ago.
  void end_actors(uint64_t heartbeats);
  void end(const protocol::StartHost& start);
  size_t ended() const { return ended_; }  // Total number of ended actors.

 private:
  void on_message(const protocol::HeadToWorker& message);

  struct State;
  const Options options_;
  std::unique_ptr<State> state_;
  std::atomic<uint64_t> sent_{0}, heard_{0};
  std::atomic<size_t> ended_{0};
  std::unique_ptr<control::WorkerLink> link_;  // Last member: its thread uses the others.
};

}  // namespace volador::bench
