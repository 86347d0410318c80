#include "tune/space/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "tune/overload.h"
#include "tune/space/drawing.h"

namespace volador::tune {
namespace {

constexpr int64_t kBoundMax = int64_t{1} << 62;
constexpr int64_t kGridMax = int64_t{1} << 31;

std::string join(std::string_view path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

// ---- Drawing a value.

SeededRandom random_for(const Space::Draw& draw, std::string_view key) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a.
  for (const char c : key) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  return SeededRandom(mixed(mixed(mixed(draw.seed) ^ static_cast<uint64_t>(draw.index)) ^ hash));
}

// Returns k × q without the rounding error of 3 × 0.1: if 1/q is an integer, k is divided by it.
double multiple(double k, double q) {
  const double inverse = std::round(1 / q);
  if (inverse >= 1 && std::abs(inverse * q - 1) < 1e-12) return k / inverse;
  return k * q;
}

bool is_multiple(double value, double q) {
  const double k = value / q;
  return std::abs(k - std::round(k)) <= 1e-9 * std::max(1.0, std::abs(k));
}

double draw_real(const RealDomain& domain, Random& random) {
  const double u = random.real();
  double value = domain.low + u * (domain.high - domain.low);
  if (domain.log) value = std::exp(std::log(domain.low) + u * (std::log(domain.high) - std::log(domain.low)));
  if (!domain.q) return std::clamp(value, domain.low, std::nextafter(domain.high, domain.low));
  const double k = std::round(value / *domain.q);
  if (k <= std::round(domain.low / *domain.q)) return domain.low;
  if (k >= std::round(domain.high / *domain.q)) return domain.high;
  return multiple(k, *domain.q);
}

double draw_normal(const NormalDomain& domain, Random& random) {
  const double u = 1 - random.real();  // (0, 1]
  const double z = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * random.real());
  const double value = domain.mean + domain.sd * z;
  return domain.q ? multiple(std::round(value / *domain.q), *domain.q) : value;
}

// Consumes one real number, monotonically, if the caller's source distributes those evenly; otherwise draws without
// bias.
uint64_t pick(uint64_t below, Random& random, bool by_real) {
  if (!by_real) return random.below(below);
  return std::min(static_cast<uint64_t>(random.real() * static_cast<double>(below)), below - 1);
}

int64_t draw_integer(const IntegerDomain& domain, Random& random, bool by_real) {
  const int64_t q = domain.q.value_or(1);
  const int64_t first = domain.q ? ceil_divide(domain.low, q) : domain.low;
  const int64_t last = domain.q ? floor_divide(domain.high, q) : domain.high - 1;
  if (!domain.log)
    return (first + static_cast<int64_t>(pick(static_cast<uint64_t>(last - first) + 1, random, by_real))) * q;
  const auto low = static_cast<double>(first);
  const auto high = static_cast<double>(q == 1 ? last + 1 : last);
  const double value = std::exp(std::log(low) + random.real() * (std::log(high) - std::log(low)));
  const double k = q == 1 ? std::floor(value) : std::round(value);
  return std::clamp(static_cast<int64_t>(k), first, last) * q;
}

// ---- Drawing a configuration.

class Resolver {
 public:
  // Without a source the seed of the draw is used.
  Resolver(const Space::Draw& draw, const Space::Source& source) : draw_(draw), source_(source) {}

  std::map<std::string, int64_t, std::less<>> grid_digits;
  std::map<std::string, Config, std::less<>> functions;                // Resolved functions by path.
  std::vector<std::pair<std::string, const FunctionDomain*>> pending;  // From the last build.

  Config build(const std::vector<SpaceEntry>& entries, const std::string& path, const std::string& key) {
    Config::Map out;
    out.reserve(entries.size());
    for (const SpaceEntry& entry : entries) {
      if (auto value = build(entry.value, join(path, entry.name), join(key, entry.name)))
        out.emplace_back(entry.name, std::move(*value));
    }
    return Config::of(std::move(out));
  }

