#include "experiments/config/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/config/forms.h"
#include "experiments/config/schema.h"
#include "runtime/utf8.h"

namespace volador::experiments {
namespace {

using yaml::Entry;
using yaml::Kind;
using yaml::Place;
using yaml::Value;

constexpr const char* kBatchSizePath = "hyperparameters.global_batch_size";
constexpr const char* kMaxLengthPath = "searcher.max_length";
constexpr size_t kPathKeyBytesMax = 80;

const Value& null_value() {
  static const Value value;
  return value;
}

// A value below the root; null if there is none.
const Value& at(const Value& root, std::initializer_list<std::string_view> keys) {
  const Value* value = &root;
  for (const std::string_view key : keys) {
    value = value->find(key);
    if (value == nullptr) return null_value();
  }
  return *value;
}

Place place_of(const Value& root, std::initializer_list<std::string_view> keys) { return at(root, keys).place; }

class RuleCheck {
 public:
  RuleCheck(const Value& config, const PoolRules& pool, Findings& findings)
      : config_(config), pool_(pool), findings_(findings), searcher_(at(config, {"searcher"})) {
    if (const Value& name = at(searcher_, {"name"}); name.is_text()) method_ = name.text;
    const Value& entrypoint = at(config, {"entrypoint"});
    if (entrypoint.is_text()) words_.push_back(entrypoint.text);
    for (const Value& word : entrypoint.items) words_.push_back(word.text);
    trial_class_ = trial_class_of(words_);
  }

  void check() {
    check_project();
    check_searcher();
    check_hyperparameters();
    check_lengths();
    check_batch_size();
    check_slots();
    check_mounts();
  }

 private:
  void check_project() {
    const Value& workspace = at(config_, {"workspace"});
    const Value& project = at(config_, {"project"});
    if (workspace.text.empty() == project.text.empty()) return;
    const bool has_workspace = !workspace.text.empty();
    findings_.error(has_workspace ? "workspace" : "project", (has_workspace ? workspace : project).place,
                    "workspace and project must both be present or both be absent");
  }

  void check_searcher() {
    if (searcher_.is_null()) return;
    if (method_ == "adaptive" || method_ == "adaptive_simple" || method_ == "sync_halving") {
      findings_.error("searcher.name", place_of(searcher_, {"name"}),
                      fmt::format("{} was removed; use adaptive_asha", method_));
      return;
    }
    const Value& trial = at(searcher_, {"source_trial_id"});
    const Value& checkpoint = at(searcher_, {"source_checkpoint_uuid"});
    if (!trial.is_null() && !checkpoint.is_null()) {
      findings_.error("searcher.source_checkpoint_uuid", checkpoint.place,
                      "source_trial_id and source_checkpoint_uuid must not both be set");
    }
    if (method_.empty() || method_ == "custom" || !at(searcher_, {"max_length"}).is_null() ||
        findings_.has_error_at(kMaxLengthPath))
      return;
    const bool stops_early = method_ == "adaptive_asha" || method_ == "async_halving";
    const bool has_time = !at(searcher_, {"time_metric"}).is_null() && !at(searcher_, {"max_time"}).is_null();
    if (stops_early && !has_time) {
      findings_.error(kMaxLengthPath, searcher_.place,
                      fmt::format("{} needs max_length, such as max_length: {{epochs: 10}}, or both time_metric and "
                                  "max_time",
                                  method_));
    } else if (trial_class_ && !has_time) {
      findings_.error(kMaxLengthPath, searcher_.place,
                      fmt::format("is a required property, as the entry point is the trial class {}; add it, such as "
                                  "max_length: {{epochs: 10}}",
                                  *trial_class_));
    }
  }

  void check_hyperparameters() {
    const Value& all = at(config_, {"hyperparameters"});
    if (method_ == "grid") check_counts(all, "hyperparameters");
    if (method_ == "single") check_constants(all, "hyperparameters");
  }

