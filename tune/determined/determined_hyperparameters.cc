#include "tune/determined/determined_hyperparameters.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "tune/overload.h"

namespace volador::tune::determined {
namespace {

tl::unexpected<Error> refuse(const std::string& path, const std::string& rule) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("hyperparameters.{}: {}", path, rule));
}

std::optional<int64_t> count_of(const Config& config) {
  return config.contains("count") && !config["count"].is_null() ? std::optional(config.integer("count")) : std::nullopt;
}

Result<Hyperparameter> checked(const std::string& path, Hyperparameter one) {
  const auto count = std::visit(
      [](const auto& kind) -> std::optional<int64_t> {
        if constexpr (requires { kind.count; }) return kind.count;
        return std::nullopt;
      },
      one);
  if (count && *count < 1) return refuse(path, fmt::format("count: expected at least 1, got {}", *count));
  const auto ordered = [&](auto low, auto high) { return low <= high; };
  const bool bounds = std::visit(
      Overload{[&](const Int& kind) { return ordered(kind.minval, kind.maxval); },
               [&](const Double& kind) { return ordered(kind.minval, kind.maxval); },
               [&](const Log& kind) { return ordered(kind.minval, kind.maxval); }, [](const auto&) { return true; }},
      one);
  if (!bounds) return refuse(path, "expected minval to be at most maxval");
  const auto* log = std::get_if<Log>(&one);
  if (log != nullptr && !(log->base > 0))
    return refuse(path, fmt::format("base: expected a number above 0, got {}", log->base));
  const auto* categorical = std::get_if<Categorical>(&one);
  if (categorical != nullptr && categorical->vals.empty()) return refuse(path, "vals: expected at least one value");
  return one;
}

Result<Hyperparameter> typed(const std::string& path, const Config& config) {
  const std::string type = config.text("type");
  if (type == "const") return Hyperparameter(Const{*config.find("val")});
  if (type == "categorical") return checked(path, Categorical{config["vals"].items()});
  if (type == "int") return checked(path, Int{config.integer("minval"), config.integer("maxval"), count_of(config)});
  if (type == "double") return checked(path, Double{config.real("minval"), config.real("maxval"), count_of(config)});
  if (type == "log")
    return checked(path,
                   Log{config.get_or("base", 10.0), config.real("minval"), config.real("maxval"), count_of(config)});
  return refuse(path, fmt::format("type: expected const, categorical, int, double or log, got \"{}\"", type));
}

// Rounds half away from zero.
int64_t rounded(double value) { return static_cast<int64_t>(std::round(value)); }

std::vector<double> linear(double low, double high, int64_t count) {
  std::vector<double> out;
  if (count == 1) return {0.5 * (low + high)};
  for (int64_t i = 0; i < count; ++i)
    out.push_back(low + static_cast<double>(i) * (high - low) / static_cast<double>(count - 1));
  return out;
}

}  // namespace

Result<Hyperparameters> Hyperparameters::from(const Config& config) { return from(config, ""); }

Result<Hyperparameters> Hyperparameters::from(const Config& config, const std::string& path) {
  if (!config.is_map()) return make_error(ErrorCode::kInvalidArgument, "hyperparameters: expected a map");
  Hyperparameters out;
  for (const ConfigEntry& entry : config.entries()) {
    const std::string here = path.empty() ? entry.name : path + "." + entry.name;
    if (!entry.value.is_map()) {
      out.all_.emplace(entry.name, Const{entry.value});
      continue;
    }
    if (entry.value.find("type") == nullptr) {
      auto nested = from(entry.value, here);
      if (!nested) return nested;
      out.all_.emplace(entry.name, Nested{std::make_shared<const Hyperparameters>(std::move(*nested))});
      continue;
    }
    try {
      if (entry.value.text("type") == "const") (void)entry.value["val"];  // Throws if it is absent.
      auto one = typed(here, entry.value);
      if (!one) return make_error(one.error());
      out.all_.emplace(entry.name, std::move(*one));
    } catch (const Exception& error) {
      return refuse(here, error.error().message);
    }
  }
  return out;
}

Config Hyperparameters::sample(Random& random) const {
  Config::Map out;  // A name may contain a dot.
  for (const auto& [name, one] : all_) {
    Config value = std::visit(
        Overload{[](const Const& kind) { return kind.val; },
                 [&](const Categorical& kind) {
                   return kind.vals[static_cast<size_t>(random.below(static_cast<int64_t>(kind.vals.size())))];
                 },
                 [&](const Int& kind) { return Config(kind.minval + random.below(kind.maxval - kind.minval + 1)); },
                 [&](const Double& kind) { return Config(random.uniform(kind.minval, kind.maxval)); },
                 [&](const Log& kind) { return Config(std::pow(kind.base, random.uniform(kind.minval, kind.maxval))); },
                 [&](const Nested& kind) { return kind.map->sample(random); }},
        one);
    out.push_back({name, std::move(value)});
  }
  return Config::of(std::move(out));
}

Result<std::vector<Config>> grid_values(const std::string& path, const Hyperparameter& one) {
  const auto counted = [&](const std::optional<int64_t>& count,
                           const std::function<std::vector<Config>(int64_t)>& values) -> Result<std::vector<Config>> {
    if (!count) return refuse(path, "count: a grid search needs the number of points of each int, double and log");
    if (*count > Hyperparameters::kPointsMax)
      return refuse(path, fmt::format("count: expected at most {}, got {}", Hyperparameters::kPointsMax, *count));
    return values(*count);
  };
  const auto reals = [](const std::vector<double>& values) {
    return std::vector<Config>(values.begin(), values.end());
  };
  return std::visit(
      Overload{[](const Const& kind) -> Result<std::vector<Config>> { return std::vector<Config>{kind.val}; },
               [](const Categorical& kind) -> Result<std::vector<Config>> { return kind.vals; },
               [&](const Int& kind) {
                 return counted(kind.count, [&](int64_t wanted) {
                   const int64_t count = std::min(wanted, kind.maxval - kind.minval + 1);
                   std::vector<Config> out;
                   for (const double value :
                        linear(static_cast<double>(kind.minval), static_cast<double>(kind.maxval), count))
                     out.emplace_back(rounded(value));
                   return out;
                 });
               },
               [&](const Double& kind) {
                 return counted(kind.count,
                                [&](int64_t count) { return reals(linear(kind.minval, kind.maxval, count)); });
               },
               [&](const Log& kind) {
                 return counted(kind.count, [&](int64_t count) {
                   std::vector<double> values = linear(kind.minval, kind.maxval, count);
                   for (double& value : values) value = std::pow(kind.base, value);
                   return reals(values);
                 });
               },
               [](const Nested& kind) { return kind.map->grid(); }},
      one);
}

Result<std::vector<Config>> Hyperparameters::grid(int64_t points_max) const {
  std::vector<Config::Map> points{{}};
  for (const auto& [name, one] : all_) {
    auto values = grid_values(name, one);
    if (!values) return values;
    if (static_cast<int64_t>(points.size()) * static_cast<int64_t>(values->size()) > points_max) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("hyperparameters: the grid has more than {} points: lower the counts", points_max));
    }
    std::vector<Config::Map> longer;
    for (const Config::Map& point : points) {
      for (const Config& value : *values) {
        longer.push_back(point);
        longer.back().push_back({name, value});
      }
    }
    points = std::move(longer);
  }
  std::vector<Config> out;
  for (Config::Map& point : points) out.push_back(Config::of(std::move(point)));
  return out;
}

}  // namespace volador::tune::determined
