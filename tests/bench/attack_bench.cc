// attack_bench: how long an authenticated peer of a head waits for an answer, while strangers attack the head's port.
//   attack_bench [--only=NAME,…] [--json] [--list]      p99 of its calls, idle and under each attack
//   attack_bench attack NAME PORT SECONDS CONNECTIONS   attacks 127.0.0.1:PORT; prints "attacking", then what it counted
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/clock.h"
#include "runtime/control/cluster_api.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/security/token.h"
#include "tests/bench/attacker.h"
#include "tests/bench/figure.h"
#include "tests/bench/started_cluster.h"

namespace volador::bench {
namespace {

using std::chrono::milliseconds;

constexpr int kAttackSeconds = 6;
constexpr milliseconds kPause{2};  // Between two calls.

int attack(const std::vector<std::string>& arguments) {
  const auto on_full = [] {
    std::puts("attacking");
    std::fflush(stdout);
  };
  const AttackCount count = run_attack(arguments.at(2), static_cast<uint16_t>(std::stoi(arguments.at(3))),
                                       std::chrono::seconds(std::stoi(arguments.at(4))), std::stoull(arguments.at(5)), on_full);
  fmt::print("connections {} ended {} bytes {}\n", count.connections, count.ended, count.bytes);
  return 0;
}

// Milliseconds of each call until `seconds` are over. A call that fails counts as the whole time.
std::vector<double> time_calls(control::ClusterApi& api, double seconds) {
  std::vector<double> times;
  const auto begin = std::chrono::steady_clock::now();
  while (seconds_since(begin) < seconds) {
    const auto called = std::chrono::steady_clock::now();
    const bool answered = api.status().has_value();
    times.push_back((answered ? seconds_since(called) : seconds) * 1000);
    std::this_thread::sleep_for(kPause);
  }
  return times;
}

Measured measure_under(std::string_view name) {
  const StartedCluster started({"--no-dashboard"});
  const SystemClock clock;
  const auto token = security::parse_token(started.operator_token());
  if (!token) throw std::runtime_error(token.error().message);
  auto api = control::ClusterApi::connect(started.address(), *token, std::chrono::seconds(10), clock);
  if (!api) throw std::runtime_error(api.error().message);
  (void)(*api)->status();
  Measured measured{.values = {}, .baselines = {}, .note = "p99; the baseline is that without an attack just before"};
  measured.baselines.push_back(p99(time_calls(**api, 3)));
  const std::string port = started.address().substr(started.address().rfind(':') + 1);
  const pid_t attacker = ::fork();
  if (attacker == 0) {
    const std::string program = program_beside("attack_bench");
    const std::string attack_name(name);
    ::execl(program.c_str(), program.c_str(), "attack", attack_name.c_str(), port.c_str(), std::to_string(kAttackSeconds).c_str(), "1000000", nullptr);
    ::_exit(127);
  }
  std::this_thread::sleep_for(milliseconds(300));
  measured.values.push_back(p99(time_calls(**api, kAttackSeconds - 1)));
  int status = 0;
  ::waitpid(attacker, &status, 0);
  return measured;
}

}  // namespace
}  // namespace volador::bench

int main(int argc, char** argv) try {
  using namespace volador::bench;
  if (argc == 6 && std::string_view(argv[1]) == "attack") return attack({argv, argv + argc});
  std::vector<Figure> figures;
  for (const Attack& one : attacks()) {
    figures.push_back({fmt::format("attack_p99_{}", one.name), "ms", false, [name = one.name] { return measure_under(name); }});
  }
  return run_figures(argc, argv, figures);
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
}
