// Which metrics lines of text and of JSON have. The lines and what Katib reads in them are data here, so that both
// ways of reading are compared on all of them.
#include "experiments/katib/metric_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "experiments/katib/time_stamp.h"

namespace volador::experiments::katib {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kBraces = R"({metricName: ([\w|-]+), metricValue: ((-?\d+)(\.\d+)?)})";
constexpr const char* kNever = "0001-01-01T00:00:00Z";

// "name=value", and "@time" where the point has one.
std::vector<std::string> points_of(std::string_view text, MetricLinesOptions options, size_t piece = 1 << 20) {
  auto lines = MetricLines::create(std::move(options));
  EXPECT_TRUE(lines) << lines.error().message;
  std::vector<std::string> out;
  const auto found = [&](const std::vector<MetricPoint>& points) {
    for (const MetricPoint& point : points) {
      out.push_back(point.metric + "=" + point.value);
      if (point.time_ns) out.back() += "@" + time_stamp_text(point.time_ns);
    }
  };
  for (size_t at = 0; at < text.size(); at += piece) (*lines)->feed(text.substr(at, piece), found);
  (*lines)->end(found);
  return out;
}

struct LineCase {
  const char* line;
  std::vector<std::string> metrics;
  std::vector<std::string> points;
  std::vector<std::string> of_katib;
};

TEST(MetricLines, ReadsTheDefaultFormat) {
  const std::vector<LineCase> cases{
      {"Epoch[5] Validation-accuracy=0.924463",
       {"Validation-accuracy"},
       {"Validation-accuracy=0.924463"},
       {"Validation-accuracy=0.924463"}},
      {"Epoch[5] Time cost=31.698", {"cost"}, {"cost=31.698"}, {"cost=31.698"}},
      {"2022-01-23T05:19:54Z INFO  Epoch[5] Validation-accuracy=0.924463",
       {"Validation-accuracy", "Train-accuracy"},
       {"Validation-accuracy=0.924463@2022-01-23T05:19:54Z"},
       {"Validation-accuracy=0.924463@2022-01-23T05:19:54Z"}},
      {"2022-01-23T05:19:58Z INFO  Epoch[6] Batch [0-100] Speed: 1749.16 ..", {"Speed"}, {}, {}},
      {"loss = -1.5e-3, acc=.5", {"loss", "acc"}, {"loss=-1.5e-3", "acc=.5"}, {"loss=-1.5e-3", "acc=.5"}},
      {"loss=nan", {"loss"}, {"loss=nan"}, {"loss="}},
      {"loss=-Infinity acc=+inf", {"loss", "acc"}, {"loss=-Infinity", "acc=+inf"}, {"loss=-", "acc=+"}},
      {"loss=nano", {"loss"}, {}, {"loss="}},
      {"acc=1.", {"acc"}, {"acc=1"}, {"acc=1"}},
      {"acc==0.9", {"acc"}, {}, {"acc="}},
      {"accuracy: 0.5", {"accuracy"}, {}, {}},
      {"acc=", {"acc"}, {}, {"acc="}},
      {"acc=e5", {"acc"}, {}, {"acc=e5"}},
      {"val_acc=0.5 acc=0.25", {"acc"}, {"acc=0.25"}, {"acc=0.25"}},  // The whole name.
      {"acc=1 acc=2", {"acc"}, {"acc=1", "acc=2"}, {"acc=1", "acc=2"}},
      {"2022-01-23T05:19:54.5+09:00 acc=1",
       {"acc"},
       {"acc=1@2022-01-22T20:19:54.5Z"},
       {"acc=1@2022-01-22T20:19:54.5Z"}},
      {"2022-01-23 05:19:54 acc=1", {"acc"}, {"acc=1"}, {"acc=1"}},
      {"acc=1\r", {"acc"}, {"acc=1"}, {"acc=1"}},
      {"a|b-c=7", {"a|b-c"}, {"a|b-c=7"}, {"a|b-c=7"}},
      {"", {"acc"}, {}, {}},
  };
  for (const LineCase& each : cases) {
    MetricLinesOptions options{.metrics = each.metrics, .formats = {}, .is_json = false, .as_katib = false};
    EXPECT_EQ(points_of(each.line, options), each.points) << each.line;
    options.as_katib = true;
    EXPECT_EQ(points_of(each.line, options), each.of_katib) << each.line;
  }
}

TEST(MetricLines, ReadsOtherFormats) {
  const std::string text =
      "2024-03-04T17:55:08Z INFO     {metricName: accuracy, metricValue: 0.8078};{metricName: loss, metricValue: "
      "0.5183}\n"
      "2024-03-04T17:55:08Z INFO     {metricName: accuracy, metricValue: 100}\n"
      "2024-03-04T17:55:08Z INFO     {metricName: accuracy, metricValue: -0.4759}\n"
      "invalid INFO     {metricName: loss, metricValue: 0.3634}\n"
      "{metricName: accuracy, metricValue: .333}\n{metricName: accuracy, metricValue: - 345.333}\n"
      "{metricName: accuracy, metricValue: 888.}\n{metricName: accuracy, metricValue: 0.6752\n"
      "{metricName: loss, metricValue: 0.8671}";
  const std::string time = "@2024-03-04T17:55:08Z";
  for (const bool as_katib : {false, true}) {
    for (const size_t piece : {1U, 7U, 4096U}) {
      EXPECT_THAT(points_of(text, {{"accuracy", "loss"}, {kBraces}, false, as_katib}, piece),
                  ElementsAre("accuracy=0.8078" + time, "loss=0.5183" + time, "accuracy=100" + time,
                              "accuracy=-0.4759" + time, "loss=0.3634", "loss=0.8671"));
    }
  }
  EXPECT_THAT(
      points_of("loss of 5: 0.25; loss=1", {{"loss"}, {R"((\w+) of \d+: (\S+);)", R"((\w+)=(\d))"}, false, false}),
      ElementsAre("loss=0.25", "loss=1"));
  EXPECT_THAT(points_of("loss -> high", {{"loss"}, {R"((\w+) -> (\w+))"}, false, false}), IsEmpty()) << "no number";
  EXPECT_THAT(points_of("loss", {{"loss"}, {R"((\w*)(\d*))"}, false, true}), ElementsAre("loss="))
      << "empty matches end";
}

TEST(MetricLines, RefusesFormatsWithoutTwoGroups) {
  EXPECT_TRUE(check_metric_format(kBraces));
  const auto one = check_metric_format("loss=(\\d+)");
  ASSERT_FALSE(one);
  EXPECT_THAT(one.error().message, HasSubstr("expected two groups"));
  const auto broken = check_metric_format("(a)(b");
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("is no regular expression: missing"));
  EXPECT_FALSE(check_metric_format(std::string(2000, 'a')));
  EXPECT_FALSE(MetricLines::create({{"loss"}, {"loss"}, false, false}));
}

