// attack_bench: latency of an authenticated peer while strangers attack the port: the head's, its dashboard's and a
// worker's data port.
//   attack_bench [--only=NAME,…] [--json] [--list]      p99 of its calls, idle and under each attack
//   attack_bench attack NAME PORT SECONDS CONNECTIONS   attacks 127.0.0.1:PORT; prints "attacking", then its counts
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/attacked_port.h"
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
  const AttackCount count =
      run_attack(arguments.at(2), static_cast<uint16_t>(std::stoi(arguments.at(3))),
                 std::chrono::seconds(std::stoi(arguments.at(4))), std::stoull(arguments.at(5)), on_full);
  fmt::print("connections {} ended {} bytes {}\n", count.connections, count.ended, count.bytes);
  return 0;
}

// Returns the duration of each call in milliseconds until `seconds` have passed. A failed call counts as the whole
// time.
std::vector<double> time_calls(AttackedPort& port, double seconds) {
  std::vector<double> times;
  const auto begin = std::chrono::steady_clock::now();
  while (seconds_since(begin) < seconds) {
    const auto called = std::chrono::steady_clock::now();
    const bool answered = port.ask();
    times.push_back((answered ? seconds_since(called) : seconds) * 1000);
    std::this_thread::sleep_for(kPause);
  }
  return times;
}

// CPU time of all its threads, user and kernel.
double processor_seconds(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  text.erase(0, text.rfind(')') + 1);
  std::istringstream words(text);
  std::string word;
  for (int i = 0; i < 11; ++i) words >> word;
  double user = 0, system = 0;
  words >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

Measured measure_under(std::string_view name, std::string_view kind) {
  const auto attacked = AttackedPort::start(kind);
  (void)attacked->ask();
  Measured measured;
  const auto measure = [&](std::vector<double>& into, double seconds) {
    const double before = processor_seconds(attacked->process());
    into.push_back(p99(time_calls(*attacked, seconds)));
    return (processor_seconds(attacked->process()) - before) / seconds;
  };
  const double usual = measure(measured.baselines, 3);
  const pid_t attacker = ::fork();
  if (attacker == 0) {
    const std::string program = program_beside("attack_bench");
    const std::string attack_name(name), port = std::to_string(attacked->port());
    ::execl(program.c_str(), program.c_str(), "attack", attack_name.c_str(), port.c_str(),
            std::to_string(kAttackSeconds).c_str(), "1000000", nullptr);
    ::_exit(127);
  }
  std::this_thread::sleep_for(milliseconds(300));
  const double under_attack = measure(measured.values, kAttackSeconds - 1);
  int status = 0;
  ::waitpid(attacker, &status, 0);
  std::vector<double> after;
  measure(after, 1);
  measured.note = fmt::format(
      "p99; the baseline is that without an attack just before; in the second after it {:.2f} ms; processor time of "
      "the process {:.0f} %, before {:.0f} %",
      after.front(), under_attack * 100, usual * 100);
  return measured;
}

}  // namespace
}  // namespace volador::bench

int main(int argc, char** argv) try {
  using namespace volador::bench;
  if (argc == 6 && std::string_view(argv[1]) == "attack") return attack({argv, argv + argc});
  std::vector<Figure> figures;
  for (const Attack& one : attacks()) {
    for (const std::string_view kind : {"head", "dashboard", "data"}) {
      if (one.ports.find(kind) == std::string_view::npos) continue;
      const std::string of_port = kind == "head" ? "" : fmt::format("{}_", kind);
      figures.push_back({fmt::format("attack_p99_{}{}", of_port, one.name), "ms", false,
                         [name = one.name, kind] { return measure_under(name, kind); }});
    }
  }
  return run_figures(argc, argv, figures);
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
}
