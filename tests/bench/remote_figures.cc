// Calls and objects between machines, simulated as network namespaces of one machine. Both ends, and every node of a
// broadcast, share its processors and memory; so does the limit measured beside them.
#include <fmt/format.h>

#include <fstream>
#include <string>

#include "tests/bench/figure.h"
#include "tests/bench/machines.h"

namespace volador::bench {
namespace {

constexpr int kPort = 7001;

// Two simulated machines, with a raw server on the second.
class Pair {
 public:
  Pair() : server_(machines_.start(2, fmt::format("raw-serve {} {}", machines_.address(2), kPort))) {}
  ~Pair() { Machines::end(server_); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  std::vector<double> run(const std::string& arguments) const { return machines_.run(1, arguments); }
  std::vector<double> raw(const std::string& what, const std::string& arguments) const {
    return run(fmt::format("{} {} {} {}", what, machines_.address(2), kPort, arguments));
  }

 private:
  Machines machines_{2};
  pid_t server_;
};

Measured call_sync_remote() {
  if (const std::string why = Machines::why_not(); !why.empty()) return {.note = why};
  const Pair pair;
  Measured measured{.note = "raw TLS echo, one thread on each side"};
  for (int run = 0; run < 5; ++run) {
    measured.values.push_back(pair.run("call m2 5000").front());
    measured.baselines.push_back(pair.raw("raw-echo", "5000").front());
  }
  return measured;
}

// Alternates with the raw stream, since other processes may use the processors as well.
Measured pull_in_turns(const std::string& how, size_t first) {
  if (const std::string why = Machines::why_not(); !why.empty()) return {.note = why};
  const Pair pair;
  Measured measured;
  for (int turn = 0; turn < 3; ++turn) {
    for (const double rate : pair.raw("raw-tls", fmt::format("{} 2", kGigabyte))) measured.baselines.push_back(rate);
    const auto runs = pair.run(fmt::format("pull m2 {} {}", kGigabyte, how));
    measured.values.insert(measured.values.end(), runs.begin() + static_cast<std::ptrdiff_t>(first), runs.end());
  }
  measured.note = fmt::format("one TLS stream, read into one buffer; plain TCP {:.1f} GB/s",
                              median(pair.raw("raw-tcp", fmt::format("{} 3", kGigabyte))));
  return measured;
}

// Reuses the memory of an object that was read and released before.
Measured pull_remote_1gb() { return pull_in_turns("3", 1); }
// Uses memory newly allocated by the kernel.
Measured pull_remote_1gb_cold() { return pull_in_turns("2 keep", 0); }

uint64_t memory_available() {
  std::ifstream in("/proc/meminfo");
  std::string word;
  while (in >> word) {
    uint64_t kilobytes = 0;
    if (word == "MemAvailable:" && in >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// One copy for each of eight nodes, at once.
Measured broadcast_1gb() {
  constexpr size_t kNodes = 8;
  if (const std::string why = Machines::why_not(); !why.empty()) return {.note = why};
  // Nine copies, and the same amount again that arenas may temporarily hold.
  const uint64_t bytes = memory_available() > 16 * kGigabyte ? kGigabyte : kGigabyte / 4;
  const double scale = static_cast<double>(kGigabyte) / static_cast<double>(bytes);
  Measured measured;
  {
    const Pair pair;
    for (const double rate : pair.raw("raw-tls", fmt::format("{} 3", kGigabyte)))
      measured.baselines.push_back(kNodes * 1.0 / rate);
  }
  const Machines machines(kNodes + 1);
  std::string others;
  for (size_t at = 2; at <= kNodes + 1; ++at) others += " " + Machines::node(at);
  for (int run = 0; run < 3; ++run)
    measured.values.push_back(scale * machines.run(1, fmt::format("broadcast {}{}", bytes, others)).front());
  measured.note = fmt::format("eight raw TLS streams one after another, since all nodes share these processors{}",
                              bytes < kGigabyte ? "; of a quarter of it, times four, since memory is short" : "");
  return measured;
}

}  // namespace

std::vector<Figure> remote_figures() {
  return {{"call_sync_remote", "us", false, call_sync_remote},
          {"pull_remote_1gb", "GB/s", true, pull_remote_1gb},
          {"pull_remote_1gb_cold", "GB/s", true, pull_remote_1gb_cold},
          {"broadcast_1gb", "s", false, broadcast_1gb}};
}

}  // namespace volador::bench
