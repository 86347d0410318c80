// Searches on functions with known answers, for the comparison with other libraries: scripts/bench_tune_peers.sh.
//
//   search_runs [--samplers=tpe,cmaes,gp,nsga2] [--functions=branin,…] [--seeds=30]
//
// Prints one line per run: sampler, function, seed, final result (lower is better; for several objectives the negative
// hypervolume of the front).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tune/hartmann.h"
#include "tune/searchers/cmaes_searcher.h"
#include "tune/searchers/gp_searcher.h"
#include "tune/searchers/nsga2_searcher.h"
#include "tune/searchers/tpe_searcher.h"
#include "tune/study/study.h"

namespace volador::bench {
namespace {

using tune::Config;
using tune::Space;

std::string named(int i) { return fmt::format("x{}", i); }

Space cube(int dimensions, double low, double high) {
  Space space;
  for (int i = 0; i < dimensions; ++i) space.set(named(i), tune::uniform(low, high));
  return space;
}
std::vector<double> point(const Config& config, int dimensions) {
  std::vector<double> x;
  for (int i = 0; i < dimensions; ++i) x.push_back(config.real(named(i)));
  return x;
}
double squared(double x) { return x * x; }

// ---- One objective.

double branin(const Config& config) {
  const double x = config.real("x"), y = config.real("y");
  return squared(y - 5.1 / (4 * M_PI * M_PI) * x * x + 5 / M_PI * x - 6) + 10 * (1 - 1 / (8 * M_PI)) * std::cos(x) + 10;
}

double hartmann(const Config& config) {
  tune::testing::SixReals x{};
  for (size_t i = 0; i < x.size(); ++i) x[i] = config.real(named(static_cast<int>(i)));
  return tune::testing::hartmann6(x);
}

double rosenbrock5(const Config& config) {
  const auto x = point(config, 5);
  double value = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i) value += 100 * squared(x[i + 1] - x[i] * x[i]) + squared(1 - x[i]);
  return value;
}

double mixed(const Config& config) {
  const double offset = config.text("kind") == "a" ? 1 : config.text("kind") == "b" ? 0 : 2;
  return squared(config.real("x") - 1) + squared(std::log10(config.real("lr")) + 3) +
         0.1 * squared(static_cast<double>(config.integer("n")) - 8) + offset;
}

struct Single {
  std::string_view name;
  Space space;
  double (*value)(const Config&);
  bool numbers = true;
};
std::vector<Single> singles() {
  return {{"branin", {{"x", tune::uniform(-5, 10)}, {"y", tune::uniform(0, 15)}}, branin},
          {"hartmann6", cube(6, 0, 1), hartmann},
          {"rosenbrock5", cube(5, -5, 10), rosenbrock5},
          {"mixed",
           {{"x", tune::uniform(-5, 5)},
            {"lr", tune::loguniform(1e-5, 1)},
            {"n", tune::randint(1, 17)},
            {"kind", tune::choice({"a", "b", "c"})}},
           mixed,
           false}};
}

// ---- Two objectives: ZDT1 to 3 (Zitzler, Deb, Thiele, 2000) of six variables, and two spheres.

double zdt_g(const std::vector<double>& x) {
  double sum = 0;
  for (size_t i = 1; i < x.size(); ++i) sum += x[i];
  return 1 + 9 * sum / static_cast<double>(x.size() - 1);
}
std::vector<double> zdt1(const std::vector<double>& x) {
  const double g = zdt_g(x);
  return {x[0], g * (1 - std::sqrt(x[0] / g))};
}
std::vector<double> zdt2(const std::vector<double>& x) {
  const double g = zdt_g(x);
  return {x[0], g * (1 - squared(x[0] / g))};
}
std::vector<double> zdt3(const std::vector<double>& x) {
  const double g = zdt_g(x);
  return {x[0], g * (1 - std::sqrt(x[0] / g) - x[0] / g * std::sin(10 * M_PI * x[0]))};
}
std::vector<double> spheres(const std::vector<double>& x) {
  double near = 0, far = 0;
  for (const double one : x) {
    near += squared(one - 0.3);
    far += squared(one - 0.6);
  }
  return {near, far};
}

struct Double {
  std::string_view name;
  std::vector<double> (*values)(const std::vector<double>&);
  double reference;  // Reference point of the hypervolume, in both objectives.
};
constexpr Double kDoubles[] = {{"zdt1", zdt1, 5}, {"zdt2", zdt2, 5}, {"zdt3", zdt3, 5}, {"spheres", spheres, 2}};

// Returns the area dominated by the points below the reference.
double hypervolume(std::vector<std::vector<double>> points, double reference) {
  std::sort(points.begin(), points.end());
  double volume = 0, low = reference;
  for (const auto& one : points) {
    if (one[0] >= reference || one[1] >= low) continue;
    volume += (reference - one[0]) * (low - one[1]);
    low = one[1];
  }
  return volume;
}

// ---- Runs.

void print(std::string_view sampler, std::string_view function, uint64_t seed, double value) {
  fmt::print("{} {} {} {:.17g}\n", sampler, function, seed, value);
  std::fflush(stdout);
}

// Returns whether `name` is in the comma-separated list; true if the list is empty.
bool is_among(std::string_view name, const std::string& names) {
  return names.empty() || ("," + names + ",").find(fmt::format(",{},", name)) != std::string::npos;
}

struct Asked {
  std::string functions;
  uint64_t seeds = 30;
};

void run_singles(std::string_view sampler, const tune::SearcherFactory& searcher, int64_t trials, const Asked& asked,
                 bool numbers_only) {
  for (const Single& one : singles()) {
    if ((numbers_only && !one.numbers) || !is_among(one.name, asked.functions)) continue;
    for (uint64_t seed = 0; seed < asked.seeds; ++seed) {
      tune::Study study({.space = one.space, .searcher = searcher, .seed = seed});
      for (int64_t i = 0; i < trials; ++i) {
        const auto trial = study.ask();
        study.tell(trial, one.value(trial.config));
      }
      print(sampler, one.name, seed, study.best()->value);
    }
  }
}

void run_doubles(std::string_view sampler, const tune::SearcherFactory& searcher, int64_t trials, const Asked& asked) {
  for (const Double& one : kDoubles) {
    if (!is_among(one.name, asked.functions)) continue;
    for (uint64_t seed = 0; seed < asked.seeds; ++seed) {
      tune::Study study(
          {.space = cube(6, 0, 1), .modes = {tune::Mode::kMin, tune::Mode::kMin}, .searcher = searcher, .seed = seed});
      for (int64_t i = 0; i < trials; ++i) {
        const auto trial = study.ask();
        study.tell(trial, one.values(point(trial.config, 6)));
      }
      std::vector<std::vector<double>> front;
      for (const auto& judged : study.front()) front.push_back(judged.values);
      print(sampler, one.name, seed, -hypervolume(std::move(front), one.reference));
    }
  }
}

int run(const std::vector<std::string_view>& arguments) {
  std::string samplers;
  Asked asked;
  for (const std::string_view argument : arguments) {
    const auto value = argument.substr(std::min(argument.find('=') + 1, argument.size()));
    if (argument.starts_with("--samplers=")) {
      samplers = value;
    } else if (argument.starts_with("--functions=")) {
      asked.functions = value;
    } else if (!argument.starts_with("--seeds=") ||
               std::from_chars(value.data(), value.data() + value.size(), asked.seeds).ec != std::errc()) {
      fmt::print(stderr, "{}: expected --samplers=tpe,cmaes,gp,nsga2, --functions=branin,… or --seeds=N\n", argument);
      return 2;
    }
  }
  if (is_among("tpe", samplers)) run_singles("tpe", tune::tpe(), 200, asked, false);
  if (is_among("cmaes", samplers)) run_singles("cmaes", tune::cmaes(), 500, asked, true);
  if (is_among("gp", samplers)) run_singles("gp", tune::gp(), 60, asked, false);
  if (is_among("nsga2", samplers)) run_doubles("nsga2", tune::nsga2(), 500, asked);
  return 0;
}

}  // namespace
}  // namespace volador::bench

int main(int argc, char** argv) { return volador::bench::run({argv + 1, argv + argc}); }
