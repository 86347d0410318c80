#include "head/read_model/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "head/kernel/wire.h"

namespace volador::head {
namespace {

constexpr size_t kListedMax = 5;  // Matches listed in a message.
constexpr size_t kStartMin = 2;   // Minimum length of a prefix of an id.

}  // namespace

std::string Names::in_words(const Named& named) const {
  if (named.trial != nullptr) {
    const std::string& name = named.trial->name();
    return fmt::format("trial {}/{} ({}{}{})", named.experiment->name, named.trial->trial_id(), name,
                       name.empty() ? "" : ", ", named.trial->status());
  }
  if (const Actor* actor = tables_.actors.find(named.actor)) {
    const std::string name = full_name(actor->spec);
    return fmt::format("actor {} ({}{}{}, {})", short_id(actor->id), actor->display(), name.empty() ? "" : ", ", name,
                       state_name(actor->state));
  }
  if (const Group* group = tables_.groups.find(named.group)) return group->display();
  if (!named.group.is_nil()) return fmt::format("placement group {} (removed)", short_id(named.group));
  const Node* node = tables_.nodes.find(named.node);
  return node == nullptr ? "" : fmt::format("node {} ({}, {})", node->name, short_id(node->id), to_string(node->state));
}

void Names::add_actors_named(std::string_view text, std::vector<Named>& found) const {
  const auto one = [&](const Actor& actor) { found.push_back({.actor = actor.id}); };
  if (const Actor* actor = tables_.actors.named(kDefaultNamespace, text)) return one(*actor);
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    if (const Actor* actor = tables_.actors.named(text.substr(0, slash), text.substr(slash + 1))) return one(*actor);
  }
  std::vector<const Actor*> all, living;
  for (const auto& [id, actor] : tables_.actors.all()) {
    if (actor.spec.name() != text && actor.spec.display() != text && full_name(actor.spec) != text) continue;
    all.push_back(&actor);
    if (!actor.is_dead()) living.push_back(&actor);
  }
  if (living.size() == 1) return one(*living.front());
  for (const Actor* actor : all) one(*actor);
}

Error Names::unknown(std::string_view text) {
  return {ErrorCode::kNotFound, fmt::format("\"{}\": no actor, trial, placement group or node has this name or id; see "
                                            "volador list actors, trials, groups or nodes",
                                            text)};
}

Result<Named> Names::trial_of_run(std::string_view text) const {
  const size_t slash = text.find('/');
  const auto run = tables_.experiments.resolve(text.substr(0, slash));
  if (!run) return make_error(run.error());
  const auto trial = ExperimentTable::resolve_trial(**run, text.substr(slash + 1));
  if (!trial) return make_error(trial.error());
  return Named{.experiment = *run, .trial = *trial};
}

Result<Named> Names::resolve(std::string_view text) const {
  if (text.empty())
    return make_error(ErrorCode::kNotFound, "expected an id or a name, got nothing; volador list shows them");
  if (const auto bytes = parse_id_bytes(text); bytes && tables_.actors.find(ActorId(*bytes)) != nullptr)
    return Named{.actor = ActorId(*bytes)};
  std::vector<Named> found;
  // Whole names and ids take precedence over prefixes.
  add_actors_named(text, found);
  for (const auto& [experiment, row] : tables_.experiments.find_trials(text, ExperimentTable::Match::kWhole))
    found.push_back({.experiment = experiment, .trial = row});
  if (const Group* group = tables_.groups.named(text)) found.push_back({.group = group->id});
  if (const auto node = tables_.nodes.named_or_whole_id(text)) found.push_back({.node = *node});
  std::optional<Error> of_run;
  if (found.empty() && text.find('/') != std::string_view::npos) {
    auto trial = trial_of_run(text);
    if (trial) return trial;
    of_run = std::move(trial).error();
  }
  if (found.empty() && text.size() >= kStartMin) {
    for (const auto& [id, actor] : tables_.actors.all()) {
      if (to_string(id).starts_with(text)) found.push_back({.actor = id});
    }
    for (const auto& [experiment, row] : tables_.experiments.find_trials(text, ExperimentTable::Match::kStart))
      found.push_back({.experiment = experiment, .trial = row});
    for (const GroupId group : tables_.groups.starting_with(text)) found.push_back({.group = group});
    for (const auto& [id, node] : tables_.nodes.all()) {
      if (to_string(id).starts_with(text)) found.push_back({.node = id});
    }
  }
  if (found.size() == 1) return found.front();
  if (found.empty() && of_run) return make_error(std::move(*of_run));
  if (found.empty()) return make_error(unknown(text));
  std::string matches;
  for (size_t i = 0; i < std::min(found.size(), kListedMax); ++i) matches += "\n  " + in_words(found[i]);
  if (found.size() > kListedMax) matches += fmt::format("\n  and {} more", found.size() - kListedMax);
  return make_error(ErrorCode::kNotFound,
                    fmt::format("\"{}\": {} match:{}\ngive more of the id, or run/trial, or namespace/name", text,
                                found.size(), matches));
}

}  // namespace volador::head