TEST(MetricLines, ReadsJson) {
  const std::string text =
      R"({"checkpoint_path": "", "global_step": "0", "loss": "0.22082142531871796", "timestamp": 1638422847.28721, "trial": "0"}
{"acc": "0.9349666833877563", "checkpoint_path": "", "global_step": "0", "timestamp": 1638422847.287801, "trial": "0"}
{"checkpoint_path": "", "global_step": "1", "loss": "0.1414974331855774", "timestamp": "2021-12-02T14:27:50.000035161Z", "trial": "0"}
{"acc": "0.9586416482925415", "checkpoint_path": "", "timestamp": "2021-12-02T23:27:50.000037459+09:00", "trial": "0"}
{"checkpoint_path": "", "global_step": "2", "loss": "0.10683439671993256", "trial": "0"}
{"acc": "0.5", "timestamp": "invalid"}
{"acc": "0.25", "timestamp": 1638422847})";
  MetricLinesOptions options{.metrics = {"acc", "loss"}, .formats = {}, .is_json = true, .as_katib = false};
  EXPECT_THAT(points_of(text, options),
              ElementsAre("loss=0.22082142531871796@2021-12-02T05:27:27.28721Z",
                          "acc=0.9349666833877563@2021-12-02T05:27:27.287801Z",
                          "loss=0.1414974331855774@2021-12-02T14:27:50.000035161Z",
                          "acc=0.9586416482925415@2021-12-02T14:27:50.000037459Z", "loss=0.10683439671993256",
                          "acc=0.5", "acc=0.25@2021-12-02T05:27:27Z"));
  options.as_katib = true;
  EXPECT_THAT(points_of(text, options),
              ElementsAre("loss=0.22082142531871796@2021-12-02T05:27:27.000028721Z",
                          "acc=0.9349666833877563@2021-12-02T05:27:27.000287801Z",
                          "loss=0.1414974331855774@2021-12-02T14:27:50.000035161Z",
                          "acc=0.9586416482925415@2021-12-02T14:27:50.000037459Z", "loss=0.10683439671993256",
                          "acc=0.5", "acc=0.25@2021-12-02T05:27:27Z"));
}

