#include "tests/bench/caf_request.h"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <chrono>
#include <cstdint>
#include <future>
#include <vector>

#include "tests/bench/process_memory.h"

namespace volador::bench {
namespace {

using Go = caf::atom_constant<caf::atom("go")>;

struct CafCaller {
  size_t sent = 0;
  size_t answered = 0;
};

caf::behavior echo(caf::event_based_actor*) {
  return {[](int64_t value) { return value; }};
}

void ask(caf::stateful_actor<CafCaller>* self, const caf::actor& peer, size_t requests, std::promise<void>* done) {
  ++self->state.sent;
  self->request(peer, caf::infinite, static_cast<int64_t>(self->state.sent)).then([=](int64_t) {
    if (++self->state.answered == requests) return done->set_value();
    if (self->state.sent < requests) ask(self, peer, requests, done);
  });
}

struct System {
  System() {
    config.set("scheduler.policy", caf::atom("sharing"));
    config.set("scheduler.max-threads", size_t{2});
  }
  caf::actor_system_config config;
};

}  // namespace

double caf_request_us(size_t requests, size_t outstanding) {
  System made;
  caf::actor_system system(made.config);
  const auto peer = system.spawn(echo);
  std::promise<void> done;
  const auto begin = std::chrono::steady_clock::now();
  const auto caller = system.spawn([&, peer](caf::stateful_actor<CafCaller>* self) -> caf::behavior {
    return {[=, &done](Go) {
      for (size_t at = 0; at < outstanding; ++at) ask(self, peer, requests, &done);
    }};
  });
  caf::anon_send(caller, Go::value);
  done.get_future().wait();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  caf::anon_send_exit(caller, caf::exit_reason::kill);
  caf::anon_send_exit(peer, caf::exit_reason::kill);
  return seconds / static_cast<double>(requests) * 1e6;
}

double caf_actor_bytes(size_t actors) {
  System made;
  caf::actor_system system(made.config);
  std::vector<caf::actor> all;
  all.reserve(actors);
  const int64_t before = memory_of_process(0);
  for (size_t at = 0; at < actors; ++at) all.push_back(system.spawn(echo));
  const int64_t after = memory_of_process(0);
  for (const auto& one : all) caf::anon_send_exit(one, caf::exit_reason::kill);
  return static_cast<double>(after - before) / static_cast<double>(actors);
}

}  // namespace volador::bench
