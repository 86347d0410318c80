#include "experiments/models/model_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "experiments/core/running_experiment.h"
#include "experiments/core/shared_rules.h"
#include "runtime/nearest_word.h"
#include "runtime/number_key.h"
#include "runtime/quantities.h"
#include "runtime/utf8.h"
#include "tune/space/config.h"

namespace volador::experiments {
namespace {

constexpr size_t kAliasMax = 64, kAliasesMost = 100;
constexpr size_t kMetadataMax = 64 << 10;
constexpr int kModelRowsDefault = 1000, kModelRowsMost = 10'000;
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kLastModelKey = "last";

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kDigits) == std::string_view::npos;
}

// Letters of other alphabets count as letters.
bool has_only(std::string_view text, std::string_view signs) {
  return std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           static_cast<unsigned char>(c) >= 0x80 || signs.find(c) != std::string_view::npos;
  });
}

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Result<void> check_alias(const std::string& alias) {
  if (!alias.empty() && alias.size() <= kAliasMax && has_only(alias, "._-") && plain_text(alias, kAliasMax) == alias &&
      !is_number(alias))
    return {};
  return make_error(invalid(fmt::format(
      "alias: expected letters, digits and ._- , at most {} bytes and not only digits, got \"{}\"", kAliasMax, alias)));
}

// Texts of a model or a version.
Result<void> check_texts(std::initializer_list<std::pair<std::string_view, const std::string*>> fields) {
  for (const auto& [field, text] : fields) {
    if (text->size() > kTextMax)
      return make_error(invalid(fmt::format("{}: expected at most {} bytes, got {}", field, kTextMax, text->size())));
  }
  return {};
}

// As it is kept.
Result<std::string> metadata_of(const std::string& given) {
  if (given.empty()) return std::string("{}");
  if (given.size() > kMetadataMax)
    return make_error(invalid(fmt::format("metadata: expected at most {} bytes, got {}", kMetadataMax, given.size())));
  const auto parsed = tune::Config::from_json(given);
  if (!parsed || parsed->kind() != tune::Config::Kind::kMap)
    return make_error(invalid("metadata: expected a JSON object, got " + given.substr(0, 200)));
  return parsed->to_json();
}

template <class Request>
bool is_repeated(const std::string& request_id, const Request& request) {
  return !request_id.empty() && request_id == request.request_id();
}

std::string shown_name(const std::string& name) {
  return name.find(' ') == std::string::npos ? name : "\"" + name + "\"";
}

template <class Row>
bool parse_model_row(std::string_view value, Row& row) {
  return row.ParseFromArray(value.data(), static_cast<int>(value.size()));
}

enum class ModelOrder { kName, kCreated, kChanged, kVersions };
struct ModelOrdering {
  ModelOrder by = ModelOrder::kChanged;
  bool descending = true;
};
Result<ModelOrdering> ordering_from(const std::string& text) {
  if (text.empty()) return ModelOrdering{};
  static const std::vector<std::string> kOrders{"name", "created", "changed", "versions"};
  const bool descending = text.starts_with('-');
  const std::string word = text.substr(descending ? 1 : 0);
  const auto found = std::ranges::find(kOrders, word);
  if (found == kOrders.end())
    return make_error(
        invalid(fmt::format("order: expected name, created, changed or versions, with - before it for the highest "
                            "first, got \"{}\"{}",
                            text, did_you_mean(word, kOrders))));
  return ModelOrdering{.by = static_cast<ModelOrder>(found - kOrders.begin()), .descending = descending};
}

}  // namespace

ModelRegistry::ModelRegistry(const ModelLimits& limits, ExperimentCore& experiments)
    : limits_(limits), experiments_(experiments) {
  experiments_.set_keeper([this](const std::string& checkpoint) { return keeper_of(checkpoint); });
}

// ---- journal ----

bool ModelRegistry::has_table(std::string_view table) {
  return table == kModelsTable || table == kModelVersionsTable || table == kModelsHeadTable;
}