  // Lists and maps in constants are looked at too, as in Determined.
  void check_counts(const Value& value, const std::string& path) {
    for (size_t i = 0; i < value.items.size(); ++i) check_counts(value.items[i], path_of_item(path, i));
    if (!value.is_map()) return;
    const Value* type = value.find("type");
    if (type == nullptr) {
      for (const Entry& entry : value.entries)
        check_counts(entry.value, path_below(path, plain_text(entry.key, kPathKeyBytesMax)));
      return;
    }
    if (type->text == "const") {
      if (const Value* val = value.find("val")) check_counts(*val, path);
      return;
    }
    if (type->text != "int" && type->text != "double" && type->text != "log") return;
    const Value* count = value.find("count");
    if (count == nullptr || count->is_null())
      findings_.error(path, value.place, "grid search is in use but count was not provided");
  }

  void check_constants(const Value& value, const std::string& path) {
    const Value* type = value.find("type");
    if (type == nullptr) {
      for (const Entry& entry : value.entries)
        check_constants(entry.value, path_below(path, plain_text(entry.key, kPathKeyBytesMax)));
      return;
    }
    if (type->text == "const") return;
    findings_.warning(
        path, value.place,
        fmt::format("the searcher single has one trial, which draws one value of this {}; give a constant, "
                    "or use the searcher random, grid or adaptive_asha",
                    type->text));
  }

  // The first length that is given in this unit.
  std::optional<std::pair<std::string, Place>> length_in(std::string_view unit) const {
    const std::pair<std::string, const Value*> lengths[] = {
        {kMaxLengthPath, &at(searcher_, {"max_length"})},
        {"min_validation_period", &at(config_, {"min_validation_period"})},
        {"min_checkpoint_period", &at(config_, {"min_checkpoint_period"})}};
    for (const auto& [path, length] : lengths) {
      const Value& amount = at(*length, {unit});
      if (amount.kind == Kind::kInteger && amount.integer > 0) return std::pair(path, length->place);
    }
    return std::nullopt;
  }

  void check_lengths() {
    const auto epochs = length_in("epochs");
    const Value& records = at(config_, {"records_per_epoch"});
    if (!epochs || records.integer > 0 || findings_.has_error_at("records_per_epoch")) return;
    findings_.error(epochs->first, epochs->second,
                    "is given in epochs, which needs records_per_epoch above 0; add records_per_epoch");
  }

  void check_batch_size() {
    auto needed_by = length_in("epochs");
    if (!needed_by) needed_by = length_in("records");
    const Value& size = at(config_, {"hyperparameters", "global_batch_size"});
    if (size.is_null()) {
      if (findings_.has_error_at("hyperparameters") || findings_.has_error_at(kBatchSizePath)) return;
      warn_of_missing_batch_size(needed_by);
      return;
    }
    if (!needed_by && !trial_class_) return;  // A script may mean something else by this name.
    const Value& type = at(size, {"type"});
    if (type.text == "const") check_one_batch_size(at(size, {"val"}));
    if (type.text == "categorical") {
      for (const Value& each : at(size, {"vals"}).items) check_one_batch_size(each);
    }
    if (type.text == "int" && at(size, {"minval"}).kind == Kind::kInteger)
      check_one_batch_size(at(size, {"minval"}), /*is_bound=*/true);
    if (type.text != "const" && type.text != "categorical" && type.text != "int") {
      findings_.error(kBatchSizePath, size.place,
                      fmt::format("expected whole numbers: a constant, categorical or int, got {}",
                                  type.is_text() ? type.text : "nested hyperparameters"));
    }
  }

