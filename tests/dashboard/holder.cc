// A program with a placement group of two bundles, an actor in it and three objects, for tests that inspect them:
// prints "ready" and runs until the end of its input.
#include <volador/volador.h>

#include <cstdio>
#include <vector>

class Worker {
 public:
  int ping() {
    pings_.add();
    seconds_.observe(0.2);
    depth_.set(-1.5);
    return 1;
  }

 private:
  volador::metrics::Counter pings_{"pings_total", {.help = "Pings answered", .labels = {{"how", "plain"}}}};
  volador::metrics::Gauge depth_{"depth"};
  volador::metrics::Histogram seconds_{"ping_seconds", {.help = "", .labels = {}, .bounds = {0.1, 1}}};
};
VOLADOR_ACTOR(Worker, &Worker::ping);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  auto group = volador::placement_group({{.cpus = 0.5}, {.cpus = 0.25}}, volador::Strategy::kPack, {.name = "pair"});
  auto worker = volador::actor<Worker>().resources({.cpus = 0.5}).in(group, 0).name("pinger").spawn();
  worker.call<&Worker::ping>().get();
  std::vector<volador::Ref<std::vector<double>>> kept;
  for (int n = 0; n < 3; ++n) kept.push_back(volador::put(std::vector<double>(200'000, n)));
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
} catch (const volador::Exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