bool ModelRegistry::load(std::string_view table, std::string_view key, std::string_view value) {
  if (table == kModelsTable) {
    Record row;
    if (!parse_model_row(value, row) || row.info().id() <= 0) return false;
    models_[row.info().id()].record = std::move(row);
    return true;
  }
  if (table == kModelVersionsTable) {
    VersionRecord row;
    if (!parse_model_row(value, row) || row.model() <= 0 || row.info().version() <= 0) return false;
    const int64_t version = row.info().version();
    models_[row.model()].versions[version] = std::move(row);
    return true;
  }
  if (table != kModelsHeadTable || key != kLastModelKey) return false;
  const auto last = parse_integer(value);
  if (!last) return false;
  last_model_ = std::max(last_model_, *last);
  return true;
}

void ModelRegistry::start() {
  std::erase_if(models_, [](const auto& one) { return one.second.record.info().id() == 0; });
  for (const auto& [id, entry] : models_) {
    last_model_ = std::max(last_model_, id);
    by_name_[entry.record.info().name()] = id;
    for (const auto& [version, record] : entry.versions)
      by_checkpoint_[record.info().checkpoint()].insert({id, version});
  }
}

void ModelRegistry::put(const Entry& entry) {
  actions_.rows.push_back(
      {std::string(kModelsTable), number_key(entry.record.info().id()), entry.record.SerializeAsString()});
}

void ModelRegistry::put(const VersionRecord& record) {
  actions_.rows.push_back({std::string(kModelVersionsTable),
                           number_key(record.model()) + number_key(record.info().version()),
                           record.SerializeAsString()});
}

void ModelRegistry::event(std::string text, std::vector<std::pair<std::string, std::string>> fields) {
  actions_.events.push_back({std::move(text), std::move(fields)});
}

ModelActions ModelRegistry::take() { return std::exchange(actions_, {}); }

void ModelRegistry::check_invariants() const {
  size_t versions = 0, named = 0;
  for (const auto& [id, entry] : models_) {
    const v1::Model& info = entry.record.info();
    VOLADOR_CHECK(id == info.id() && id <= last_model_, std::to_string(id));
    const auto found = by_name_.find(info.name());
    VOLADOR_CHECK(found != by_name_.end() && found->second == id, info.name());
    for (const auto& [alias, version] : info.aliases()) VOLADOR_CHECK(entry.versions.contains(version), alias);
    for (const auto& [version, record] : entry.versions) {
      VOLADOR_CHECK(version == record.info().version() && version <= entry.record.last_version(), info.name());
      const auto checkpoint = by_checkpoint_.find(record.info().checkpoint());
      VOLADOR_CHECK(checkpoint != by_checkpoint_.end() && checkpoint->second.contains({id, version}), info.name());
      ++versions;
    }
  }
  for (const auto& [checkpoint, keys] : by_checkpoint_) named += keys.size();
  VOLADOR_CHECK(versions == named && by_name_.size() == models_.size());
}

// ---- look-up, access, rules ----

Result<int64_t> ModelRegistry::id_of(const std::string& model) const {
  if (const auto found = by_name_.find(model); found != by_name_.end()) return found->second;
  if (is_number(model)) {
    const auto id = parse_integer(model);
    if (id && models_.contains(*id)) return *id;
  }
  std::vector<std::string> names;
  for (const auto& [name, id] : by_name_) names.push_back(name);
  const std::string hint = did_you_mean(model, names);
  return make_error(ErrorCode::kNotFound, fmt::format("there is no model \"{}\"{}", model,
                                                      hint.empty() ? "; `volador model list` shows the models" : hint));
}

Result<void> ModelRegistry::check_open(const Entry& entry) const {
  if (!entry.record.info().archived()) return {};
  const std::string name = shown_name(entry.record.info().name());
  return make_error(
      invalid(fmt::format("model {} is archived; `volador model unarchive {}` lets it be changed again", name, name)));
}

Result<ModelRegistry::Entry*> ModelRegistry::to_change(std::string_view verb, const std::string& model,
                                                       const ExperimentRequester& by) {
  const auto id = id_of(model);
  if (!id) return make_error(id.error());
  Entry& entry = models_.at(*id);
  const v1::Model& info = entry.record.info();
  const std::string thing = "model " + shown_name(info.name());
  VOLADOR_TRY(
      check_owner_of(fmt::format("{} {}", verb, thing), thing, {.token_id = info.owner(), .user = info.user()}, by));
  return &entry;
}