 private:
  // The key seeds the value; it differs from the path below an option of a choice.
  std::optional<Config> build(const SpaceNode& node, const std::string& path, const std::string& key) {
    if (node.constant() != nullptr) return *node.constant();
    if (node.map() != nullptr) return build(*node.map(), path, key);
    if (node.list() != nullptr) {
      Config out = Config::list({});
      for (size_t i = 0; i < node.list()->size(); ++i) {
        const std::string index = std::to_string(i);
        out.push_back(build((*node.list())[i], join(path, index), join(key, index)).value_or(Config()));
      }
      return out;
    }
    return std::visit([&](const auto& domain) { return build(domain, path, key); }, *node.domain());
  }
  std::optional<Config> build(const RealDomain& domain, const std::string&, const std::string& key) {
    return with_random(key, [&](Random& random) { return draw_real(domain, random); });
  }
  std::optional<Config> build(const NormalDomain& domain, const std::string&, const std::string& key) {
    return with_random(key, [&](Random& random) { return draw_normal(domain, random); });
  }
  std::optional<Config> build(const IntegerDomain& domain, const std::string&, const std::string& key) {
    return with_random(key, [&](Random& random) { return draw_integer(domain, random, source_ != nullptr); });
  }
  std::optional<Config> build(const ChoiceDomain& domain, const std::string& path, const std::string& key) {
    const size_t chosen =
        with_random(key, [&](Random& random) { return pick(domain.options.size(), random, source_ != nullptr); });
    if (const Config* constant = domain.options[chosen].constant()) return *constant;
    return build(domain.options[chosen], path, fmt::format("{}#{}", key, chosen));
  }
  std::optional<Config> build(const GridDomain& domain, const std::string& path, const std::string& key) {
    const auto digit = static_cast<size_t>(grid_digits.at(path));
    return build(domain.options.at(digit), path, fmt::format("{}#{}", key, digit));
  }
  std::optional<Config> build(const FunctionDomain& domain, const std::string& path, const std::string&) {
    const auto resolved = functions.find(path);
    if (resolved != functions.end()) return resolved->second;
    pending.emplace_back(path, &domain);
    return std::nullopt;
  }

  template <class F>
  std::invoke_result_t<const F&, Random&> with_random(const std::string& key, const F& draw_one) const {
    if (source_) return draw_one(*source_(key));
    SeededRandom random = random_for(draw_, key);
    return draw_one(random);
  }

  const Space::Draw& draw_;
  const Space::Source& source_;
};

void collect_keys(const std::string& key, const SpaceNode& node, std::vector<Space::DrawKey>& out) {
  if (node.map() != nullptr) {
    for (const SpaceEntry& entry : *node.map()) collect_keys(join(key, entry.name), entry.value, out);
  } else if (node.list() != nullptr) {
    for (size_t i = 0; i < node.list()->size(); ++i) collect_keys(join(key, std::to_string(i)), (*node.list())[i], out);
  } else if (node.domain() != nullptr) {
    const auto enter = [&](const std::vector<SpaceNode>& options) {
      for (size_t i = 0; i < options.size(); ++i) collect_keys(fmt::format("{}#{}", key, i), options[i], out);
    };
    const auto* choice = std::get_if<ChoiceDomain>(node.domain());
    const auto* grid = std::get_if<GridDomain>(node.domain());
    if (grid == nullptr && !std::holds_alternative<FunctionDomain>(*node.domain())) out.push_back({key, node.domain()});
    if (choice != nullptr) enter(choice->options);
    if (grid != nullptr) enter(grid->options);
  }
}

template <class Visitor>
void visit_domains(const std::string& path, const SpaceNode& node, const Visitor& visitor) {
  if (node.domain() != nullptr) {
    visitor(path, *node.domain());
  } else if (node.map() != nullptr) {
    for (const SpaceEntry& entry : *node.map()) visit_domains(join(path, entry.name), entry.value, visitor);
  } else if (node.list() != nullptr) {
    for (size_t i = 0; i < node.list()->size(); ++i)
      visit_domains(join(path, std::to_string(i)), (*node.list())[i], visitor);
  }
}

// ---- Validation.

class Validator {
 public:
  Result<void> entries(const std::string& path, const std::vector<SpaceEntry>& entries, bool may_grid) {
    std::set<std::string_view> names;
    for (const SpaceEntry& entry : entries) {
      const std::string here = join(path, entry.name);
      if (entry.name.empty()) return refuse(here, "a parameter has an empty name: give it one");
      if (entry.name.find('.') != std::string::npos) {
        return refuse(
            here,
            fmt::format("\"{}\" has a dot, which separates the names of a path: nest it as {{\"a\", {{{{\"b\", …}}}}}}",
                        entry.name));
      }
      if (!names.insert(entry.name).second) return refuse(here, "the parameter is written twice: remove one");
      VOLADOR_TRY(node(here, entry.value, may_grid));
    }
    return {};
  }

