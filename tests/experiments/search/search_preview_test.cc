#include "experiments/search/search_preview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

#include "experiments/config/config_reader.h"

namespace volador::experiments {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tune::Config;

HyperparameterSpace preview_space() {
  return HyperparameterSpace::
      from(Config::from_json(
               R"({"x": {"type": "double", "minval": 0, "maxval": 1, "count": 3}, "y": {"type": "categorical", "vals": [1, 2]}})")
               .value())
          .value();
}
// A searcher as a configuration has it, in YAML.
SearcherSettings settings_of(const std::string& searcher) {
  const ConfigReading reading =
      read_config({.config = {.name = "preview.yaml",
                              .text = "entrypoint: python3 train.py\nrecords_per_epoch: 100\nhyperparameters:\n"
                                      "  x: {type: double, minval: 0, maxval: 1, count: 3}\n"
                                      "searcher: {metric: loss, " +
                                      searcher + "}\n"}});
  if (!reading.is_valid()) throw std::runtime_error(reading.error().message);
  return searcher_settings(reading.config->searcher);
}
SearchPreview preview_of(const std::string& searcher, uint32_t seed = 1) {
  return preview_search(settings_of(searcher), preview_space(), seed).value();
}

TEST(SearchPreviews, CountFullRuns) {
  EXPECT_THAT(preview_of("name: single, max_length: 7").rows, ElementsAre(PreviewRow{1, {7}}));
  const auto random = preview_of("name: random, max_length: {batches: 7}, max_trials: 100000");
  EXPECT_THAT(random.rows, ElementsAre(PreviewRow{100000, {7}}));
  EXPECT_EQ(random.units, 700000);
  EXPECT_EQ(to_text(random),
            "random: 100000 trials, 700000 batches in total\n\n"
            "  trials  validated at (batches)\n"
            "  100000  7\n");
  EXPECT_THAT(preview_of("name: grid, max_length: 7").rows, ElementsAre(PreviewRow{6, {7}}));
  EXPECT_THAT(to_text(preview_of("name: grid")), HasSubstr("       6  the end of their programs\n"));
}

TEST(SearchPreviews, CountTimedSearchesByTheirBrackets) {
  const auto preview =
      preview_of("name: adaptive_asha, time_metric: batches, max_time: 900, max_trials: 10, divisor: 3, max_rungs: 10");
  EXPECT_THAT(preview.rows, ElementsAre(PreviewRow{5, {100}}, PreviewRow{3, {300}}, PreviewRow{2, {900}}));
  EXPECT_EQ(to_text(preview),
            "adaptive_asha: 10 trials, 3200 units in total\n\n"
            "  trials  validated at (units)\n"
            "       5  100\n"
            "       3  300\n"
            "       2  900\n\n"
            " bracket    trials     at once  rungs (units)\n"
            "       1         7           7  100, 300, 900\n"
            "       2         3           3  300, 900\n");
  EXPECT_EQ(
      preview_of("name: async_halving, time_metric: t, max_time: 9, num_rungs: 3, max_trials: 9, divisor: 3").rows,
      (std::vector<PreviewRow>{{6, {1}}, {2, {3}}, {1, {9}}}));
}

TEST(SearchPreviews, AreInChineseToo) {
  const auto single = preview_of("name: single, max_length: {epochs: 7}");
  EXPECT_THAT(to_text(single, Language::kChinese), HasSubstr("single: 1 个试验, 共 7 轮\n"));
}

TEST(SearchPreviews, SimulateAsha) {
  const std::string json =
      "name: adaptive_asha, max_length: {batches: 1000}, max_trials: 200, bracket_rungs: [1, 3, 2]";
  const auto preview = preview_of(json, 3);
  EXPECT_EQ(preview.trials, 200);
  const int64_t full = std::accumulate(
      preview.rows.begin(), preview.rows.end(), int64_t{0},
      [](int64_t sum, const PreviewRow& row) { return sum + (row.lengths.back() == 1000 ? row.trials : 0); });
  EXPECT_GE(full, 24 + 12 + 8) << "a third bracket of full runs, and those that were promoted";
  for (const PreviewRow& row : preview.rows) EXPECT_TRUE(std::is_sorted(row.lengths.begin(), row.lengths.end()));
  EXPECT_EQ(to_config(preview).to_json(), to_config(preview_of(json, 3)).to_json()) << "the seed decides";
  EXPECT_EQ(to_config(preview)["brackets"].size(), 3U);
  EXPECT_EQ(to_config(preview).integer("trials"), 200);
  EXPECT_EQ(to_config(preview)["rows"][0].integer("trials"), preview.rows[0].trials);
}

TEST(SearchPreviews, AHundredThousandTrials) {
  const auto preview =
      preview_of("name: adaptive_asha, max_length: 1000, max_trials: 100000, max_concurrent_trials: 1000");
  EXPECT_EQ(preview.trials, 100000);
}

TEST(SearchPreviews, AreRefusedWhereAProgramDecides) {
  EXPECT_THAT(preview_search(settings_of("name: custom"), preview_space()).error().message,
              HasSubstr("its program decides"));
  EXPECT_THAT(
      preview_search(settings_of("name: random, max_length: 1, max_trials: 2000000"), preview_space()).error().message,
      HasSubstr("searcher.max_trials"));
}

TEST(SearchPreviews, TheReplyIsThatOfAConfiguration) {
  const auto config_of = [](const std::string& searcher) {
    return *read_config({.config = {.name = "preview.yaml",
                                    .text = "entrypoint: python3 train.py\nhyperparameters:\n"
                                            "  x: {type: int, minval: 1, maxval: 3, count: 3}\n"
                                            "searcher: {metric: loss, " +
                                            searcher + "}\n"}})
                .config;
  };
  const auto grid = preview_reply(config_of("name: grid, max_length: {batches: 10}"), 5);
  ASSERT_TRUE(grid);
  const Config shown = Config::from_json(grid->preview()).value();
  EXPECT_EQ(shown.integer("trials"), 3);
  EXPECT_EQ(shown.integer("seed"), 5);
  EXPECT_EQ(shown.text("unit"), "batches");
  EXPECT_THAT(grid->text(), HasSubstr("grid: 3 trials, 30 batches in total"));
  EXPECT_THAT(preview_reply(config_of("name: grid, max_length: {batches: 10}"), 0, Language::kChinese)->text(),
              Not(HasSubstr("in total")));
  const auto custom = preview_reply(config_of("name: custom"), 0);
  ASSERT_FALSE(custom);
  EXPECT_THAT(custom.error().message, HasSubstr("there is no preview"));
}

}  // namespace
}  // namespace volador::experiments
