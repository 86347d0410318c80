#include "tune/schedulers/pbt_explore.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tune/refusal.h"

namespace volador::tune {
namespace {

// Returns the nearest multiple of q in [low, high].
double fit(const RealDomain& domain, double value) {
  if (domain.q) value = std::round(value / *domain.q) * *domain.q;
  const double highest = domain.q ? domain.high : std::nextafter(domain.high, domain.low);
  return std::clamp(value, domain.low, highest);
}

int64_t fit(const IntegerDomain& domain, int64_t value) {
  if (!domain.q) return std::clamp(value, domain.low, domain.high - 1);
  const int64_t rounded = std::llround(static_cast<double>(value) / static_cast<double>(*domain.q)) * *domain.q;
  return std::clamp(rounded, domain.low, domain.high);
}

int64_t to_integer(double value) {
  constexpr double kMost = 0x1.0p62;
  return static_cast<int64_t>(std::clamp(value, -kMost, kMost));
}

class Mutation {
 public:
  Mutation(const PbtExploreOptions& options, Random& random) : options_(options), random_(random) {}

  // No value: it cannot be moved, only drawn anew.
  std::optional<Config> move(const Domain& domain, const Config& value) {
    if (const auto* choice = std::get_if<ChoiceDomain>(&domain)) return neighbour(*choice, value);
    const double factor = options_.factors[random_.below(2)];
    if (value.kind() == Config::Kind::kReal) return move_real(domain, value.real(), factor);
    if (value.kind() == Config::Kind::kInteger) return move_integer(domain, value.integer(), factor);
    return std::nullopt;
  }

 private:
  bool ray() const { return options_.rule == PbtRule::kRay; }

  std::optional<Config> neighbour(const ChoiceDomain& choice, const Config& value) {
    const bool up = random_.below(2) == 0;
    for (size_t i = 0; i < choice.options.size(); ++i) {
      const Config* option = choice.options[i].constant();
      if (option == nullptr || !(*option == value)) continue;
      const size_t next = up ? std::min(i + 1, choice.options.size() - 1) : i - std::min<size_t>(i, 1);
      const Config* moved = choice.options[next].constant();
      return moved == nullptr ? std::nullopt : std::optional<Config>(*moved);
    }
    return std::nullopt;
  }

  std::optional<Config> move_real(const Domain& domain, double value, double factor) const {
    const double moved = value * factor;
    if (ray()) return moved;
    if (value == 0 || !std::isfinite(moved)) return std::nullopt;
    if (const auto* real = std::get_if<RealDomain>(&domain)) return fit(*real, moved);
    return moved;
  }

  std::optional<Config> move_integer(const Domain& domain, int64_t value, double factor) const {
    const double product = static_cast<double>(value) * factor;
    if (ray()) return to_integer(product);
    if (value == 0) return std::nullopt;
    const auto* integer = std::get_if<IntegerDomain>(&domain);
    const int64_t least = integer != nullptr && integer->q ? *integer->q : 1;
    const bool grows = product > static_cast<double>(value);
    int64_t moved = to_integer(std::round(product));
    if (std::abs(moved - value) < least) moved = value + (grows ? least : -least);
    return integer != nullptr ? fit(*integer, moved) : moved;
  }

  const PbtExploreOptions& options_;
  Random& random_;
};

Result<Config> draw_all(const PbtExploreOptions& options, uint64_t seed, int64_t draw) {
  auto drawn = options.mutations.sample({.seed = seed, .index = draw});
  if (!drawn) return make_error(ErrorCode::kApplication, "pbt: " + drawn.error().message);
  return drawn;
}

}  // namespace

Result<void> validate(const PbtExploreOptions& options) {
  const auto variables = options.mutations.variables();
  if (options.mutations.entries().empty() && !options.custom)
    return refuse(
        "pbt.hyperparam_mutations: expected domains of what may change, as {{\"lr\", tune::loguniform(1e-4, 1e-1)}}, "
        "or custom_explore_fn");
  if (auto valid = options.mutations.validate(); !valid)
    return refuse("pbt.hyperparam_mutations: " + valid.error().message);
  const auto leaves = options.mutations.sample({.seed = 1});
  if (!leaves) return refuse("pbt.hyperparam_mutations: " + leaves.error().message);
  for (const auto& [path, value] : leaves->flatten()) {
    const bool varies = std::any_of(variables.begin(), variables.end(), [&](const auto& one) {
      return path == one.path || path.starts_with(one.path + ".");
    });
    if (!varies) {
      return refuse(fmt::format(
          "pbt.hyperparam_mutations.{}: expected a domain, got {}; leave out what does not change, and write a list of "
          "options as tune::choice({{…}})",
          path, value.to_json()));
    }
  }
  for (const auto& variable : variables) {
    if (std::holds_alternative<GridDomain>(*variable.domain))
      return refuse(
          fmt::format("pbt.hyperparam_mutations.{}: grid_search is for .space; here take tune::choice", variable.path));
  }
  if (!(options.resample_probability >= 0 && options.resample_probability <= 1))
    return refuse(
        fmt::format("pbt.resample_probability: expected 0 to 1, got {}", format_real(options.resample_probability)));
  for (const double factor : options.factors) {
    if (!(factor > 0) || !std::isfinite(factor))
      return refuse(fmt::format("pbt.perturbation_factors: expected positive numbers, got {}", format_real(factor)));
  }
  return {};
}

Result<Config> explore(const PbtExploreOptions& options, Config config, uint64_t seed, int64_t draw) {
  const auto drawn = draw_all(options, seed, draw);
  if (!drawn) return drawn;
  SeededRandom random(seed ^ (static_cast<uint64_t>(draw) * 0x9e3779b97f4a7c15ULL));
  Mutation mutation(options, random);
  for (const auto& [path, domain] : options.mutations.variables()) {
    const Config* value = config.find(path);
    const bool anew = random.real() < options.resample_probability || value == nullptr;
    auto moved = anew ? std::nullopt : mutation.move(*domain, *value);
    config.set(path, moved ? std::move(*moved) : *drawn->find(path));
  }
  if (!options.custom) return config;
  try {
    return options.custom(config);
  } catch (const std::exception& error) {
    return make_error(ErrorCode::kApplication, fmt::format("pbt: custom_explore_fn threw: {}", error.what()));
  }
}

Result<Config> complete(const PbtExploreOptions& options, Config config, uint64_t seed, int64_t draw) {
  const auto drawn = draw_all(options, seed, draw);
  if (!drawn) return drawn;
  for (const auto& [path, domain] : options.mutations.variables()) {
    if (!config.contains(path)) config.set(path, *drawn->find(path));
  }
  return config;
}

}  // namespace volador::tune
