// Keys, types, defaults and merge rules of the experiment configuration, as data: the checks, merging, the defaults and the
// reference page follow from it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/config/finding.h"
#include "runtime/yaml/value.h"

namespace volador::experiments {

enum class Shape : uint8_t {
  kAny,  // Any value; maps and lists in it are not looked at.
  kBoolean,
  kInteger,
  kNumber,
  kText,
  kTextOrTexts,  // A text, or a list of texts.
  kList,
  kFreeMap,          // Keys are the user's; values are of `item`, or any.
  kObject,           // Keys are `fields`.
  kUnion,            // `fields` are common; the value of `variant_key` chooses the others.
  kLength,           // {batches: 100}.
  kSearcherLength,   // {batches: 100} or 100.
  kMemory,           // Bytes, or a text with a unit.
  kDevice,           // A map, or "/host:/container:mode".
  kPerDevice,        // A value of `item`, or a map of them by the kind of device.
  kHyperparameters,  // A map of hyperparameters by name.
  kLogAction,        // cancel_retries or exclude_node; formerly a map with the key type.
};

// How a value of a layer is merged with the same value of the layer below.
enum class MergeRule : uint8_t {
  kReplace,      // The upper value counts. Maps: key by key.
  kByKey,        // A list: the upper items, then lower items whose `merge_key` no upper item has.
  kConcatenate,  // A list: the lower items first, so that a later item of the same name wins.
  kSet,          // A list: all items, each once.
  kLogPolicies,  // As kByKey with the name; items without a name by pattern and action.
};

struct Type;
using TypePtr = std::shared_ptr<const Type>;

enum class Need : uint8_t {
  kOptional,
  kRequired,    // In each layer, as soon as the object is there.
  kEventually,  // After all layers are merged.
};

enum class Effect : uint8_t {
  kUsed,
  kUnused,   // Accepted, kept and shown, but nothing reads it.
  kDropped,  // Accepted and left out.
};

struct Field {
  std::string key;
  TypePtr type;
  std::string initial = "null";  // Default as JSON.
  std::string help = {};         // A sentence for the reference page.
  Need need = Need::kOptional;
  Effect effect = Effect::kUsed;
  std::vector<std::string> aliases = {};  // Old and misspelled keys.
};

struct Variant {
  std::string name;
  std::vector<Field> fields;  // Besides the common ones.
  bool is_open = false;       // Other keys are accepted, and kept as they are.
};

// Checks what two keys of an object say together. `object` may lack keys, or have values that were refused as null.
using ObjectCheck = void (*)(const yaml::Value& object, std::string_view path, Findings& findings);
// Checks a text. Returns the rule that it breaks, or an empty text.
using TextCheck = std::string (*)(std::string_view text);

struct Type {
  Shape shape = Shape::kAny;
  std::string name = {};  // The heading of an object in the reference.
  std::optional<double> min = std::nullopt, max = std::nullopt;
  bool above_min = false;  // The minimum itself is not permitted.
  bool not_null = false;
  bool unshown = false;  // Messages do not show the value, which may contain a secret.
  bool secret = false;   // Never shown in messages and masked output.
  std::vector<std::string> choices = {};
  std::vector<std::pair<std::string, std::string>> choice_aliases = {};  // Misspelled choice → choice.
  TypePtr item = nullptr;
  std::vector<Field> fields = {};
  std::string variant_key = {};
  std::vector<Variant> variants = {};
  MergeRule merge = MergeRule::kReplace;
  std::string merge_key = {};
  ObjectCheck check = nullptr;
  TextCheck text_check = nullptr;

  const Field* field(std::string_view key) const;
  const Variant* variant(std::string_view key) const;
};

// The variant that the object chooses; null pointer: none yet, or an unknown one.
const Variant* chosen_variant(const Type& type, const yaml::Value& object);
// The fields that the object may have: with a chosen variant its fields and the common ones, without one all.
std::vector<const Field*> fields_of(const Type& type, const yaml::Value& object);

// The type of a whole configuration.
const Type& experiment_type();
// Types of the hyperparameters int, double, log, const and categorical by the value of `type`.
const std::vector<Variant>& hyperparameter_types();
// What check_range says of bounds and values.
void check_hyperparameter(const yaml::Value& object, std::string_view path, Findings& findings);
// Keys of lengths, kinds of devices.
inline constexpr std::string_view kLengthUnits[] = {"batches", "records", "epochs"};
inline constexpr std::string_view kDeviceKinds[] = {"cpu", "cuda", "rocm"};

}  // namespace volador::experiments
