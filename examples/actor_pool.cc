// Estimates pi with four actors, each of which has its own random generator.
#include <fmt/format.h>
#include <volador/volador.h>

#include <numeric>
#include <random>

class Darts {
 public:
  explicit Darts(int seed) : random_(static_cast<uint64_t>(seed)) {}
  // Returns the number of random points of the unit square that lie within the quarter circle.
  int64_t throw_at_circle(int64_t throws) {
    int64_t hits = 0;
    for (int64_t i = 0; i < throws; ++i) {
      const double x = spot_(random_), y = spot_(random_);
      if (x * x + y * y <= 1) ++hits;
    }
    return hits;
  }

 private:
  std::mt19937_64 random_;
  std::uniform_real_distribution<double> spot_{0, 1};
};
VOLADOR_ACTOR(Darts, &Darts::throw_at_circle);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  std::vector<volador::ActorHandle<Darts>> players;
  for (int seed = 1; seed <= 4; ++seed) players.push_back(volador::actor<Darts>(seed).spawn());

  const volador::ActorPool<Darts> pool(players);
  const std::vector<int64_t> throws(100, 100'000);
  const auto hits = pool.map<&Darts::throw_at_circle>(throws);
  const double pi = 4.0 * static_cast<double>(std::accumulate(hits.begin(), hits.end(), int64_t{0})) / 1e7;
  fmt::print("pi is about {:.3f}\n", pi);
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
