// The search space: the set of possible configurations. Names and ranges are those of Ray Tune.
//
//   Space space = {{"lr", tune::loguniform(1e-4, 1e-1)},
//                  {"batch", tune::choice({16, 32, 64})},
//                  {"model", {{"width", tune::randint(8, 65)}, {"depth", 2}}}};
//
// Ranges are checked by validate(), not at construction, so that errors name the path.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/random.h"
#include "runtime/result.h"
#include "tune/space/config.h"

namespace volador::tune {

class SpaceNode;
struct SpaceEntry;

// Real in [low, high); quantised: a multiple of q in [low, high]. log: uniform in the logarithm.
struct RealDomain {
  double low = 0, high = 1;
  bool log = false;
  std::optional<double> q = std::nullopt;
};
struct NormalDomain {
  double mean = 0, sd = 1;
  std::optional<double> q = std::nullopt;
};
// Integer in [low, high); quantised: a multiple of q in [low, high]; bounds within ±2^62.
struct IntegerDomain {
  int64_t low = 0, high = 1;
  bool log = false;
  std::optional<int64_t> q = std::nullopt;
};
struct ChoiceDomain {
  std::vector<SpaceNode> options;  // May be spaces themselves: conditional parameters.
};
struct GridDomain {
  std::vector<SpaceNode> options;
};
// A function of the parameters resolved before it and of a random source that depends on seed, trial and path only.
struct FunctionDomain {
  std::function<Config(const Config& resolved, Random& random)> function;
};
using Domain = std::variant<RealDomain, NormalDomain, IntegerDomain, ChoiceDomain, GridDomain, FunctionDomain>;
std::string to_string(const Domain& domain);  // "loguniform(0.0001, 0.1)", "choice of 3".

// A constant, a domain, or a list or map of nodes.
class SpaceNode {
 public:
  using List = std::vector<SpaceNode>;
  using Map = std::vector<SpaceEntry>;

  SpaceNode() = default;
  SpaceNode(const SpaceNode&);
  SpaceNode(SpaceNode&&) noexcept;
  SpaceNode& operator=(const SpaceNode&);
  SpaceNode& operator=(SpaceNode&&) noexcept;
  ~SpaceNode();
  SpaceNode(Domain domain);
  SpaceNode(std::initializer_list<SpaceEntry> entries);  // {{"width", tune::randint(8, 65)}, {"depth", 2}}
  template <class T>
  requires(!std::same_as<std::remove_cvref_t<T>, SpaceNode> && !std::same_as<std::remove_cvref_t<T>, Domain> &&
           !std::same_as<std::remove_cvref_t<T>, SpaceEntry> && std::convertible_to<T, Config>) SpaceNode(T&& constant)
      : SpaceNode(Constant{Config(std::forward<T>(constant))}) {}

  static SpaceNode of(List items);  // As list() below.
  static SpaceNode of(Map entries);

  const Config* constant() const { return std::get_if<Config>(&value_); }
  const Domain* domain() const { return std::get_if<Domain>(&value_); }
  const List* list() const { return std::get_if<List>(&value_); }
  const Map* map() const { return std::get_if<Map>(&value_); }

 private:
  struct Constant {
    Config value;
  };
  explicit SpaceNode(Constant constant);
  friend SpaceNode list(std::initializer_list<SpaceNode> items);
  std::variant<Config, Domain, List, Map> value_;
};

struct SpaceEntry {
  SpaceEntry(std::string name_in, SpaceNode value_in) : name(std::move(name_in)), value(std::move(value_in)) {}
  std::string name;
  SpaceNode value;
};

// Defined here because the members of SpaceNode require a complete SpaceEntry.
inline SpaceNode::SpaceNode(const SpaceNode&) = default;
inline SpaceNode::SpaceNode(SpaceNode&&) noexcept = default;
inline SpaceNode& SpaceNode::operator=(const SpaceNode&) = default;
inline SpaceNode& SpaceNode::operator=(SpaceNode&&) noexcept = default;
inline SpaceNode::~SpaceNode() = default;

class Space {
 public:
  Space() = default;
  Space(std::initializer_list<SpaceEntry> entries) : entries_(entries) {}

