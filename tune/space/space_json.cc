#include "tune/space/space_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "runtime/nearest_word.h"
#include "tune/overload.h"
#include "tune/refusal.h"

namespace volador::tune {
namespace {

constexpr std::array<std::string_view, 12> kDomains{"uniform",    "quniform",    "loguniform", "qloguniform",
                                                    "randn",      "qrandn",      "randint",    "qrandint",
                                                    "lograndint", "qlograndint", "choice",     "grid_search"};

constexpr std::string_view kConstant = "const";
constexpr std::string_view kFunction = "sample_from";

using Functions = std::vector<FunctionDomain>;

bool names_domain(std::string_view name) {
  return name == kConstant || std::find(kDomains.begin(), kDomains.end(), name) != kDomains.end();
}

std::string join(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

// The numeric arguments of a domain, all checked before the first use.
class Numbers {
 public:
  Numbers(const std::string& path, const std::string& name, const Config& given, std::string_view wanted)
      : given_(given) {
    const auto count = static_cast<size_t>(std::count(wanted.begin(), wanted.end(), ',')) + 1;
    const bool numbers = std::all_of(given.items().begin(), given.items().end(), [](const Config& one) {
      return one.kind() == Config::Kind::kInteger || one.kind() == Config::Kind::kReal;
    });
    if (!given.is_list() || given.size() != count || !numbers)
      throw_refusal(
          fmt::format("space: {}: {}: expected the numbers [{}], got {}", path, name, wanted, given.to_json()));
    if (name.find("randint") == std::string::npos) return;
    for (const Config& one : given.items()) {
      if (one.kind() != Config::Kind::kInteger)
        throw_refusal(fmt::format("space: {}: {}: expected whole numbers, got {}; for others there is {}uniform", path,
                                  name, one.to_json(), name.find("log") == std::string::npos ? "" : "log"));
    }
  }
  double real(size_t at) const { return given_.items()[at].real(); }
  int64_t integer(size_t at) const { return given_.items()[at].integer(); }

 private:
  const Config& given_;
};

SpaceNode node_of(const Config& json, const std::string& path, const Functions& functions);

std::vector<SpaceNode> options_of(const Config& json, const std::string& path, const std::string& name,
                                  const Functions& functions) {
  if (!json.is_list())
    throw_refusal(fmt::format("space: {}: {}: expected a list of options, got {}", path, name, json.to_json()));
  std::vector<SpaceNode> options;
  for (const Config& one : json.items()) options.push_back(node_of(one, path, functions));
  return options;
}

Domain function_of(const Config& json, const std::string& path, const Functions& functions) {
  const bool number = json.kind() == Config::Kind::kInteger && json.integer() >= 0 &&
                      json.integer() < static_cast<int64_t>(functions.size());
  if (!number)
    throw_refusal(fmt::format("space: {}: sample_from: expected the number of a function, below {}, got {}", path,
                              functions.size(), json.to_json()));
  return functions[static_cast<size_t>(json.integer())];
}

Domain domain_of(const std::string& name, const Config& json, const std::string& path, const Functions& functions) {
  if (name == "choice") return ChoiceDomain{options_of(json, path, name, functions)};
  if (name == "grid_search") return GridDomain{options_of(json, path, name, functions)};
  const bool quantised = name.starts_with('q');
  if (name.ends_with("randn")) {
    const Numbers given(path, name, json, quantised ? "mean, sd, q" : "mean, sd");
    return quantised ? qrandn(given.real(0), given.real(1), given.real(2)) : randn(given.real(0), given.real(1));
  }
  const Numbers given(path, name, json, quantised ? "low, high, q" : "low, high");
  if (name == "uniform") return uniform(given.real(0), given.real(1));
  if (name == "quniform") return quniform(given.real(0), given.real(1), given.real(2));
  if (name == "loguniform") return loguniform(given.real(0), given.real(1));
  if (name == "qloguniform") return qloguniform(given.real(0), given.real(1), given.real(2));
  if (name == "randint") return randint(given.integer(0), given.integer(1));
  if (name == "qrandint") return qrandint(given.integer(0), given.integer(1), given.integer(2));
  if (name == "lograndint") return lograndint(given.integer(0), given.integer(1));
  return qlograndint(given.integer(0), given.integer(1), given.integer(2));
}

void check_name(const std::string& name, const std::string& path) {
  if (name.empty() || name.find('.') != std::string::npos)
    throw_refusal(fmt::format(
        "space: {}: a parameter's name is not empty and has no dot, which joins the names of a path; got \"{}\"",
        path.empty() ? "/" : path, name));
}

SpaceNode map_of(const Config& json, const std::string& path, const Functions& functions) {
  Space inner;
  for (const ConfigEntry& entry : json.entries()) {
    check_name(entry.name, path);
    inner.set(entry.name, node_of(entry.value, join(path, entry.name), functions));
  }
  return SpaceNode::of(inner.entries());
}

// [0, 1] after a name is most likely a distribution.
bool is_list_of_scalars(const Config& json) {
  return json.is_list() && json.size() > 0 &&
         std::none_of(json.items().begin(), json.items().end(),
                      [](const Config& one) { return one.is_list() || one.is_map(); });
}

[[noreturn]] void refuse_distribution(const ConfigEntry& entry, const std::string& path) {
  std::vector<std::string> known(kDomains.begin(), kDomains.end());
  known.push_back("const");
  throw_refusal(fmt::format(
      "space: {}: \"{}\" is no distribution{}; known: {}. A list that is a constant is written {{\"const\": {}}}", path,
      entry.name, did_you_mean(entry.name, known), fmt::join(known, ", "), entry.value.to_json()));
}

SpaceNode node_of(const Config& json, const std::string& path, const Functions& functions) {
  if (json.is_map() && json.size() == 1) {
    const ConfigEntry& only = json.entries()[0];
    if (only.name == kConstant) return SpaceNode(only.value);
    if (only.name == kFunction && !functions.empty()) return function_of(only.value, path, functions);
    if (names_domain(only.name)) return domain_of(only.name, only.value, path, functions);
    if (is_list_of_scalars(only.value)) refuse_distribution(only, path);
  }
  if (json.is_map() && json.size() > 0) return map_of(json, path, functions);
  if (!json.is_list() || json.size() == 0) return SpaceNode(json);
  SpaceNode::List items;
  for (size_t at = 0; at < json.size(); ++at)
    items.push_back(node_of(json.items()[at], join(path, std::to_string(at)), functions));
  return SpaceNode::of(std::move(items));
}

Config json_of(const SpaceNode& node, const std::string& path);

Config list_of(const std::vector<SpaceNode>& nodes, const std::string& path) {
  Config out = Config::list({});
  for (const SpaceNode& one : nodes) out.push_back(json_of(one, path));
  return out;
}

Config named(std::string_view name, Config value) {
  Config::Map out;
  out.emplace_back(std::string(name), std::move(value));
  return Config::of(std::move(out));
}

Config json_of(const Domain& domain, const std::string& path) {
  return std::visit(
      Overload{
          [](const RealDomain& one) {
            Config numbers = Config::list({one.low, one.high});
            if (one.q) numbers.push_back(*one.q);
            return named(fmt::format("{}{}uniform", one.q ? "q" : "", one.log ? "log" : ""), std::move(numbers));
          },
          [](const NormalDomain& one) {
            Config numbers = Config::list({one.mean, one.sd});
            if (one.q) numbers.push_back(*one.q);
            return named(one.q ? "qrandn" : "randn", std::move(numbers));
          },
          [](const IntegerDomain& one) {
            Config numbers = Config::list({one.low, one.high});
            if (one.q) numbers.push_back(*one.q);
            return named(fmt::format("{}{}randint", one.q ? "q" : "", one.log ? "log" : ""), std::move(numbers));
          },
          [&](const ChoiceDomain& one) { return named("choice", list_of(one.options, path)); },
          [&](const GridDomain& one) { return named("grid_search", list_of(one.options, path)); },
          [&](const FunctionDomain&) -> Config {
            throw_refusal(fmt::format(
                "space: {}: sample_from is a function of the program and cannot be written as JSON: name its values "
                "with choice, or resolve it where the configuration is used",
                path));
          }},
      domain);
}

// Whether the value, or any part of it, would be parsed or rejected as a domain.
bool reads_as_domain(const Config& value) {
  if (value.is_map() && value.size() == 1 &&
      (names_domain(value.entries()[0].name) || is_list_of_scalars(value.entries()[0].value)))
    return true;
  return std::any_of(value.items().begin(), value.items().end(), reads_as_domain) ||
         std::any_of(value.entries().begin(), value.entries().end(),
                     [](const ConfigEntry& entry) { return reads_as_domain(entry.value); });
}

bool is_constant(const SpaceNode& node) {
  if (node.domain() != nullptr) return false;
  if (node.list() != nullptr) return std::all_of(node.list()->begin(), node.list()->end(), is_constant);
  if (node.map() == nullptr) return true;
  return std::all_of(node.map()->begin(), node.map()->end(),
                     [](const SpaceEntry& entry) { return is_constant(entry.value); });
}

// The value of a node for which is_constant() holds.
Config value_of(const SpaceNode& node) {
  if (node.list() != nullptr) {
    Config out = Config::list({});
    for (const SpaceNode& one : *node.list()) out.push_back(value_of(one));
    return out;
  }
  if (node.map() == nullptr) return *node.constant();
  Config::Map out;
  for (const SpaceEntry& entry : *node.map()) out.emplace_back(entry.name, value_of(entry.value));
  return Config::of(std::move(out));
}

Config json_of(const std::vector<SpaceEntry>& entries, const std::string& path) {
  Config::Map out;
  for (const SpaceEntry& entry : entries) out.emplace_back(entry.name, json_of(entry.value, join(path, entry.name)));
  return Config::of(std::move(out));
}

Config json_of(const SpaceNode& node, const std::string& path) {
  if (node.domain() != nullptr) return json_of(*node.domain(), path);
  if (is_constant(node)) {
    Config value = value_of(node);
    return reads_as_domain(value) ? named(kConstant, std::move(value)) : value;
  }
  if (node.list() != nullptr) return list_of(*node.list(), path);
  if (node.map()->size() == 1 && names_domain(node.map()->front().name)) {
    throw_refusal(fmt::format(
        "space: {}: the parameter \"{}\" would be read as a distribution: give it another name, or one beside it", path,
        node.map()->front().name));
  }
  return json_of(*node.map(), path);
}

}  // namespace

Result<Space> space_from_json(const Config& json) { return space_with_functions(json, {}); }

Result<Space> space_with_functions(const Config& json, const std::vector<FunctionDomain>& functions) {
  if (!json.is_map())
    return refuse(
        fmt::format("space: expected an object of parameters, as {{\"lr\": {{\"loguniform\": [1e-4, 0.1]}}}}, got {}",
                    to_string(json.kind())));
  try {
    Space space;
    for (const ConfigEntry& entry : json.entries()) {
      check_name(entry.name, "");
      space.set(entry.name, node_of(entry.value, entry.name, functions));
    }
    VOLADOR_TRY(space.validate());
    return space;
  } catch (const Exception& error) {
    return make_error(error.error());
  }
}

Result<Config> space_to_json(const Space& space) {
  try {
    return json_of(space.entries(), "");
  } catch (const Exception& error) {
    return make_error(error.error());
  }
}

}  // namespace volador::tune
