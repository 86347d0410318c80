// A user program with LibTorch: an actor that holds a tensor.
#include <torch/torch.h>
#include <volador/volador.h>

#include <cstdio>

class Model {
 public:
  double sum(const std::vector<float>& values) {
    const auto weights = torch::full({static_cast<int64_t>(values.size())}, 2.0F);
    return (weights * torch::tensor(values)).sum().item<double>();
  }
};
VOLADOR_ACTOR(Model, &Model::sum);

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv);
  const double sum = volador::actor<Model>().spawn().call<&Model::sum>(std::vector<float>{1, 2, 3}).get();
  std::printf("%g\n", sum);
  return sum == 12 ? 0 : 1;
}