// `id`: the model that is to have it; 0: a new one.
Result<void> ModelRegistry::check_name(const std::string& name, int64_t id) const {
  const bool is_name = !name.empty() && name.size() <= kNameMax && has_only(name, " ._-") && !is_number(name) &&
                       name.front() != ' ' && name.back() != ' ' && plain_text(name, kNameMax) == name;
  if (!is_name)
    return make_error(invalid(fmt::format(
        "name: expected letters, digits, spaces and ._- , at most {} bytes, not only digits and no space at "
        "either end, got \"{}\"",
        kNameMax, name.substr(0, 2 * kNameMax))));
  const auto found = by_name_.find(name);
  if (found == by_name_.end() || found->second == id) return {};
  return make_error(
      invalid(fmt::format("name: model {} has the name \"{}\" already; names are unique{}", found->second, name,
                          models_.at(found->second).record.info().archived() ? "; it is archived" : "")));
}

Result<void> ModelRegistry::check_version(const Entry& entry, int64_t version) const {
  if (entry.versions.contains(version)) return {};
  const std::string name = shown_name(entry.record.info().name());
  if (entry.versions.empty())
    return make_error(ErrorCode::kNotFound,
                      fmt::format("model {} has no version {}; it has no versions", name, version));
  return make_error(ErrorCode::kNotFound, fmt::format("model {} has no version {}; its newest is {}", name, version,
                                                      entry.versions.rbegin()->first));
}

Result<int64_t> ModelRegistry::version_named(const Entry& entry, const std::string& version) const {
  const v1::Model& info = entry.record.info();
  if (version.empty()) {
    if (!entry.versions.empty()) return entry.versions.rbegin()->first;
    return make_error(ErrorCode::kNotFound, fmt::format("model {} has no versions yet", shown_name(info.name())));
  }
  if (is_number(version)) {
    const auto number = parse_integer(version);
    if (!number) return make_error(number.error());
    VOLADOR_TRY(check_version(entry, *number));
    return *number;
  }
  if (const auto found = info.aliases().find(version); found != info.aliases().end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [alias, number] : info.aliases()) names.push_back(alias);
  std::ranges::sort(names);
  std::string known;
  for (const std::string& alias : names) known += (known.empty() ? "" : ", ") + alias;
  const std::string hint = did_you_mean(version, names);
  return make_error(ErrorCode::kNotFound,
                    fmt::format("model {} has no alias \"{}\"{}", shown_name(info.name()), version,
                                !hint.empty()   ? hint
                                : known.empty() ? std::string("; it has no aliases")
                                                : "; it has " + known));
}

v1::Model ModelRegistry::shown(const Entry& entry) const {
  v1::Model shown = entry.record.info();
  shown.set_versions(static_cast<int64_t>(entry.versions.size()));
  shown.set_newest_version(entry.versions.empty() ? 0 : entry.versions.rbegin()->first);
  return shown;
}

v1::ModelVersion ModelRegistry::shown(const Entry& entry, const VersionRecord& record,
                                      const ExperimentRequester& by) const {
  v1::ModelVersion shown = record.info();
  shown.set_model(entry.record.info().name());
  if (auto checkpoint = experiments_.checkpoint(shown.checkpoint(), by))
    *shown.mutable_checkpoint_info() = std::move(*checkpoint);
  std::vector<std::string> aliases;
  for (const auto& [alias, version] : entry.record.info().aliases()) {
    if (version == shown.version()) aliases.push_back(alias);
  }
  std::ranges::sort(aliases);
  *shown.mutable_aliases() = {aliases.begin(), aliases.end()};
  return shown;
}

std::string ModelRegistry::keeper_of(const std::string& checkpoint) const {
  const auto found = by_checkpoint_.find(checkpoint);
  if (found == by_checkpoint_.end()) return {};
  const auto& [model, version] = *found->second.begin();
  return fmt::format("version {} of model {}", version, shown_name(models_.at(model).record.info().name()));
}

// ---- models ----

