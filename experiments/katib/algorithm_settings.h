// Settings of our algorithms for Experiments: names, ranges and defaults. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/protocol/katib/v1beta1/api.pb.h"
#include "runtime/protocol/volador/v1/katib.pb.h"
#include "runtime/result.h"

namespace volador::experiments::katib {

enum class SettingForm : uint8_t { kText, kWord, kInteger, kReal };

struct SettingRule {
  std::string name;
  SettingForm form = SettingForm::kText;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::string range = {};  // In words: "a number in (0, 1)", "GP, RF, ET or GBRT".
  std::vector<std::string> words = {};
  bool open_low = false, open_high = false;
};

v1::KatibSetting to_wire(const SettingRule& rule);

// Checked settings of one algorithm.
class AlgorithmSettings {
 public:
  // kInvalidArgument: an unknown setting (names the nearest one) or a value that is not allowed; kNotFound: the
  // algorithm is none of ours (names the nearest one, and how an external service is registered).
  [[nodiscard]] static Result<AlgorithmSettings> read(const api::v1::beta1::AlgorithmSpec& spec);

  // Values as given; no value: the setting is absent.
  std::optional<std::string> text(std::string_view name) const;
  std::optional<double> real(std::string_view name) const;
  std::optional<int64_t> integer(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

// "random", "grid", … in alphabetical order.
const std::vector<std::string>& own_algorithms();

// Settings of one of them, in the order of the guide. Empty for other names.
const std::vector<SettingRule>& settings_of(std::string_view algorithm);

// kNotFound for a name that is neither ours nor one of `registered`: names the nearest one, and says how an external
// service is registered.
[[nodiscard]] Error unknown_algorithm(std::string_view name, const std::vector<std::string>& registered = {});

}  // namespace volador::experiments::katib
