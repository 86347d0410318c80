#include "tune/space/given_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tune/refusal.h"

namespace volador::tune {
namespace {

const SpaceEntry* entry_of(const std::vector<SpaceEntry>& entries, const std::string& name) {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const SpaceEntry& one) { return one.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

std::string join_names(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

class GivenReader {
 public:
  explicit GivenReader(std::string_view what) : what_(what) {}

  // `whole`: all names are required, since nothing is drawn for missing ones.
  Result<Config> map(const std::string& path, const std::vector<SpaceEntry>& entries, const Config& value,
                     bool whole) const {
    if (!value.is_map()) return wrong(path, value, "expected a map");
    if (whole && value.size() != entries.size()) return wrong(path, value, "an option of a choice is given whole");
    Config::Map out;
    for (const ConfigEntry& entry : value.entries()) {
      const std::string here = join_names(path, entry.name);
      const SpaceEntry* const in = entry_of(entries, entry.name);
      if (in == nullptr) return wrong(here, entry.value, "the space has no such parameter");
      auto read = node(here, in->value, entry.value, whole);
      if (!read) return read;
      out.emplace_back(entry.name, std::move(*read));
    }
    return Config::of(std::move(out));
  }

 private:
  tl::unexpected<Error> wrong(const std::string& path, const Config& value, const std::string& rule) const {
    return refuse(fmt::format("{}: {}{}: {}", what_, path.empty() ? "" : path + " is ", to_text(value), rule));
  }

  Result<Config> node(const std::string& path, const SpaceNode& in, const Config& value, bool whole) const {
    if (in.map() != nullptr) return map(path, *in.map(), value, whole);
    if (in.constant() != nullptr) {
      if (same(*in.constant(), value)) return *in.constant();
      return wrong(path, value, fmt::format("the space has the constant {} there", to_text(*in.constant())));
    }
    if (in.domain() == nullptr) return value;
    auto fitting = std::visit([&](const auto& domain) { return fit(domain, value); }, *in.domain());
    if (fitting) return std::move(*fitting);
    return wrong(path, value, fmt::format("expected a value of {}", to_string(*in.domain())));
  }

  static std::optional<double> number(const Config& value) {
    const bool is_number = value.kind() == Config::Kind::kReal || value.kind() == Config::Kind::kInteger;
    return is_number ? std::optional(value.real()) : std::nullopt;
  }
  static bool same(const Config& constant, const Config& value) {
    if (constant == value) return true;
    return constant.kind() == Config::Kind::kReal && number(value) && *number(value) == constant.real();
  }

  std::optional<Config> fit(const RealDomain& domain, const Config& value) const {
    const auto real = number(value);
    return real && *real >= domain.low && *real <= domain.high ? std::optional(Config(*real)) : std::nullopt;
  }
  std::optional<Config> fit(const IntegerDomain& domain, const Config& value) const {
    if (value.kind() != Config::Kind::kInteger || value.integer() < domain.low) return std::nullopt;
    const bool fits = domain.q ? value.integer() <= domain.high : value.integer() < domain.high;
    return fits ? std::optional(value) : std::nullopt;
  }
  std::optional<Config> fit(const NormalDomain&, const Config& value) const {
    const auto real = number(value);
    return real && std::isfinite(*real) ? std::optional(Config(*real)) : std::nullopt;
  }
  std::optional<Config> fit(const FunctionDomain&, const Config& value) const { return value; }
  std::optional<Config> fit(const ChoiceDomain& domain, const Config& value) const {
    return any(domain.options, value);
  }
  std::optional<Config> fit(const GridDomain& domain, const Config& value) const { return any(domain.options, value); }
  std::optional<Config> any(const std::vector<SpaceNode>& options, const Config& value) const {
    for (const SpaceNode& option : options) {
      if (auto read = node("", option, value, true)) return std::move(*read);
    }
    return std::nullopt;
  }

  const std::string_view what_;
};

void lay_map_over(Config& config, const Config& given, const std::vector<SpaceEntry>& entries,
                  const std::string& path) {
  for (const ConfigEntry& entry : given.entries()) {
    const std::string here = join_names(path, entry.name);
    const SpaceEntry* const in = entry_of(entries, entry.name);
    if (in != nullptr && in->value.map() != nullptr) {
      lay_map_over(config, entry.value, *in->value.map(), here);
    } else {
      config.set(here, entry.value);
    }
  }
}

}  // namespace

Result<Config> given_config(std::string_view what, const Space& space, const Config& given) {
  return GivenReader(what).map("", space.entries(), given, false);
}

void lay_over(Config& config, const Config& given, const Space& space) {
  lay_map_over(config, given, space.entries(), "");
}

Result<Config> completed_config(std::string_view what, const Space& space, const Config& given, Random& random) {
  auto read = given_config(what, space, given);
  if (!read) return read;
  const auto grid = space.grid_size();
  if (!grid) return make_error(grid.error());
  const uint64_t seed = random.next();
  const auto point = static_cast<int64_t>(seed % static_cast<uint64_t>(*grid));
  auto config = space.sample({.seed = seed, .index = 0, .grid_point = point});
  if (config) lay_over(*config, *read, space);
  return config;
}

Result<Config> changed_config(std::string_view what, const Space& space, const Config& like, const Config& given,
                              Random& random) {
  const auto read = given_config(what, space, given);
  if (!read) return read;
  Config config = like;
  lay_over(config, *read, space);
  auto whole = completed_config(fmt::format("{} of the trial", what), space, config, random);
  if (whole) return whole;
  return refuse(whole.error().message + ". Its scheduler has set that value; give another one");
}

}  // namespace volador::tune
