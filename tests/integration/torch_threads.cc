// LibTorch in an actor uses as many threads as CPUs were granted, although OpenMP was loaded long before.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <volador/volador.h>

#include <chrono>
#include <thread>

class Threads {
 public:
  int count() { return at::get_num_threads(); }
};
VOLADOR_ACTOR(Threads, &Threads::count);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 8});
  for (const int cpus : {1, 3, 2}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // Later ones use prestarted hosts.
    auto threads = volador::actor<Threads>().resources({.cpus = static_cast<double>(cpus)}).spawn();
    const int counted = threads.call<&Threads::count>().get();
    fmt::print("{} CPUs: {} threads\n", cpus, counted);
    if (counted != cpus) return 1;
  }
  fmt::print("as many threads as CPUs\n");
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