 private:
  static tl::unexpected<Error> refuse(const std::string& path, std::string_view what) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("space{}{}: {}", path.empty() ? "" : ".", path, what));
  }

  Result<void> node(const std::string& path, const SpaceNode& node_in, bool may_grid) {
    if (node_in.map() != nullptr) return entries(path, *node_in.map(), may_grid);
    if (node_in.list() != nullptr) {
      for (size_t i = 0; i < node_in.list()->size(); ++i)
        VOLADOR_TRY(node(join(path, std::to_string(i)), (*node_in.list())[i], may_grid));
      return {};
    }
    if (node_in.domain() == nullptr) return {};
    const Domain& whole = *node_in.domain();
    return std::visit(
        Overload{
            [&](const RealDomain& domain) { return real(path, whole, domain); },
            [&](const NormalDomain& domain) { return normal(path, whole, domain); },
            [&](const IntegerDomain& domain) { return integer(path, whole, domain); },
            [&](const ChoiceDomain& domain) { return options(path, "choice", domain.options); },
            [&](const GridDomain& domain) {
              if (!may_grid)
                return Result<void>(refuse(
                    path, "grid_search inside a choice or another grid_search: move it to a parameter of its own"));
              return options(path, "grid_search", domain.options);
            },
            [&](const FunctionDomain& domain) {
              return domain.function ? Result<void>() : Result<void>(refuse(path, "sample_from got an empty function"));
            }},
        whole);
  }

  Result<void> options(const std::string& path, std::string_view name, const std::vector<SpaceNode>& nodes) {
    if (nodes.empty()) return refuse(path, fmt::format("{} of nothing: give at least one value", name));
    for (size_t i = 0; i < nodes.size(); ++i) VOLADOR_TRY(node(fmt::format("{}[{}]", path, i), nodes[i], false));
    return {};
  }

  static Result<void> real(const std::string& path, const Domain& whole, const RealDomain& domain) {
    const std::string text = to_string(whole);
    if (!std::isfinite(domain.low) || !std::isfinite(domain.high) || !std::isfinite(domain.high - domain.low)) {
      return refuse(path, fmt::format("{}: bounds must be finite numbers", text));
    }
    if (domain.low >= domain.high)
      return refuse(path, fmt::format("{}: the lower bound must be below the upper one", text));
    if (domain.log && domain.low <= 0) {
      return refuse(
          path,
          fmt::format(
              "{}: the lower bound must be above 0 for a logarithm: start at a small positive number, or use {}uniform",
              text, domain.q ? "q" : ""));
    }
    if (!domain.q) return {};
    if (!(*domain.q > 0) || !std::isfinite(*domain.q)) return refuse(path, fmt::format("{}: q must be above 0", text));
    for (const double bound : {domain.low, domain.high}) {
      if (!is_multiple(bound, *domain.q))
        return refuse(path,
                      fmt::format("{}: {} is no multiple of q {}", text, format_real(bound), format_real(*domain.q)));
    }
    return {};
  }

  static Result<void> normal(const std::string& path, const Domain& whole, const NormalDomain& domain) {
    const std::string text = to_string(whole);
    if (!std::isfinite(domain.mean)) return refuse(path, fmt::format("{}: the mean must be a finite number", text));
    if (!(domain.sd > 0) || !std::isfinite(domain.sd))
      return refuse(path, fmt::format("{}: the standard deviation must be above 0", text));
    if (domain.q && (!(*domain.q > 0) || !std::isfinite(*domain.q)))
      return refuse(path, fmt::format("{}: q must be above 0", text));
    return {};
  }

  static Result<void> integer(const std::string& path, const Domain& whole, const IntegerDomain& domain) {
    const std::string text = to_string(whole);
    if (domain.low >= domain.high) {
      return refuse(path, fmt::format("{}: the lower bound must be below the upper one{}", text,
                                      domain.q ? "" : ", which is left out"));
    }
    if (domain.low < -kBoundMax || domain.high > kBoundMax)
      return refuse(path, fmt::format("{}: bounds must lie within ±2^62", text));
    if (domain.log && domain.low < 1)
      return refuse(path, fmt::format("{}: the lower bound must be at least 1 for a logarithm", text));
    if (!domain.q) return {};
    if (*domain.q < 1) return refuse(path, fmt::format("{}: q must be at least 1", text));
    if (ceil_divide(domain.low, *domain.q) > floor_divide(domain.high, *domain.q)) {
      return refuse(path, fmt::format("{}: no multiple of q {} lies within the bounds", text, *domain.q));
    }
    return {};
  }
};

}  // namespace