  // A trial class asks for the batch size, except one of DeepSpeed, which has its own configuration. A script may convert
  // its lengths itself.
  void warn_of_missing_batch_size(const std::optional<std::pair<std::string, Place>>& needed_by) {
    if (trial_class_ && needed_by && !uses_deepspeed()) {
      findings_.error(kBatchSizePath, needed_by->second,
                      fmt::format("is a required property, as {} is not given in batches; add it", needed_by->first));
    } else if (trial_class_ && !uses_deepspeed()) {
      findings_.warning(
          kBatchSizePath, place_of(config_, {"hyperparameters"}),
          fmt::format("is not set; the trial class {} needs it, unless it is one of DeepSpeed", *trial_class_));
    } else if (needed_by) {
      findings_.warning(kBatchSizePath, needed_by->second,
                        fmt::format("is not set; without it {} cannot be converted to batches", needed_by->first));
    }
  }

  bool uses_deepspeed() const {
    return std::ranges::any_of(words_,
                               [](const std::string& word) { return word.find("deepspeed") != std::string::npos; });
  }

  void check_one_batch_size(const Value& size, bool is_bound = false) {
    if (size.kind != Kind::kInteger || size.integer < 1) {
      findings_.error(kBatchSizePath, size.place, "expected whole numbers of at least 1");
      return;
    }
    const int64_t slots = std::max<int64_t>(at(config_, {"resources", "slots_per_trial"}).integer, 1);
    if (size.integer < slots) {
      findings_.error(kBatchSizePath, size.place,
                      fmt::format("{} is less than slots_per_trial, {}: each GPU needs at least one record of a batch",
                                  size.integer, slots));
    } else if (is_bound) {
      if (slots > 1) {
        findings_.warning(kBatchSizePath, size.place,
                          fmt::format("values that are no multiple of slots_per_trial, {}, are rounded down", slots));
      }
    } else if (size.integer % slots != 0) {
      const auto what = fmt::format("{} is not divisible by slots_per_trial, {}", size.integer, slots);
      if (pool_.needs_exact_batches) {
        findings_.error(kBatchSizePath, size.place,
                        fmt::format("{}; use {}", what, (size.integer / slots + 1) * slots));
      } else {
        findings_.warning(kBatchSizePath, size.place,
                          fmt::format("{}; each GPU gets {} records, {} in all", what, size.integer / slots,
                                      size.integer / slots * slots));
      }
    }
  }

  void check_slots() {
    const Value& slots = at(config_, {"resources", "slots_per_trial"});
    const Value& most = at(config_, {"resources", "max_slots"});
    if (most.kind == Kind::kInteger && slots.integer > most.integer) {
      findings_.error(
          "resources.slots_per_trial", slots.is_null() || !slots.place.is_known() ? most.place : slots.place,
          fmt::format("slots_per_trial must not be above max_slots, got {} and {}", slots.integer, most.integer));
    }
    if (pool_.slots_multiple > 1 && slots.integer % pool_.slots_multiple != 0) {
      findings_.error("resources.slots_per_trial", slots.place,
                      fmt::format("this pool gives whole machines: expected a multiple of {}, got {}",
                                  pool_.slots_multiple, slots.integer));
    }
  }

  void check_mounts() {
    std::map<std::string, size_t> mounted;
    const auto& mounts = at(config_, {"bind_mounts"}).items;
    for (size_t i = 0; i < mounts.size(); ++i) {
      const Value& path = at(mounts[i], {"container_path"});
      if (!path.is_text()) continue;
      const auto [first, is_new] = mounted.emplace(path.text, i);
      if (is_new) continue;
      findings_.error(path_below(path_of_item("bind_mounts", i), "container_path"), path.place,
                      fmt::format("\"{}\" is taken by bind_mounts[{}] already", plain_text(path.text, kPathKeyBytesMax),
                                  first->second));
    }
  }

  const Value& config_;
  const PoolRules& pool_;
  Findings& findings_;
  const Value& searcher_;
  std::string method_;
  std::vector<std::string> words_;
  std::optional<std::string> trial_class_;
};

}  // namespace

void check_rules(const yaml::Value& defaulted, const PoolRules& pool, Findings& findings) {
  RuleCheck(defaulted, pool, findings).check();
}

}  // namespace volador::experiments