Result<v1::Model> ModelRegistry::create(const v1::CreateModelRequest& request, const ExperimentRequester& by,
                                        int64_t now_ms) {
  const v1::Model& given = request.model();
  if (const auto known = by_name_.find(given.name()); known != by_name_.end()) {
    const Entry& entry = models_.at(known->second);
    if (is_repeated(entry.record.request_id(), request)) return shown(entry);
  }
  VOLADOR_TRY(check_name(given.name(), 0));
  VOLADOR_TRY(check_texts({{"description", &given.description()}, {"notes", &given.notes()}}));
  VOLADOR_TRY(check_words("workspace", given.workspace(), 0, kNameMax));
  const auto labels = changed_labels({}, given.labels(), {});
  if (!labels) return make_error(labels.error());
  const auto metadata = metadata_of(given.metadata());
  if (!metadata) return make_error(metadata.error());
  if (models_.size() >= limits_.models)
    return make_error(
        invalid(fmt::format("the registry has {} models, the most that it takes; delete some first", models_.size())));
  const int64_t id = ++last_model_;
  Entry& entry = models_[id];
  entry.record.set_request_id(request.request_id());
  v1::Model& made = *entry.record.mutable_info();
  made.set_id(id);
  made.set_name(given.name());
  made.set_description(given.description());
  made.set_notes(given.notes());
  *made.mutable_labels() = {labels->begin(), labels->end()};
  made.set_metadata(*metadata);
  made.set_workspace(given.workspace());
  made.set_user(by.user);
  made.set_owner(by.token_id);
  made.set_created_ms(now_ms);
  made.set_changed_ms(now_ms);
  by_name_[made.name()] = id;
  put(entry);
  event("model was created", {{"model", entry.record.info().name()}, {"by", name_of(by)}});
  return shown(entry);
}

Result<v1::Model> ModelRegistry::get(const std::string& model) const {
  const auto id = id_of(model);
  if (!id) return make_error(id.error());
  return shown(models_.at(*id));
}

Result<v1::ListModelsReply> ModelRegistry::list(const v1::ListModelsRequest& request) const {
  const auto ordering = ordering_from(request.order());
  if (!ordering) return make_error(ordering.error());
  const auto wanted = [&](const v1::Model& info) {
    if (info.archived() && !request.archived()) return false;
    if (!request.user().empty() && info.user() != request.user()) return false;
    if (!request.workspace().empty() && info.workspace() != request.workspace()) return false;
    if (info.name().find(request.name()) == std::string::npos) return false;
    return std::ranges::all_of(request.labels(), [&](const std::string& label) {
      return std::ranges::find(info.labels(), label) != info.labels().end();
    });
  };
  std::vector<const Entry*> found;
  for (const auto& [id, entry] : models_) {
    if (wanted(entry.record.info())) found.push_back(&entry);
  }
  const auto is_before = [&](const Entry* a, const Entry* b) {
    const v1::Model &one = a->record.info(), &other = b->record.info();
    switch (ordering->by) {
      case ModelOrder::kName:
        return one.name() < other.name();
      case ModelOrder::kCreated:
        return one.id() < other.id();
      case ModelOrder::kVersions:
        return std::pair(a->versions.size(), one.id()) < std::pair(b->versions.size(), other.id());
      case ModelOrder::kChanged:
        break;
    }
    return std::pair(one.changed_ms(), one.id()) < std::pair(other.changed_ms(), other.id());
  };
  std::ranges::sort(
      found, [&](const Entry* a, const Entry* b) { return ordering->descending ? is_before(b, a) : is_before(a, b); });
  v1::ListModelsReply reply;
  reply.set_total(static_cast<int64_t>(found.size()));
  const int limit = request.limit() <= 0 ? kModelRowsDefault : std::min(request.limit(), kModelRowsMost);
  for (size_t i = 0; i < std::min(found.size(), static_cast<size_t>(limit)); ++i)
    *reply.add_models() = shown(*found[i]);
  return reply;
}