std::string to_string(const Domain& domain) {
  return std::visit(
      Overload{[](const RealDomain& d) {
                 const std::string q = d.q ? ", " + format_real(*d.q) : "";
                 return fmt::format("{}{}uniform({}, {}{})", d.q ? "q" : "", d.log ? "log" : "", format_real(d.low),
                                    format_real(d.high), q);
               },
               [](const NormalDomain& d) {
                 const std::string q = d.q ? ", " + format_real(*d.q) : "";
                 return fmt::format("{}randn({}, {}{})", d.q ? "q" : "", format_real(d.mean), format_real(d.sd), q);
               },
               [](const IntegerDomain& d) {
                 const std::string q = d.q ? fmt::format(", {}", *d.q) : "";
                 return fmt::format("{}{}randint({}, {}{})", d.q ? "q" : "", d.log ? "log" : "", d.low, d.high, q);
               },
               [](const ChoiceDomain& d) { return fmt::format("choice of {}", d.options.size()); },
               [](const GridDomain& d) { return fmt::format("grid_search of {}", d.options.size()); },
               [](const FunctionDomain&) { return std::string("sample_from"); }},
      domain);
}

SpaceNode::SpaceNode(Constant constant) : value_(std::move(constant.value)) {}
SpaceNode::SpaceNode(Domain domain) : value_(std::move(domain)) {}
SpaceNode::SpaceNode(std::initializer_list<SpaceEntry> entries) : value_(Map(entries)) {}

void Space::set(std::string name, SpaceNode value) {
  for (SpaceEntry& entry : entries_) {
    if (entry.name == name) {
      entry.value = std::move(value);
      return;
    }
  }
  entries_.emplace_back(std::move(name), std::move(value));
}

Result<void> Space::validate() const { return Validator().entries("", entries_, true); }

std::vector<Space::Variable> Space::variables() const {
  std::vector<Variable> out;
  for (const SpaceEntry& entry : entries_) {
    visit_domains(entry.name, entry.value, [&out](const std::string& path, const Domain& domain) {
      out.push_back({path, &domain});
    });
  }
  return out;
}

