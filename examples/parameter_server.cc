// Fits a line to noisy points: an actor holds the weights; workers read them in shared memory and push gradients
// without waiting for each other.
#include <fmt/format.h>
#include <volador/volador.h>

#include <array>
#include <random>

using Weights = volador::Array<double>;  // Slope and intercept.

class ParameterServer {
 public:
  explicit ParameterServer(double rate) : rate_(rate), shared_(volador::put(Weights(weights_))) {}
  volador::Ref<Weights> weights() const { return shared_; }
  void push(const Weights& gradient) {
    for (size_t i = 0; i < weights_.size(); ++i) weights_[i] -= rate_ * gradient[i];
    shared_ = volador::put(Weights(weights_));
  }

 private:
  const double rate_;
  std::vector<double> weights_{0, 0};
  volador::Ref<Weights> shared_;
};
VOLADOR_ACTOR(ParameterServer, &ParameterServer::weights, &ParameterServer::push);

// Holds its own part of the points.
class Worker {
 public:
  Worker(volador::ActorHandle<ParameterServer> server, int seed)
      : server_(std::move(server)), random_(static_cast<uint64_t>(seed)) {
    for (auto& [x, y] : points_) {
      x = std::uniform_real_distribution<double>(-1, 1)(random_);
      y = 3 * x - 1 + std::normal_distribution<double>(0, 0.1)(random_);
    }
  }
  void train(int steps) {
    for (int step = 0; step < steps; ++step) {
      const Weights weights = server_.call<&ParameterServer::weights>().get().get();
      std::vector<double> gradient{0, 0};
      for (const auto& [x, y] : points_) {
        const double error = weights[0] * x + weights[1] - y;
        gradient[0] += 2 * error * x / static_cast<double>(points_.size());
        gradient[1] += 2 * error / static_cast<double>(points_.size());
      }
      server_.call<&ParameterServer::push>(Weights(gradient)).get();
    }
  }

 private:
  volador::ActorHandle<ParameterServer> server_;
  std::mt19937_64 random_;
  std::array<std::pair<double, double>, 1000> points_;
};
VOLADOR_ACTOR(Worker, &Worker::train);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  const auto server = volador::actor<ParameterServer>(0.05).spawn();
  std::vector<volador::ActorHandle<Worker>> workers;
  std::vector<volador::Future<void>> trained;
  for (int seed = 1; seed <= 4; ++seed) {
    workers.push_back(volador::actor<Worker>(server, seed).spawn());
    trained.push_back(workers.back().call<&Worker::train>(100));
  }
  for (const auto& one : trained) one.get();
  const Weights weights = server.call<&ParameterServer::weights>().get().get();
  fmt::print("y = {:.1f} x + {:.1f}\n", weights[0], weights[1]);
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