Result<v1::Model> ModelRegistry::edit(const v1::EditModelRequest& request, const ExperimentRequester& by,
                                      int64_t now_ms) {
  const auto found = to_change("edit", request.model(), by);
  if (!found) return make_error(found.error());
  Entry& entry = **found;
  v1::Model& info = *entry.record.mutable_info();
  if (!request.has_archived() || request.archived()) {
    const bool only_archives = request.has_archived() && info.archived();
    if (!only_archives) VOLADOR_TRY(check_open(entry));
  }
  if (request.has_name()) VOLADOR_TRY(check_name(request.name(), info.id()));
  VOLADOR_TRY(check_texts({{"description", &request.description()}, {"notes", &request.notes()}}));
  if (request.has_workspace()) VOLADOR_TRY(check_words("workspace", request.workspace(), 0, kNameMax));
  const auto labels = changed_labels(info.labels(), request.add_labels(), request.remove_labels());
  if (!labels) return make_error(labels.error());
  const auto metadata = metadata_of(request.metadata());
  if (!metadata) return make_error(metadata.error());
  auto aliases = info.aliases();
  for (const auto& [alias, version] : request.set_aliases()) {
    VOLADOR_TRY(check_alias(alias));
    if (version == 0) {
      aliases.erase(alias);
      continue;
    }
    VOLADOR_TRY(check_version(entry, version));
    aliases[alias] = version;
  }
  if (aliases.size() > kAliasesMost)
    return make_error(
        invalid(fmt::format("aliases: expected at most {} of a model, got {}", kAliasesMost, aliases.size())));
  if (request.has_name() && request.name() != info.name()) {
    by_name_.erase(info.name());
    by_name_[request.name()] = info.id();
    info.set_name(request.name());
  }
  if (request.has_description()) info.set_description(request.description());
  if (request.has_notes()) info.set_notes(request.notes());
  *info.mutable_labels() = {labels->begin(), labels->end()};
  if (request.has_metadata()) info.set_metadata(*metadata);
  if (request.has_workspace()) info.set_workspace(request.workspace());
  if (request.has_archived()) info.set_archived(request.archived());
  info.mutable_aliases()->swap(aliases);
  info.set_changed_ms(now_ms);
  put(entry);
  if (!request.set_aliases().empty())
    event("aliases of a model were set", {{"model", entry.record.info().name()}, {"by", name_of(by)}});
  return shown(entry);
}

Result<void> ModelRegistry::remove(const v1::DeleteModelRequest& request, const ExperimentRequester& by) {
  const auto found = to_change("delete", request.model(), by);
  if (!found) return make_error(found.error());
  Entry& entry = **found;
  event("model was deleted", {{"model", entry.record.info().name()}, {"by", name_of(by)}});
  while (!entry.versions.empty()) forget(entry, entry.versions.begin()->first);
  const int64_t id = entry.record.info().id();
  by_name_.erase(entry.record.info().name());
  models_.erase(id);
  actions_.rows.push_back({std::string(kModelsTable), number_key(id), std::nullopt});
  actions_.rows.push_back({std::string(kModelsHeadTable), std::string(kLastModelKey), std::to_string(last_model_)});
  return {};
}

// ---- versions ----

Result<v1::ModelVersion> ModelRegistry::register_version(const v1::RegisterModelVersionRequest& request,
                                                         const ExperimentRequester& by, int64_t now_ms) {
  const auto found = to_change("register a version of", request.model(), by);
  if (!found) return make_error(found.error());
  Entry& entry = **found;
  for (const auto& [version, record] : entry.versions) {
    if (is_repeated(record.request_id(), request)) return shown(entry, record, by);
  }
  VOLADOR_TRY(check_open(entry));
  const v1::ModelVersion& given = request.version();
  const auto checkpoint = experiments_.checkpoint_to_keep(given.checkpoint(), by);
  if (!checkpoint) return make_error(checkpoint.error());
  VOLADOR_TRY(check_words("name", given.name(), 0, kNameMax));
  VOLADOR_TRY(check_texts({{"comment", &given.comment()}, {"notes", &given.notes()}}));
  const auto labels = changed_labels({}, given.labels(), {});
  if (!labels) return make_error(labels.error());
  const auto metadata = metadata_of(given.metadata());
  if (!metadata) return make_error(metadata.error());
  if (entry.versions.size() >= limits_.versions)
    return make_error(invalid(fmt::format("model {} has {} versions, the most that it takes; delete some first",
                                          shown_name(entry.record.info().name()), entry.versions.size())));
  const int64_t id = entry.record.info().id(), version = entry.record.last_version() + 1;
  entry.record.set_last_version(version);
  entry.record.mutable_info()->set_changed_ms(now_ms);
  VersionRecord& record = entry.versions[version];
  record.set_model(id);
  record.set_request_id(request.request_id());
  v1::ModelVersion& made = *record.mutable_info();
  made.set_version(version);
  made.set_checkpoint(checkpoint->id());
  made.set_name(given.name());
  made.set_comment(given.comment());
  made.set_notes(given.notes());
  *made.mutable_labels() = {labels->begin(), labels->end()};
  made.set_metadata(*metadata);
  made.set_user(by.user);
  made.set_created_ms(now_ms);
  made.set_changed_ms(now_ms);
  by_checkpoint_[checkpoint->id()].insert({id, version});
  put(entry);
  put(record);
  event("version of a model was registered", {{"model", entry.record.info().name()}, {"by", name_of(by)}});
  return shown(entry, record, by);
}

