// volador_bench [--only=NAME,…] [--busy=N] [--json] [--list]: Volador's figures, each beside its limit measured in the same run.
#include <fmt/format.h>
#include <volador/volador.h>

#include "tests/bench/figure.h"

int main(int argc, char** argv) try {
  // Before init: the figures of whole clusters fork and exec, and need no session. In a host init() does not return.
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 16, .logs_to_driver = false});
  using volador::bench::Figure;
  std::vector<Figure> figures = volador::bench::cluster_figures();
  for (auto& figure : volador::bench::dashboard_figures()) figures.push_back(std::move(figure));
  for (auto& figure : volador::bench::head_memory_figures()) figures.push_back(std::move(figure));
  for (auto& figure : volador::bench::call_figures()) figures.push_back(std::move(figure));
  for (auto& figure : volador::bench::shared_figures()) figures.push_back(std::move(figure));
  for (auto& figure : volador::bench::task_figures()) figures.push_back(std::move(figure));
  for (auto& figure : volador::bench::group_figures()) figures.push_back(std::move(figure));
  for (auto& figure : volador::bench::object_figures()) figures.push_back(std::move(figure));
  for (auto& figure : volador::bench::remote_figures()) figures.push_back(std::move(figure));
  for (auto& figure : volador::bench::tune_figures()) figures.push_back(std::move(figure));
  for (auto& figure : volador::bench::search_figures()) figures.push_back(std::move(figure));
  for (auto& figure : volador::bench::schedule_figures()) figures.push_back(std::move(figure));

  return volador::bench::run_figures(argc, argv, figures);
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
