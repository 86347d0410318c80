#include "experiments/katib/algorithm_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "experiments/katib/algorithm_settings.h"
#include "experiments/katib/median_stop.h"

namespace volador::experiments::katib {
namespace {

// The refusal of this setting; empty: it is accepted.
std::string setting_refusal(const v1::KatibAlgorithm& algorithm, const std::string& name, const std::string& value) {
  if (algorithm.early_stopping()) {
    api::v1::beta1::EarlyStoppingSpec spec;
    spec.set_algorithm_name(algorithm.name());
    auto& setting = *spec.add_algorithm_settings();
    setting.set_name(name);
    setting.set_value(value);
    const auto read = median_stop_settings(spec);
    return read ? "" : read.error().message;
  }
  api::v1::beta1::AlgorithmSpec spec;
  spec.set_algorithm_name(algorithm.name());
  auto& setting = *spec.add_algorithm_settings();
  setting.set_name(name);
  setting.set_value(value);
  const auto read = AlgorithmSettings::read(spec);
  return read ? "" : read.error().message;
}

TEST(AlgorithmList, HasOurAlgorithmsByKindAndName) {
  std::vector<std::string> names, early;
  const auto list = algorithm_list({}, {});
  for (const v1::KatibAlgorithm& one : list.algorithms()) (one.early_stopping() ? early : names).push_back(one.name());
  EXPECT_EQ(names, own_algorithms());
  EXPECT_THAT(early, testing::ElementsAre("medianstop"));
}

TEST(AlgorithmList, ServicesTakeThePlaceOfAlgorithmsOfOurs) {
  const auto list = algorithm_list({"enas", "tpe"}, {"mine"});
  std::vector<std::string> external;
  for (const v1::KatibAlgorithm& one : list.algorithms()) {
    if (!one.external()) continue;
    external.push_back(one.name());
    EXPECT_EQ(one.settings_size(), 0);
  }
  EXPECT_THAT(external, testing::ElementsAre("enas", "tpe", "mine"));
  EXPECT_EQ(list.algorithms_size(), static_cast<int>(own_algorithms().size()) + 3);
}

TEST(AlgorithmList, BoundsAndWordsAreThoseThatTheAlgorithmsAccept) {
  const auto list = algorithm_list({}, {});
  for (const v1::KatibAlgorithm& algorithm : list.algorithms()) {
    for (const v1::KatibSetting& setting : algorithm.settings()) {
      const std::string what = algorithm.name() + " " + setting.name();
      const bool is_whole = setting.form() == "integer";
      const auto text = [&](double number) {
        return is_whole ? std::to_string(static_cast<int64_t>(number)) : std::to_string(number);
      };
      const double step = is_whole ? 1 : 0.01;
      for (const std::string& word : setting.words()) EXPECT_EQ(setting_refusal(algorithm, setting.name(), word), "");
      if (setting.form() == "word") {
        EXPECT_NE(setting_refusal(algorithm, setting.name(), "no such word"), "") << what;
      }
      if (setting.has_low()) {
        EXPECT_EQ(setting_refusal(algorithm, setting.name(), text(setting.low() + step)), "") << what;
        EXPECT_EQ(setting_refusal(algorithm, setting.name(), text(setting.low())).empty(), !setting.above_low())
            << what;
        EXPECT_NE(setting_refusal(algorithm, setting.name(), text(setting.low() - step)), "") << what;
      }
      if (setting.has_high()) {
        EXPECT_EQ(setting_refusal(algorithm, setting.name(), text(setting.high())).empty(), !setting.below_high())
            << what;
        EXPECT_NE(setting_refusal(algorithm, setting.name(), text(setting.high() + step)), "") << what;
      }
    }
  }
}

}  // namespace
}  // namespace volador::experiments::katib
