#include "tune/execution/trial_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace volador::tune {
namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-_.=+,@").find(c) != std::string_view::npos;
}

void add_paths(const std::string& path, const SpaceNode& node, std::set<std::string>& paths) {
  const auto add_all = [&](const std::vector<SpaceNode>& options) {
    for (const SpaceNode& option : options) {
      if (option.map() != nullptr) add_paths(path, option, paths);
    }
  };
  if (const auto* map = node.map()) {
    for (const SpaceEntry& entry : *map) add_paths(path + "." + entry.name, entry.value, paths);
    return;
  }
  paths.insert(path);
  if (const Domain* domain = node.domain()) {
    if (const auto* choice = std::get_if<ChoiceDomain>(domain)) add_all(choice->options);
    if (const auto* grid = std::get_if<GridDomain>(domain)) add_all(grid->options);
  }
}

std::set<std::string> parameters_of(const Space& space) {
  std::set<std::string> paths;
  for (const SpaceEntry& entry : space.entries()) add_paths(entry.name, entry.value, paths);
  return paths;
}

std::string value_text(const Config* value) {
  if (value == nullptr) return "none";
  if (value->kind() == Config::Kind::kReal) return fmt::format("{:.4g}", value->real());
  return to_text(*value);
}

}  // namespace

Result<NameTemplate> NameTemplate::parse(std::string_view option, std::string_view text, const Space& space) {
  const std::set<std::string> parameters = parameters_of(space);
  const auto refuse = [&](const std::string& why) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: \"{}\": {}", option, text, why));
  };
  NameTemplate made;
  std::string plain;
  const auto end_plain = [&] {
    if (!plain.empty()) made.parts_.push_back({Part::Kind::kText, std::exchange(plain, {})});
  };
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool twice = at + 1 < text.size() && text[at + 1] == c;
    if ((c == '{' || c == '}') && twice) {
      plain += c;
      ++at;
      continue;
    }
    if (c == '}') return refuse("a } without its {; write }} for a brace");
    if (c != '{') {
      plain += c;
      continue;
    }
    const size_t end = text.find('}', at);
    if (end == std::string_view::npos) return refuse("a { without its }; write {{ for a brace");
    const std::string field(text.substr(at + 1, end - at - 1));
    end_plain();
    at = end;
    if (field == "id") {
      made.parts_.push_back({Part::Kind::kId, {}});
    } else if (field == "index") {
      made.parts_.push_back({Part::Kind::kIndex, {}});
    } else if (field == "experiment") {
      made.parts_.push_back({Part::Kind::kExperiment, {}});
    } else if (parameters.contains(field)) {
      made.parts_.push_back({Part::Kind::kParameter, field});
    } else {
      std::string known = "{id}, {index}, {experiment}";
      for (const std::string& path : parameters) known += ", {" + path + "}";
      return refuse(fmt::format("there is no field {{{}}}; there are: {}", field, known));
    }
  }
  end_plain();
  const bool id_alone = made.parts_.size() == 1 && made.parts_[0].kind == Part::Kind::kId;
  if (id_alone) made.parts_.clear();
  if (made.parts_.empty() && !id_alone && !text.empty()) return refuse("it names nothing");
  return made;
}

Result<NameTemplate> NameTemplate::parse_folder(std::string_view option, std::string_view text, const Space& space) {
  auto made = parse(option, text, space);
  if (!made || made->is_id()) return made;
  const bool has_id = std::any_of(made->parts_.begin(), made->parts_.end(),
                                  [](const Part& part) { return part.kind == Part::Kind::kId; });
  if (!has_id) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "{}: \"{}\": it must have {{id}}, by which a trial's folder is found and is no other one's: \"{}_{{id}}\"",
            option, text, text));
  }
  if (text.front() == '.')
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: \"{}\": a folder that begins with a dot is hidden", option, text));
  return made;
}

std::string NameTemplate::fill(std::string_view experiment, const Trial& trial) const {
  if (is_id()) return to_string(trial.id);
  std::string name;
  for (const Part& part : parts_) {
    std::string text;
    switch (part.kind) {
      case Part::Kind::kText:
        text = part.text;
        break;
      case Part::Kind::kId:
        text = to_string(trial.id);
        break;
      case Part::Kind::kIndex:
        text = std::to_string(trial.index);
        break;
      case Part::Kind::kExperiment:
        text = experiment;
        break;
      case Part::Kind::kParameter:
        text = value_text(trial.config.find(part.text));
        break;
    }
    for (const char c : text) name += is_plain(c) ? c : '_';
  }
  if (name.size() <= kBytesMax) return name;
  const std::string id = "_" + to_string(trial.id);
  return name.substr(0, kBytesMax - id.size()) + id;
}

}  // namespace volador::tune
