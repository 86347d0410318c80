// Templates for the names of trials and their folders: "{id}_{lr}" gives "3f2a90c1_0.0119". Pure.
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

// Fields: {id}, {index} (from 0), {experiment}, and each parameter by its path: {lr}, {model.width}. "{{" and "}}" are
// literal braces.
class NameTemplate {
 public:
  static constexpr size_t kBytesMax = 120;  // Limit of a name; a longer one is truncated and ends with the id.

  NameTemplate() = default;  // Consists of the id only.
  // kInvalidArgument: an unknown field (the message names the valid ones), an unbalanced brace, or an empty text.
  // `option`: for messages.
  [[nodiscard]] static Result<NameTemplate> parse(std::string_view option, std::string_view text, const Space& space);
  // Also rejects a template without {id}, which makes a trial's folder unique.
  [[nodiscard]] static Result<NameTemplate> parse_folder(std::string_view option, std::string_view text,
                                                         const Space& space);

  bool is_id() const { return parts_.empty(); }
  // Returns a plain file name: characters of values other than letters, digits and "-_.=+,@" become "_"; reals have
  // four significant digits. A parameter that the trial lacks (another option of a choice was drawn) is "none".
  std::string fill(std::string_view experiment, const Trial& trial) const;

 private:
  struct Part {
    enum class Kind : uint8_t { kText, kId, kIndex, kExperiment, kParameter };
    Kind kind = Kind::kText;
    std::string text;  // Or the parameter's path.
  };
  std::vector<Part> parts_;
};

// The templates of a run; by default the id.
struct TrialNaming {
  std::string experiment;
  NameTemplate name, folder;
};

}  // namespace volador::tune