TEST(MetricLines, ReadsNumbersOfJsonAndGoesOnAfterWhatIsNone) {
  const std::string text = R"({"loss": 0.5, "acc": 1}
{"loss": NaN, "acc": -Infinity, "note": "NaN \" Infinity"}
"checkpoint_path": "", "loss": "0.25"

[1]
{"loss": true, "acc": "high"}
{"acc": "  2 ", "loss": {"a": 1}}
{"acc": "0.93)";
  MetricLinesOptions options{.metrics = {"acc", "loss"}, .formats = {}, .is_json = true, .as_katib = false};
  EXPECT_THAT(points_of(text, options), ElementsAre("acc=1", "loss=0.5", "acc=-Infinity", "loss=NaN", "acc=2"));
  auto lines = MetricLines::create(options);
  (*lines)->feed(text, [](const auto&) {});
  EXPECT_EQ((*lines)->broken_lines(), 2);
  (*lines)->end([](const auto&) {});
  EXPECT_EQ((*lines)->broken_lines(), 3);
  options.as_katib = true;
  EXPECT_THAT(points_of(text, options), ElementsAre("acc=high", "acc=  2 ")) << "only texts";
}

TEST(MetricLines, LimitsLines) {
  const std::string long_line(3 << 20, 'x');
  const MetricLinesOptions options{.metrics = {"acc"}, .formats = {}, .is_json = false, .as_katib = false};
  for (const size_t piece : {4096U, 10U << 20}) {
    EXPECT_THAT(points_of("acc=1 " + long_line + " acc=2\nacc=3\n" + long_line + " acc=4", options, piece),
                ElementsAre("acc=1", "acc=3"));
  }
}

TEST(MetricLines, ReadsAnyBytes) {
  std::mt19937 random(7);
  const std::string parts[] = {"acc", "=", "loss", "{\"", "\":", "1", ".", "e", "\n",
                               "nan", "}", " ",    "\"",  "\\",  "T", "Z", "-"};
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (int i = 0; i < 200; ++i) {
      if (random() % 3 != 0) {
        text += parts[random() % std::size(parts)];
      } else {
        text += static_cast<char>(random());
      }
    }
    for (const bool is_json : {false, true}) {
      for (const bool as_katib : {false, true}) {
        const MetricLinesOptions options{
            .metrics = {"acc", "loss"}, .formats = {}, .is_json = is_json, .as_katib = as_katib};
        EXPECT_EQ(points_of(text, options, 1), points_of(text, options)) << text;
      }
    }
  }
}

TEST(TimeStamp, IsReadAsRfc3339) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"2021-12-02T14:27:50.000035161Z", "2021-12-02T14:27:50.000035161Z"},
      {"2021-12-02T14:27:50.000035161+09:00", "2021-12-02T05:27:50.000035161Z"},
      {"1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.5Z"},
      {"2024-02-29T00:00:00-01:30", "2024-02-29T01:30:00Z"},
      {"2021-12-02T14:27:50.0000351619Z", "2021-12-02T14:27:50.000035161Z"},
      {"0001-01-01T00:00:00Z", kNever},
      {"2023-02-29T00:00:00Z", kNever},
      {"2021-12-02T24:00:00Z", kNever},
      {"2021-12-02 14:27:50Z", kNever},
      {"2021-12-02T14:27:50", kNever},
      {"2021-12-02T14:27:50.Z", kNever},
      {"2021-12-02T14:27:50+0900", kNever},
      {"2021-12-02T14:27:50Zx", kNever},
      {"", kNever},
  };
  for (const auto& [given, expected] : cases) EXPECT_EQ(time_stamp_text(parse_time_stamp(given)), expected) << given;
}

TEST(MetricPoint, ReadsNumbersAsTheyArePrinted) {
  EXPECT_EQ(number_of("-1.5e-3"), -1.5e-3);
  EXPECT_EQ(number_of("+.5"), 0.5);
  EXPECT_EQ(number_of("1."), 1);
  EXPECT_EQ(number_of("1e999"), HUGE_VAL);
  EXPECT_EQ(number_of("-1e-999"), 0);
  EXPECT_TRUE(std::isnan(number_of("NaN").value_or(0)));
  EXPECT_EQ(number_of("-inf"), -HUGE_VAL);
  for (const char* text : {"", "+", "--1", "+-1", "1x", " 1", "unavailable", "0x"})
    EXPECT_FALSE(number_of(text)) << text;
}

}  // namespace
}  // namespace volador::experiments::katib
