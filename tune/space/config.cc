#include "tune/space/config.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/quantities.h"
#include "runtime/serialize/codec.h"
#include "tune/refusal.h"

namespace volador::tune {
namespace {

constexpr int kDepthMax = 64;

// Splits "a.b.c" into "a" and "b.c".
std::pair<std::string_view, std::string_view> split(std::string_view path) {
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return {path, {}};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

std::string join_path(std::string_view prefix, std::string_view path) {
  if (prefix.empty()) return std::string(path);
  if (path.empty()) return std::string(prefix);
  return fmt::format("{}.{}", prefix, path);
}

std::string shown(const Config& value) {
  std::string json = value.kind() == Config::Kind::kReal ? format_real(value.real()) : value.to_json();
  if (json.size() > 80) json = json.substr(0, 77) + "…";
  return json;
}

const Config* child(const Config& map, std::string_view name) {
  for (const ConfigEntry& entry : map.entries()) {
    if (entry.name == name) return &entry.value;
  }
  return nullptr;
}

using Json = nlohmann::ordered_json;

Json to_tree(const Config& value) {
  switch (value.kind()) {
    case Config::Kind::kNull:
      return nullptr;
    case Config::Kind::kBoolean:
      return value.boolean();
    case Config::Kind::kInteger:
      return value.integer();
    case Config::Kind::kReal:
      if (const double real = value.real(); std::isfinite(real)) return real;
      return format_real(value.real());
    case Config::Kind::kText:
      return value.text();
    case Config::Kind::kList: {
      Json out = Json::array();
      for (const Config& item : value.items()) out.push_back(to_tree(item));
      return out;
    }
    case Config::Kind::kMap: {
      Json out = Json::object();
      for (const ConfigEntry& entry : value.entries()) out[entry.name] = to_tree(entry.value);
      return out;
    }
  }
  return nullptr;
}

Result<Config> from_tree(const Json& tree, int depth) {
  if (depth > kDepthMax)
    return make_error(ErrorCode::kInvalidArgument, fmt::format("config: at most {} levels of nesting", kDepthMax));
  if (tree.is_boolean()) return Config(tree.get<bool>());
  if (tree.is_number_unsigned()) {
    const auto number = tree.get<uint64_t>();
    if (std::in_range<int64_t>(number)) return Config(static_cast<int64_t>(number));
    return Config(static_cast<double>(number));
  }
  if (tree.is_number_integer()) return Config(tree.get<int64_t>());
  if (tree.is_number_float()) return Config(tree.get<double>());
  if (tree.is_string()) {
    const auto& text = tree.get_ref<const std::string&>();
    if (text == "nan") return Config(std::numeric_limits<double>::quiet_NaN());
    if (text == "inf") return Config(std::numeric_limits<double>::infinity());
    if (text == "-inf") return Config(-std::numeric_limits<double>::infinity());
    return Config(text);
  }
  if (tree.is_array()) {
    Config out = Config::list({});
    for (const Json& item : tree) {
      auto value = from_tree(item, depth + 1);
      if (!value) return value;
      out.push_back(std::move(*value));
    }
    return out;
  }
  if (tree.is_object()) {
    Config::Map entries;
    entries.reserve(tree.size());
    for (const auto& [name, item] : tree.items()) {
      auto value = from_tree(item, depth + 1);
      if (!value) return value;
      entries.emplace_back(name, std::move(*value));
    }
    return Config::of(std::move(entries));
  }
  return Config();
}

}  // namespace

// Not defined in the class: ConfigEntry is incomplete there, and a throwing constructor needs the destructors of all
// alternatives.
Config::Config(Scalar scalar) {
  std::visit([this](auto value) { value_ = value; }, scalar);
}
Config::Config(std::nullptr_t) {}
Config::Config(const char* value) : value_(std::string(value)) {}
Config::Config(std::string value) : value_(std::move(value)) {}
Config::Config(std::string_view value) : value_(std::string(value)) {}

Config::Config(std::initializer_list<ConfigEntry> entries) {
  Map map;
  map.reserve(entries.size());
  for (const ConfigEntry& entry : entries) {
    for (const ConfigEntry& earlier : map) {
      if (earlier.name == entry.name) throw_refusal(fmt::format("config: \"{}\" is written twice", entry.name));
    }
    map.push_back(entry);
  }
  value_ = std::move(map);
}

Config Config::of(Map entries) {
  Config out;
  out.value_ = std::move(entries);
  return out;
}

Config Config::list(std::initializer_list<Config> values) {
  Config out;
  out.value_ = List(values);
  return out;
}

Config Config::map() { return of({}); }

size_t Config::size() const { return is_map() ? entries().size() : items().size(); }

const Config::List& Config::items() const {
  static const List none;
  const List* list = std::get_if<List>(&value_);
  return list != nullptr ? *list : none;
}

const Config::Map& Config::entries() const {
  static const Map none;
  const Map* map = std::get_if<Map>(&value_);
  return map != nullptr ? *map : none;
}

const Config* Config::find(std::string_view path) const {
  const Config* at = this;
  while (at != nullptr && !path.empty()) {
    const auto [name, rest] = split(path);
    at = child(*at, name);
    path = rest;
  }
  return at;
}

const Config& Config::at(std::string_view path) const {
  if (const Config* found = find(path)) return *found;
  // The deepest existing part of the path; the error lists its names.
  const Config* parent = this;
  std::string parent_path(origin());
  std::string_view rest = path;
  while (true) {
    const auto [name, more] = split(rest);
    const Config* next = child(*parent, name);
    if (next == nullptr) break;
    parent = next;
    parent_path = join_path(parent_path, name);
    rest = more;
  }
  const std::string where = parent_path.empty() ? "the configuration" : fmt::format("\"{}\"", parent_path);
  if (!parent->is_map()) {
    throw_refusal(fmt::format("config: there is no \"{}\": {} is {} ({}), not a map", join_path(origin(), path), where,
                              to_string(parent->kind()), shown(*parent)));
  }
  std::string names;
  for (const ConfigEntry& entry : parent->entries()) names += (names.empty() ? "" : ", ") + entry.name;
  throw_refusal(fmt::format("config: there is no \"{}\"; {} has: {}", join_path(origin(), path), where,
                            names.empty() ? "nothing" : names));
}

void Config::refuse_kind(std::string_view path, const Config& found, std::string_view wanted) const {
  const std::string full = join_path(origin(), path);
  std::string hint;
  if (found.kind() == Kind::kReal && wanted == to_string(Kind::kInteger))
    hint = "; read it with real(), or draw it with randint or qrandint";
  throw_refusal(fmt::format("config: {} is {} ({}), expected {}{}",
                            full.empty() ? "the value" : fmt::format("\"{}\"", full), to_string(found.kind()),
                            shown(found), wanted, hint));
}

double Config::real(std::string_view path) const {
  const Config& found = at(path);
  if (const double* value = std::get_if<double>(&found.value_)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&found.value_)) return static_cast<double>(*value);
  refuse_kind(path, found, "a number");
}

int64_t Config::integer(std::string_view path) const {
  const Config& found = at(path);
  if (const int64_t* value = std::get_if<int64_t>(&found.value_)) return *value;
  refuse_kind(path, found, to_string(Kind::kInteger));
}

bool Config::boolean(std::string_view path) const {
  const Config& found = at(path);
  if (const bool* value = std::get_if<bool>(&found.value_)) return *value;
  refuse_kind(path, found, to_string(Kind::kBoolean));
}

std::string Config::text(std::string_view path) const {
  const Config& found = at(path);
  if (const std::string* value = std::get_if<std::string>(&found.value_)) return *value;
  refuse_kind(path, found, to_string(Kind::kText));
}

Config Config::operator[](std::string_view path) const {
  Config copy = at(path);
  copy.at_ = Counted<std::string>::of(join_path(origin(), path));
  return copy;
}

Config Config::operator[](size_t index) const {
  if (!is_list()) refuse_kind({}, *this, to_string(Kind::kList));
  if (index >= size()) {
    throw_refusal(fmt::format("config: there is no \"{}\"; the list has {}", join_path(origin(), std::to_string(index)),
                              counted(size(), "value")));
  }
  Config copy = items()[index];
  copy.at_ = Counted<std::string>::of(join_path(origin(), std::to_string(index)));
  return copy;
}

void Config::set(std::string_view path, Config value) {
  if (path.empty()) throw_refusal("config: a value needs a name to be set under");
  Config* at = this;
  std::string_view rest = path;
  while (true) {
    if (at->is_null()) at->value_ = Map();
    Map* map = std::get_if<Map>(&at->value_);
    if (map == nullptr) {
      throw_refusal(fmt::format("config: cannot set \"{}\": {} ({}) stands on the way, expected a map", path,
                                to_string(at->kind()), shown(*at)));
    }
    const auto [name, more] = split(rest);
    Config* next = nullptr;
    for (ConfigEntry& entry : *map) {
      if (entry.name == name) next = &entry.value;
    }
    if (next == nullptr) next = &map->emplace_back(std::string(name), Config()).value;
    if (more.empty()) {
      *next = std::move(value);
      return;
    }
    at = next;
    rest = more;
  }
}

void Config::push_back(Config value) {
  if (is_null()) value_ = List();
  List* list = std::get_if<List>(&value_);
  if (list == nullptr) refuse_kind({}, *this, to_string(Kind::kList));
  list->push_back(std::move(value));
}

std::vector<std::pair<std::string, Config>> Config::flatten() const {
  std::vector<std::pair<std::string, Config>> out;
  const auto walk = [&out](const auto& self, const std::string& path, const Config& value) -> void {
    if (!value.is_map() || value.size() == 0) {
      if (!path.empty()) out.emplace_back(path, value);
      return;
    }
    for (const ConfigEntry& entry : value.entries()) self(self, join_path(path, entry.name), entry.value);
  };
  walk(walk, "", *this);
  return out;
}

std::string Config::to_json() const {
  // Invalid UTF-8 becomes the replacement character, so that every configuration can be serialised.
  return to_tree(*this).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Config> Config::from_json(std::string_view json) {
  // The callback stops deeply nested input early: nlohmann parses without recursion, but destruction and reading
  // recurse.
  bool deep = false;
  const auto guard = [&deep](int depth, Json::parse_event_t, Json&) {
    if (depth > kDepthMax) deep = true;
    return !deep;
  };
  const Json tree = Json::parse(json.begin(), json.end(), guard, /*allow_exceptions=*/false);
  if (deep)
    return make_error(ErrorCode::kInvalidArgument, fmt::format("config: at most {} levels of nesting", kDepthMax));
  if (tree.is_discarded()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("config: expected JSON, got \"{}\"", json.substr(0, 80)));
  }
  return from_tree(tree, 0);
}

bool Config::operator==(const Config& other) const {
  if (const double* a = std::get_if<double>(&value_)) {
    const double* b = std::get_if<double>(&other.value_);
    return b != nullptr && (*a == *b || (std::isnan(*a) && std::isnan(*b)));
  }
  return value_ == other.value_;
}

void Config::too_large() {
  throw_refusal("config: an integer has 64 bits with a sign; this one is larger: use a real number or text");
}

std::string_view to_string(Config::Kind kind) {
  switch (kind) {
    case Config::Kind::kNull:
      return "nothing";
    case Config::Kind::kBoolean:
      return "a boolean";
    case Config::Kind::kInteger:
      return "an integer";
    case Config::Kind::kReal:
      return "a real number";
    case Config::Kind::kText:
      return "text";
    case Config::Kind::kList:
      return "a list";
    case Config::Kind::kMap:
      return "a map";
  }
  return "nothing";
}

std::string format_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format("{}", value);
}

