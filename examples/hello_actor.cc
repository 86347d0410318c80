// Calls an actor in its own process, then one that crashes, and shows the resulting error.
#include <fmt/format.h>
#include <volador/volador.h>

#include <cstdlib>
#include <vector>

class Counter {
 public:
  explicit Counter(int start) : value_(start) {}
  int add(int amount) { return value_ += amount; }
  void crash() { std::abort(); }

 private:
  int value_;
};
VOLADOR_ACTOR(Counter, &Counter::add, &Counter::crash);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);  // The cluster of this machine, by default a private one. Does not return
                                             // in a host process.
  fmt::print("cluster {}: {}\n", cluster.name(), to_string(cluster.resources()));

  auto counter = volador::actor<Counter>(10).name("hits").resources({.cpus = 0.5}).spawn();
  std::vector<volador::Future<int>> totals;
  for (int i = 1; i <= 5; ++i)
    totals.push_back(counter.call<&Counter::add>(i));  // Sent at once, executed in this
                                                       // order.
  for (const auto& total : totals) fmt::print("total {}\n", total.get());

  auto same = volador::get_actor<Counter>("hits");  // From any program of the cluster.
  fmt::print("by name {}\n", same.call<&Counter::add>(0).get());

  auto result = counter.call<&Counter::crash>().result();
  fmt::print("after the crash: {}\n", to_string(result.error()));
} catch (const volador::Exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
