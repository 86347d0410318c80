// Parameters of an Experiment as a search space of the tuner, and the values of trials as text. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/protocol/katib/v1beta1/api.pb.h"
#include "runtime/random.h"
#include "runtime/result.h"
#include "tune/space/space.h"

namespace volador::experiments::katib {

// The values of one parameter. Their texts read back as the same value: an integer has no fraction, and the values of
// min, max and step are added as decimal numbers, so that 0.01 + 2 × 0.01 is "0.03".
class ParameterValues {
 public:
  // kInvalidArgument: names the parameter, the field and the rule.
  [[nodiscard]] static Result<ParameterValues> create(const api::v1::beta1::ParameterSpec& spec);

  const std::string& name() const { return name_; }
  bool is_categorical() const { return form_ == Form::kList && !is_ordered_; }
  // Whether it is a number in a range, not one of a list.
  bool is_range() const { return form_ != Form::kList; }

  // Number of values; no value: it is continuous.
  std::optional<uint64_t> count() const;
  // The value `index` below count(), in ascending order, or that of the list; requires count().
  std::string value(uint64_t index) const;
  std::optional<uint64_t> index_of(std::string_view text) const;  // No value: not one of them; requires count().

  // How the searchers draw it, the text of a drawn value, and the inverse. No value: the text is none of its values.
  tune::SpaceNode domain() const;
  std::string text_of(const tune::Config& drawn) const;
  std::optional<tune::Config> drawn_of(std::string_view text) const;
  // Whether each value has one text, so that searchers see when a value repeats.
  bool is_exact() const { return form_ != Form::kReal || !cells_; }

  // The value of the range nearest to the number times the factor, another than before if there is one; of a list a
  // neighbour.
  std::string moved(std::string_view text, double factor) const;

 private:
  enum class Form : uint8_t {
    kList,     // Drawn as the index in texts_.
    kCells,    // Drawn as the index of the cell.
    kInteger,  // Drawn as the integer itself.
    kReal,     // Drawn as the number or, with exponential_, its logarithm.
  };
  Result<void> read_list(const api::v1::beta1::ParameterSpec& spec);
  Result<void> read_range(const api::v1::beta1::ParameterSpec& spec);
  std::string text_of_number(double number) const;
  double number(uint64_t cell) const;

  std::string name_;
  Form form_ = Form::kReal;
  bool is_ordered_ = true, exponential_ = false;
  std::vector<std::string> texts_;  // kList.
  double min_ = 0, max_ = 0, step_ = 0;
  int64_t first_ = 0, by_ = 0;  // min and step × 10^digits_; by_ is 0 if they have too many digits.
  int digits_ = 0;
  std::optional<uint64_t> cells_;  // Number of values in the range.
  tune::SpaceNode domain_;
};

class ParameterSpace {
 public:
  // kInvalidArgument: as above, or there are no parameters.
  [[nodiscard]] static Result<ParameterSpace> create(const api::v1::beta1::ExperimentSpec::ParameterSpecs& specs);

  const std::vector<ParameterValues>& parameters() const { return parameters_; }
  const ParameterValues* find(std::string_view name) const;
  void remove(std::string_view name);

  tune::Space space() const;
  // Number of combinations; no value: continuous, or more than 2^62.
  std::optional<uint64_t> count() const;
  bool is_exact() const;

  using Texts = std::vector<std::string>;  // One for each parameter, in their order.
  Texts texts_of(const tune::Config& drawn) const;
  Texts combination(uint64_t number) const;  // Requires count(); the last parameter varies fastest.
  // The texts of a trial; no value: an assignment is missing.
  std::optional<Texts> texts_of(const api::v1::beta1::Trial& trial) const;
  std::optional<tune::Config> drawn_of(const Texts& texts) const;  // No value: outside the space, likewise.
  std::optional<uint64_t> number_of(const Texts& texts) const;     // Requires count().

 private:
  std::vector<ParameterValues> parameters_;
};

}  // namespace volador::experiments::katib