Result<v1::ModelVersion> ModelRegistry::version(const v1::GetModelVersionRequest& request,
                                                const ExperimentRequester& by) const {
  const auto id = id_of(request.model());
  if (!id) return make_error(id.error());
  const Entry& entry = models_.at(*id);
  const auto version = version_named(entry, request.version());
  if (!version) return make_error(version.error());
  return shown(entry, entry.versions.at(*version), by);
}

Result<v1::ListModelVersionsReply> ModelRegistry::versions(const v1::ListModelVersionsRequest& request,
                                                           const ExperimentRequester& by) const {
  const auto id = id_of(request.model());
  if (!id) return make_error(id.error());
  const Entry& entry = models_.at(*id);
  v1::ListModelVersionsReply reply;
  reply.set_total(static_cast<int64_t>(entry.versions.size()));
  const int limit = request.limit() <= 0 ? kModelRowsDefault : std::min(request.limit(), kModelRowsMost);
  for (auto each = entry.versions.rbegin(); each != entry.versions.rend() && reply.versions_size() < limit; ++each)
    *reply.add_versions() = shown(entry, each->second, by);
  return reply;
}

Result<v1::ModelVersion> ModelRegistry::edit_version(const v1::EditModelVersionRequest& request,
                                                     const ExperimentRequester& by, int64_t now_ms) {
  const auto found = to_change(fmt::format("edit version {} of", request.version()), request.model(), by);
  if (!found) return make_error(found.error());
  Entry& entry = **found;
  VOLADOR_TRY(check_version(entry, request.version()));
  VOLADOR_TRY(check_open(entry));
  VersionRecord& record = entry.versions.at(request.version());
  v1::ModelVersion& info = *record.mutable_info();
  if (request.has_name()) VOLADOR_TRY(check_words("name", request.name(), 0, kNameMax));
  VOLADOR_TRY(check_texts({{"comment", &request.comment()}, {"notes", &request.notes()}}));
  const auto labels = changed_labels(info.labels(), request.add_labels(), request.remove_labels());
  if (!labels) return make_error(labels.error());
  const auto metadata = metadata_of(request.metadata());
  if (!metadata) return make_error(metadata.error());
  if (request.has_name()) info.set_name(request.name());
  if (request.has_comment()) info.set_comment(request.comment());
  if (request.has_notes()) info.set_notes(request.notes());
  *info.mutable_labels() = {labels->begin(), labels->end()};
  if (request.has_metadata()) info.set_metadata(*metadata);
  info.set_changed_ms(now_ms);
  entry.record.mutable_info()->set_changed_ms(now_ms);
  put(entry);
  put(record);
  return shown(entry, record, by);
}

Result<void> ModelRegistry::remove_version(const v1::DeleteModelVersionRequest& request, const ExperimentRequester& by,
                                           int64_t now_ms) {
  const auto found = to_change(fmt::format("delete version {} of", request.version()), request.model(), by);
  if (!found) return make_error(found.error());
  Entry& entry = **found;
  VOLADOR_TRY(check_version(entry, request.version()));
  VOLADOR_TRY(check_open(entry));
  auto& aliases = *entry.record.mutable_info()->mutable_aliases();
  std::vector<std::string> gone;
  for (const auto& [alias, version] : aliases) {
    if (version == request.version()) gone.push_back(alias);
  }
  for (const std::string& alias : gone) aliases.erase(alias);
  forget(entry, request.version());
  entry.record.mutable_info()->set_changed_ms(now_ms);
  put(entry);
  event("version of a model was deleted", {{"model", entry.record.info().name()}, {"by", name_of(by)}});
  return {};
}

void ModelRegistry::forget(Entry& entry, int64_t version) {
  const int64_t id = entry.record.info().id();
  const auto named = by_checkpoint_.find(entry.versions.at(version).info().checkpoint());
  named->second.erase({id, version});
  if (named->second.empty()) by_checkpoint_.erase(named);
  entry.versions.erase(version);
  actions_.rows.push_back({std::string(kModelVersionsTable), number_key(id) + number_key(version), std::nullopt});
}

}  // namespace volador::experiments
