// Names of trials and of their folders by templates: "{id}_{lr}" makes "3f2a90c1_0.0119". Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"
#include "tune/loop/trial.h"
#include "tune/space/config.h"
#include "tune/space/space.h"

namespace volador::tune {

// Fields: {id}, {index} (from 0), {experiment}, and each parameter by its path: {lr}, {model.width}. "{{" and "}}"
// stand for braces.
class NameTemplate {
 public:
  static constexpr size_t kBytesMax = 120;  // Of a name; a longer one is cut and keeps its id at its end.

  NameTemplate() = default;  // The id alone.
  // kInvalidArgument: an unknown field (the message names those there are), a brace too many, nothing at all.
  // `option`: for messages.
  [[nodiscard]] static Result<NameTemplate> parse(std::string_view option, std::string_view text, const Space& space);
  // Also refused: one without {id}, by which a trial's folder is found and is no other one's.
  [[nodiscard]] static Result<NameTemplate> parse_folder(std::string_view option, std::string_view text,
                                                         const Space& space);

  bool is_id() const { return parts_.empty(); }
  // A plain file name: what a value has beside letters, digits and "-_.=+,@" becomes "_"; reals have four significant
  // digits. A parameter that the trial does not have (another option of a choice was drawn) is "none".
  std::string fill(std::string_view experiment, const Trial& trial) const;

 private:
  struct Part {
    enum class Kind : uint8_t { kText, kId, kIndex, kExperiment, kParameter };
    Kind kind = Kind::kText;
    std::string text;  // Or the parameter's path.
  };
  std::vector<Part> parts_;
};

// Both of a run; by default the id.
struct TrialNaming {
  std::string experiment;
  NameTemplate name, folder;
};

}  // namespace volador::tune
