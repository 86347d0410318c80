// A user program built against an installed Volador: an actor in a private cluster, called from main.
#include <volador/volador.h>

#include <cstdio>

class Counter {
 public:
  explicit Counter(int start) : value_(start) {}
  int add(int amount) { return value_ += amount; }

 private:
  int value_;
};
VOLADOR_ACTOR(Counter, &Counter::add);

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv);
  auto counter = volador::actor<Counter>(10).spawn();
  const int total = counter.call<&Counter::add>(5).get();
  std::printf("total %d\n", total);
  return total == 15 ? 0 : 1;
}
