#include <volador/volador.h>

#include <chrono>
#include <deque>
#include <vector>

#include "tests/bench/figure.h"
#include "tests/bench/raw_echo.h"

namespace volador::bench {
namespace {

class Echo {
 public:
  int64_t same(int64_t value) { return value; }
};
VOLADOR_ACTOR(Echo, &Echo::same);

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Measured call_sync() {
  constexpr size_t kCalls = 5'000;
  Measured measured{.note = "raw Unix-socket echo, an epoll and a working thread on each side"};
  auto echo = actor<Echo>().spawn();
  for (int i = 0; i < 500; ++i) echo.call<&Echo::same>(i).get();
  for (int run = 0; run < 5; ++run) {
    measured.baselines.push_back(raw_echo_sync_us(kCalls));
    const auto begin = std::chrono::steady_clock::now();
    for (size_t i = 0; i < kCalls; ++i) echo.call<&Echo::same>(static_cast<int64_t>(i)).get();
    measured.values.push_back(seconds_since(begin) / static_cast<double>(kCalls) * 1e6);
  }
  echo.kill();
  return measured;
}

Measured call_pipelined() {
  constexpr size_t kCalls = 200'000;
  constexpr size_t kOutstanding = 1'000;
  Measured measured{.note = "the same raw echo with 1,000 outstanding"};
  auto echo = actor<Echo>().spawn();
  echo.call<&Echo::same>(0).get();
  for (int run = 0; run < 5; ++run) {
    measured.baselines.push_back(raw_echo_pipelined_per_s(kCalls, kOutstanding));
    const auto begin = std::chrono::steady_clock::now();
    std::deque<Future<int64_t>> under_way;
    for (size_t i = 0; i < kCalls; ++i) {
      if (under_way.size() == kOutstanding) {
        under_way.front().get();
        under_way.pop_front();
      }
      under_way.push_back(echo.call<&Echo::same>(static_cast<int64_t>(i)));
    }
    for (auto& future : under_way) future.get();
    measured.values.push_back(static_cast<double>(kCalls) / seconds_since(begin));
  }
  echo.kill();
  return measured;
}

// From the request until the first answer, 32 under way.
Measured actor_spawn_process() {
  constexpr size_t kActors = 200;
  Measured measured{.note = "no baseline; the aim is 200/s"};
  for (int run = 0; run < 3; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<ActorHandle<Echo>> actors;
    std::deque<Future<int64_t>> under_way;
    for (size_t i = 0; i < kActors; ++i) {
      if (under_way.size() == 32) {
        under_way.front().get();
        under_way.pop_front();
      }
      actors.push_back(actor<Echo>().spawn());
      under_way.push_back(actors.back().call<&Echo::same>(1));
    }
    for (auto& answer : under_way) answer.get();
    measured.values.push_back(static_cast<double>(kActors) / seconds_since(begin));
    for (auto& echo : actors) echo.kill();
  }
  return measured;
}

}  // namespace

std::vector<Figure> call_figures() {
  return {{"call_sync", "us", false, call_sync}, {"call_pipelined", "calls/s", true, call_pipelined}, {"actor_spawn_process", "actors/s", true, actor_spawn_process}};
}

}  // namespace volador::bench
