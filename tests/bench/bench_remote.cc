// The part of volador_bench that runs inside a simulated machine: a program of a multi-node cluster, or one end of a
// raw connection between two.
//   bench_remote call NODE COUNT              µs per call of an actor on that node
//   bench_remote pull NODE BYTES RUNS [keep]  GB/s of each run: reads an array of that node; keep: all arrays are kept,
//   so that each
//                                             uses fresh memory
//   bench_remote broadcast BYTES NODE…        seconds until an array of this node is read on all of them at once
//   bench_remote raw-serve ADDRESS PORT;  raw-echo ADDRESS PORT COUNT;  raw-tls, raw-tcp ADDRESS PORT BYTES RUNS
#include <fmt/format.h>
#include <volador/volador.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/bench/figure.h"
#include "tests/bench/raw_tls.h"

namespace {

using namespace volador;
using Clock = std::chrono::steady_clock;

Ref<Array<double>> filled(size_t count, double with) {
  ArrayDraft<double> draft(count);
  std::fill(draft.span().begin(), draft.span().end(), with);
  return std::move(draft).put();
}

class There {
 public:
  int64_t same(int64_t value) const { return value; }
  void make(size_t count, double with) { made_ = filled(count, with); }
  Ref<Array<double>> made() { return std::exchange(made_, {}); }
  double last(const Array<double>& numbers) const { return numbers[numbers.size() - 1]; }

 private:
  Ref<Array<double>> made_;
};
VOLADOR_ACTOR(There, &There::same, &There::make, &There::made, &There::last);

void call(const std::string& node, size_t count) {
  const auto there = actor<There>().node(node).spawn();
  for (int i = 0; i < 500; ++i) there.call<&There::same>(i).get();
  const auto begin = Clock::now();
  for (size_t i = 0; i < count; ++i) there.call<&There::same>(static_cast<int64_t>(i)).get();
  fmt::print("{}\n", bench::seconds_since(begin) / static_cast<double>(count) * 1e6);
}

void pull(const std::string& node, size_t bytes, int runs, bool keep) {
  std::vector<Array<double>> kept;
  const auto there = actor<There>().node(node).spawn();
  for (int run = 0; run < runs; ++run) {
    there.call<&There::make>(bytes / sizeof(double), static_cast<double>(run)).get();
    const auto begin = Clock::now();
    const Array<double> numbers = there.call<&There::made>().get().get();
    const double seconds = bench::seconds_since(begin);
    if (numbers[numbers.size() - 1] != run) throw std::runtime_error("another array came");
    if (keep) kept.push_back(numbers);
    fmt::print("{}\n", static_cast<double>(bytes) / 1e9 / seconds);
  }
}

void broadcast(size_t bytes, const std::vector<std::string>& nodes) {
  std::vector<ActorHandle<There>> all;
  for (const std::string& node : nodes) all.push_back(actor<There>().node(node).spawn());
  for (const auto& there : all) there.call<&There::same>(1).get();
  const auto array = filled(bytes / sizeof(double), 2.5);
  const auto begin = Clock::now();
  std::vector<Future<double>> read;
  for (const auto& there : all) read.push_back(there.call<&There::last>(array));
  for (const auto& one : read) {
    if (one.get() != 2.5) throw std::runtime_error("another array came");
  }
  fmt::print("{}\n", bench::seconds_since(begin));
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> given(argv + 1, argv + argc);
  const auto at = [&](size_t index) { return index < given.size() ? given[index] : std::string(); };
  const auto number = [&](size_t index) { return std::strtoull(at(index).c_str(), nullptr, 10); };
  if (at(0).starts_with("raw-")) {
    const std::string address = at(1);
    const auto port = static_cast<uint16_t>(number(2));
    if (at(0) == "raw-serve") bench::serve_raw(address, port);
    if (at(0) == "raw-echo") {
      fmt::print("{}\n", bench::raw_tls_echo_us(address, port, number(3)));
      return 0;
    }
    for (uint64_t run = 0; run < number(4); ++run) {
      fmt::print("{}\n", at(0) == "raw-tls" ? bench::raw_tls_stream_gb_per_s(address, port, number(3))
                                            : bench::raw_tcp_stream_gb_per_s(address, port, number(3)));
    }
    return 0;
  }
  const auto cluster = init(argc, argv);
  if (at(0) == "call") call(at(1), number(2));
  if (at(0) == "pull") pull(at(1), number(2), static_cast<int>(number(3)), at(4) == "keep");
  if (at(0) == "broadcast") broadcast(number(1), {given.begin() + 2, given.end()});
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