namespace {

bool has_grid(const SpaceNode& node) {
  if (node.map() != nullptr)
    return std::any_of(node.map()->begin(), node.map()->end(),
                       [](const SpaceEntry& entry) { return has_grid(entry.value); });
  if (node.list() != nullptr) return std::any_of(node.list()->begin(), node.list()->end(), has_grid);
  return node.domain() != nullptr && std::holds_alternative<GridDomain>(*node.domain());
}

// Returns path and number of options of each grid axis, sorted by path.
std::map<std::string, int64_t, std::less<>> grid_axes(const Space& space) {
  std::map<std::string, int64_t, std::less<>> axes;
  const auto& entries = space.entries();
  if (std::none_of(entries.begin(), entries.end(), [](const SpaceEntry& entry) { return has_grid(entry.value); }))
    return axes;
  for (const Space::Variable& variable : space.variables()) {
    if (const auto* grid = std::get_if<GridDomain>(variable.domain))
      axes[variable.path] = static_cast<int64_t>(grid->options.size());
  }
  return axes;
}

}  // namespace

Result<int64_t> Space::grid_size() const {
  int64_t size = 1;
  for (const auto& [path, options] : grid_axes(*this)) {
    size *= options;
    if (size > kGridMax) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format(
              "space: the grid_search axes have more than 2^31 points together (at {}): use choice for some of them",
              path));
    }
  }
  return size;
}

std::vector<Space::DrawKey> Space::draw_keys() const {
  std::vector<DrawKey> out;
  for (const SpaceEntry& entry : entries_) collect_keys(entry.name, entry.value, out);
  return out;
}

Result<Config> Space::sample(const Draw& draw) const { return sample(draw, {}); }

Result<Config> Space::sample(const Draw& draw, const Source& source) const {
  Resolver resolver(draw, source);
  int64_t rest = draw.grid_point;
  for (const auto& [path, options] : grid_axes(*this)) {
    resolver.grid_digits[path] = rest % options;
    rest /= options;
  }
  while (true) {
    resolver.pending.clear();
    Config config = resolver.build(entries_, "", "");
    if (resolver.pending.empty()) return config;
    std::string waiting;
    std::string why;
    bool progress = false;
    for (const auto& [path, domain] : resolver.pending) {
      SeededRandom random = random_for(draw, path);
      try {
        resolver.functions[path] = domain->function(config, random);
        progress = true;
      } catch (const Exception& error) {
        // The exception may be due to a parameter of another function that is not resolved yet.
        waiting += (waiting.empty() ? "" : ", ") + path;
        why = error.error().message;
      } catch (const std::exception& error) {
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("space.{}: the function of sample_from threw: {}", path, error.what()));
      }
    }
    if (!progress) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("space: sample_from of {} cannot be resolved, it may wait for itself or another one: {}", waiting,
                      why));
    }
  }
}

Domain uniform(double low, double high) { return RealDomain{low, high, false, std::nullopt}; }
Domain quniform(double low, double high, double q) { return RealDomain{low, high, false, q}; }
Domain loguniform(double low, double high) { return RealDomain{low, high, true, std::nullopt}; }
Domain qloguniform(double low, double high, double q) { return RealDomain{low, high, true, q}; }
Domain randn(double mean, double sd) { return NormalDomain{mean, sd, std::nullopt}; }
Domain qrandn(double mean, double sd, double q) { return NormalDomain{mean, sd, q}; }
Domain randint(int64_t low, int64_t high) { return IntegerDomain{low, high, false, std::nullopt}; }
Domain qrandint(int64_t low, int64_t high, int64_t q) { return IntegerDomain{low, high, false, q}; }
Domain lograndint(int64_t low, int64_t high) { return IntegerDomain{low, high, true, std::nullopt}; }
Domain qlograndint(int64_t low, int64_t high, int64_t q) { return IntegerDomain{low, high, true, q}; }
Domain choice(std::initializer_list<SpaceNode> options) { return ChoiceDomain{options}; }
Domain grid_search(std::initializer_list<SpaceNode> options) { return GridDomain{options}; }

SpaceNode SpaceNode::of(List items) {
  SpaceNode node;
  node.value_ = std::move(items);
  return node;
}

SpaceNode SpaceNode::of(Map entries) {
  SpaceNode node;
  node.value_ = std::move(entries);
  return node;
}

SpaceNode list(std::initializer_list<SpaceNode> items) { return SpaceNode::of(SpaceNode::List(items)); }

}  // namespace volador::tune