  const std::vector<SpaceEntry>& entries() const { return entries_; }
  void set(std::string name, SpaceNode value);  // Adds the value, or replaces the value of that name.

  // kInvalidArgument: names path, value, rule and remedy. The other functions require a space that passed validate().
  [[nodiscard]] Result<void> validate() const;

  // The number of points of the grid_search axes crossed; 1 without axes. kInvalidArgument: more than 2^31.
  [[nodiscard]] Result<int64_t> grid_size() const;

  // Returns the configuration of one draw. It depends on the arguments only, and each parameter on its own path, so
  // that adding a parameter does not change the others. grid_point is in [0, grid_size): axes are sorted by path, the
  // first varies fastest. kInvalidArgument: sample_from functions depend on each other in a cycle, or one threw; the
  // message names the path.
  struct Draw {
    uint64_t seed = 0;
    int64_t index = 0;
    int64_t grid_point = 0;
  };
  [[nodiscard]] Result<Config> sample(const Draw& draw) const;

  // As above, but each drawn value takes its randomness from `source`, by key; sample_from functions still use the
  // draw. A value is a monotonic function of the first real() that it consumes; a normal value is a function of two. A
  // key is a path that contains "#i" where it passes through option i of a choice or a grid.
  using Source = std::function<std::unique_ptr<Random>(const std::string& key)>;
  [[nodiscard]] Result<Config> sample(const Draw& draw, const Source& source) const;
  // All values that may be drawn, including those of options not taken, in the order of the space.
  struct DrawKey {
    std::string key;
    const Domain* domain;  // Lives as long as the space is unchanged.
  };
  std::vector<DrawKey> draw_keys() const;

  // Every variable parameter with its path, in the order written; options of choices are not descended into. Paths
  // through a list use the index: "layers.0".
  struct Variable {
    std::string path;
    const Domain* domain;  // Lives as long as the space is unchanged.
  };
  std::vector<Variable> variables() const;

 private:
  std::vector<SpaceEntry> entries_;
};

Domain uniform(double low, double high);                // [low, high)
Domain quniform(double low, double high, double q);     // Multiples of q in [low, high]; low and high must be multiples
                                                        // of q.
Domain loguniform(double low, double high);             // [low, high), uniform in the logarithm; low > 0.
Domain qloguniform(double low, double high, double q);  // Multiples of q in [low, high]; low and high must be multiples
                                                        // of q.
Domain randn(double mean = 0, double sd = 1);
Domain qrandn(double mean, double sd, double q);
Domain randint(int64_t low, int64_t high);  // [low, high)
Domain qrandint(int64_t low, int64_t high,
                int64_t q = 1);                // Multiples of q in [low, high], high included even for q = 1.
Domain lograndint(int64_t low, int64_t high);  // [low, high), low >= 1.
Domain qlograndint(int64_t low, int64_t high, int64_t q = 1);
Domain choice(std::initializer_list<SpaceNode> options);
Domain grid_search(std::initializer_list<SpaceNode> options);
SpaceNode list(std::initializer_list<SpaceNode> items);  // A list of constants or domains.

template <class T>
Domain choice(const std::vector<T>& options) {
  return ChoiceDomain{std::vector<SpaceNode>(options.begin(), options.end())};
}
template <class T>
Domain grid_search(const std::vector<T>& options) {
  return GridDomain{std::vector<SpaceNode>(options.begin(), options.end())};
}

// f(const Config&), f(const Config&, Random&) or f(): returns anything that a Config can hold. The function sees every
// other parameter except the sample_from parameters that depend on it.
template <class F>
Domain sample_from(F function) {
  return FunctionDomain{[function = std::move(function)](const Config& resolved, Random& random) -> Config {
    if constexpr (std::invocable<F&, const Config&, Random&>) {
      return function(resolved, random);
    } else if constexpr (std::invocable<F&, const Config&>) {
      return function(resolved);
    } else {
      static_assert(std::invocable<F&>,
                    "tune::sample_from: the function takes (const tune::Config&), that and a Random&, or nothing");
      return function();
    }
  }};
}

}  // namespace volador::tune