std::string to_text(const Config& value) {
  if (value.kind() == Config::Kind::kText) return value.text();
  if (value.kind() == Config::Kind::kReal) return format_real(value.real());
  return value.to_json();
}

// [kind, value]: the kind as a number, which distinguishes 2 from 2.0.
void volador_encode(Encoder& encoder, const Config& config) {
  encoder.array(2);
  encoder.unsigned_integer(static_cast<uint64_t>(config.kind()));
  switch (config.kind()) {
    case Config::Kind::kNull:
      return encoder.nil();
    case Config::Kind::kBoolean:
      return encoder.boolean(config.boolean());
    case Config::Kind::kInteger:
      return encoder.integer(config.integer());
    case Config::Kind::kReal:
      return encoder.real(config.real());
    case Config::Kind::kText:
      return encoder.text(config.text());
    case Config::Kind::kList:
      encoder.array(config.size());
      for (const Config& item : config.items()) volador_encode(encoder, item);
      return;
    case Config::Kind::kMap:
      encoder.map(config.size());
      for (const ConfigEntry& entry : config.entries()) {
        encoder.text(entry.name);
        volador_encode(encoder, entry.value);
      }
      return;
  }
}

void volador_decode(Decoder& decoder, Config& config) {
  const Decoder::Depth depth(decoder);
  config = Config();
  if (decoder.failed()) return;
  if (decoder.array() != 2 && !decoder.failed()) return decoder.fail("a configuration value");
  const uint64_t kind = decoder.unsigned_integer();
  if (decoder.failed()) return;
  switch (static_cast<Config::Kind>(kind <= static_cast<uint64_t>(Config::Kind::kMap) ? kind : 255)) {
    case Config::Kind::kNull:
      return decoder.skip();
    case Config::Kind::kBoolean:
      config = Config(decoder.boolean());
      return;
    case Config::Kind::kInteger:
      config = Config(decoder.integer());
      return;
    case Config::Kind::kReal:
      config = Config(decoder.real());
      return;
    case Config::Kind::kText:
      config = Config(decoder.text());
      return;
    case Config::Kind::kList: {
      config = Config::list({});
      const size_t count = decoder.array();
      for (size_t i = 0; i < count && !decoder.failed(); ++i) {
        Config item;
        volador_decode(decoder, item);
        config.push_back(std::move(item));
      }
      return;
    }
    case Config::Kind::kMap: {
      Config::Map entries;
      const size_t count = decoder.map();
      for (size_t i = 0; i < count && !decoder.failed(); ++i) {
        std::string name(decoder.text());
        Config value;
        volador_decode(decoder, value);
        entries.emplace_back(std::move(name), std::move(value));
      }
      config = Config::of(std::move(entries));
      return;
    }
  }
  decoder.fail("a kind of configuration value");
}

}  // namespace volador::tune
