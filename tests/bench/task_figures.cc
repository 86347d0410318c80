// Tasks: one after another, and a thousand at once. Beside each: the same work as a call of one actor, the limit of a task.
#include <volador/volador.h>

#include "tests/bench/figure.h"

namespace volador::bench {
namespace {

std::string small_value() { return "ok"; }

class Server {
 public:
  std::string small_value() { return "ok"; }
};
VOLADOR_ACTOR(Server, &Server::small_value);

using Clock = std::chrono::steady_clock;
constexpr int kRounds = 5;
constexpr int kSync = 500;
constexpr int kAsync = 1000;

Measured task_sync() {
  Measured measured{.note = "a call of an actor, one after another"};
  const auto server = actor<Server>().spawn();
  server.call<&Server::small_value>().get();
  task<&small_value>().submit().get();
  for (int round = 0; round < kRounds; ++round) {
    auto begin = Clock::now();
    for (int i = 0; i < kSync; ++i) task<&small_value>().submit().get();
    measured.values.push_back(seconds_since(begin) / kSync * 1e6);
    begin = Clock::now();
    for (int i = 0; i < kSync; ++i) server.call<&Server::small_value>().get();
    measured.baselines.push_back(seconds_since(begin) / kSync * 1e6);
  }
  server.kill();
  return measured;
}

Measured task_async() {
  Measured measured{.note = "calls of one actor, 1,000 at once"};
  const auto server = actor<Server>().spawn();
  server.call<&Server::small_value>().get();
  const auto rate = [](const auto& start_one) {
    std::vector<Future<std::string>> futures;
    futures.reserve(kAsync);
    const auto begin = Clock::now();
    for (int i = 0; i < kAsync; ++i) futures.push_back(start_one());
    for (const auto& future : futures) future.get();
    return kAsync / seconds_since(begin);
  };
  rate([] { return task<&small_value>().submit(); });  // Starts the runners.
  for (int round = 0; round < kRounds; ++round) {
    measured.values.push_back(rate([] { return task<&small_value>().submit(); }));
    measured.baselines.push_back(rate([&] { return server.call<&Server::small_value>(); }));
  }
  server.kill();
  return measured;
}

}  // namespace

std::vector<Figure> task_figures() { return {{"task_sync", "us", false, task_sync}, {"task_async", "tasks/s", true, task_async}}; }

}  // namespace volador::bench
