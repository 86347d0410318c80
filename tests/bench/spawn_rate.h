// How fast actors in processes of their own come alive.
#pragma once

#include <volador/volador.h>

#include <chrono>
#include <deque>
#include <vector>

namespace volador::bench {

inline constexpr size_t kSpawnsUnderWay = 32;

// Actors a second, each from the request until its first answer, 32 under way. They are killed afterwards.
template <class T, class FirstCall>
double spawns_a_second(size_t count, FirstCall first_call) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<ActorHandle<T>> actors;
  std::deque<decltype(first_call(ActorHandle<T>()))> under_way;
  for (size_t i = 0; i < count; ++i) {
    if (under_way.size() == kSpawnsUnderWay) {
      under_way.front().get();
      under_way.pop_front();
    }
    actors.push_back(actor<T>().spawn());
    under_way.push_back(first_call(actors.back()));
  }
  for (auto& answer : under_way) answer.get();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  for (const auto& one : actors) one.kill();
  return static_cast<double>(count) / took.count();
}

}  // namespace volador::bench
