// Start rate of actors in their own processes.
#pragma once

#include <volador/volador.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <thread>
#include <vector>

namespace volador::bench {

inline constexpr size_t kSpawnsUnderWay = 32;

// An actor whose method returns its process id.
class Process {
 public:
  int id() { return getpid(); }
};
VOLADOR_ACTOR(Process, &Process::id);

// Actors per second, each from the request until its first response, 32 in flight. They are killed afterwards; waiting
// for their ends does not count.
inline double spawns_a_second(size_t count) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<ActorHandle<Process>> actors;
  std::deque<Future<int>> under_way;
  std::vector<pid_t> processes;
  const auto take_first = [&] {
    processes.push_back(under_way.front().get());
    under_way.pop_front();
  };
  for (size_t i = 0; i < count; ++i) {
    if (under_way.size() == kSpawnsUnderWay) take_first();
    actors.push_back(actor<Process>().spawn());
    under_way.push_back(actors.back().call<&Process::id>());
  }
  while (!under_way.empty()) take_first();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  for (const auto& one : actors) one.kill();
  for (const pid_t process : processes) {
    while (::kill(process, 0) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return static_cast<double>(count) / took.count();
}

}  // namespace volador::bench
