#include "tune/execution/media.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "run_in_process.h"
#include "tune/results/tensorboard_events.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Histogram, CountsValuesInBucketsOfEqualWidth) {
  std::vector<double> values;
  for (int i = 0; i <= 60; ++i) values.push_back(i);
  values.push_back(std::numeric_limits<double>::quiet_NaN());
  values.push_back(-std::numeric_limits<double>::infinity());
  const Histogram histogram = Histogram::of(values.data(), values.size());
  EXPECT_EQ(histogram.count, 61);
  EXPECT_EQ(histogram.min, 0);
  EXPECT_EQ(histogram.max, 60);
  EXPECT_EQ(histogram.sum, 1830);
  EXPECT_EQ(histogram.sum_squares, 73'810);
  ASSERT_EQ(histogram.limits.size(), static_cast<size_t>(Histogram::kBuckets));
  EXPECT_EQ(histogram.limits.front(), 2);
  EXPECT_EQ(histogram.limits.back(), 60);
  EXPECT_EQ(histogram.counts.front(), 2);
  EXPECT_EQ(histogram.counts.back(), 3);  // 58, 59 and the upper end.
}

TEST(Histogram, OfOneValueHasOneBucketAndOfNoneNoBucket) {
  const std::vector<float> same(5, 2.5F);
  EXPECT_THAT(Histogram::of(same.data(), same.size()).limits, ElementsAre(2.5));
  EXPECT_THAT(Histogram::of(same.data(), same.size()).counts, ElementsAre(5));
  EXPECT_EQ(Histogram::of(same.data(), 0).count, 0);
  EXPECT_TRUE(Histogram::of(same.data(), 0).limits.empty());
  const std::vector<double> far = {-1.7e308, 1.7e308};  // Their distance is infinite.
  EXPECT_THAT(Histogram::of(far.data(), far.size()).counts, ElementsAre(2));
}

TEST(Image, RefusesWhatIsNoPicture) {
  const auto refused = [](int64_t width, int64_t height, size_t bytes) {
    try {
      (void)Image::rgb(width, height, std::vector<uint8_t>(bytes));
    } catch (const Exception& exception) {
      return exception.error().message;
    }
    return std::string("not refused");
  };
  EXPECT_THAT(refused(2, 2, 11), HasSubstr("has 12 bytes, got 11"));
  EXPECT_THAT(refused(0, 2, 0), HasSubstr("1 to 16384"));
  EXPECT_EQ(refused(2, 2, 12), "not refused");
}

TEST(Image, IsAPngFile) {
  const std::string png = Image::grey(2, 2, std::vector<float>{0.0F, 0.5F, 1.0F, 7.0F}).png();
  EXPECT_TRUE(png.starts_with("\x89PNG\r\n\x1a\n"));
  // Stored lines: a filter byte each, then the pixels.
  const std::string lines{'\0', '\0', '\x80', '\0', '\xff', '\xff'};
  EXPECT_NE(png.find(lines), std::string::npos);
}

TEST(MediaEvents, AreFoundAmongOthersAndEndAtATornOne) {
  std::string file, kept;
  append_event_version(file, {});
  append_event_scalars(file, {}, 1, {{"loss", 1}});
  append_event_values(kept, {}, 1, {event_histogram("weights", Histogram::of(std::vector<double>{1, 2}.data(), 2))});
  append_event_values(kept, {}, 2, {event_image("sample", Image::grey(1, 1, std::vector<uint8_t>{7}))});
  file += kept;
  append_event_scalars(file, {}, 2, {{"loss", 1}});
  EXPECT_EQ(media_events_of(file), kept);
  EXPECT_EQ(media_events_of(file + "torn"), kept);
  EXPECT_EQ(media_events_of(kept.substr(0, kept.size() - 1)).size() + 1 < kept.size(), true);
  EXPECT_EQ(media_events_of(std::string(16, '\xff')), "");
}

class Draws : public Trainable {
  void setup(const Config&) override { add_histogram("at start", std::vector<float>{1, 2, 3}); }
  Metrics step() override {
    ++step_;
    add_histogram("weights", std::vector<double>{static_cast<double>(step_), 5});
    add_image("sample", Image::rgb(1, 1, {1, 2, 3}));
    return {{"loss", 1.0 / static_cast<double>(step_)}};
  }
  void save_checkpoint(const fs::path&) override {}
  void load_checkpoint(const fs::path&) override { step_ = get_checkpoint()->step(); }
  int64_t step_ = 0;
};

void reports_pictures(const Config&) {
  for (int step = 1; step <= 2; ++step) {
    add_image("sample", Image::grey(1, 1, std::vector<uint8_t>{7}));
    report({{"loss", step}});
  }
}

void reports_too_much(const Config&) {
  const Image image = Image::rgb(2'000, 2'000, std::vector<uint8_t>(12'000'000));
  add_image("a", image);
  add_image("b", image);
}

class MediaRunTest : public RunInProcess {
 protected:
  static std::string media_of(const Analysis& analysis) {
    std::string found;
    for (const auto& entry : fs::directory_iterator(analysis.directory() / folder_of(analysis.trials()[0]))) {
      if (entry.path().filename().string().starts_with("events.out")) found += media_events_of(read_text(entry.path()));
    }
    return found;
  }
  static int count(const std::string& text, const std::string& word) {
    int found = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
    return found;
  }
};

TEST_F(MediaRunTest, HistogramsAndImagesStandInTheEventFileAtTheirSteps) {
  const auto analysis = run(with_parameters<Draws>(), {.stop = max_steps(3)});
  ASSERT_TRUE(analysis) << analysis.error().message;
  const std::string media = media_of(*analysis);
  EXPECT_EQ(count(media, "weights"), 3);
  EXPECT_EQ(count(media, "sample"), 3);
  EXPECT_EQ(count(media, "at start"), 1);
  const auto function = run(with_parameters<reports_pictures>(), {});
  ASSERT_TRUE(function) << function.error().message;
  EXPECT_EQ(count(media_of(*function), "sample"), 2);
}

TEST_F(MediaRunTest, TheyAreKeptWhereAResumedRunWritesTheFilesAnew) {
  RunOptions options = {.stop = max_steps(1'000'000), .max_losses = 0, .checkpoint = {.frequency = 1}};
  options.time_budget = std::chrono::milliseconds(150);
  const auto first = run(with_parameters<Draws>(), options);
  ASSERT_TRUE(first) << first.error().message;
  const int before = count(media_of(*first), "weights");
  ASSERT_GT(before, 0);
  fs::resize_file(first->directory() / folder_of(first->trials()[0]) / "result.json",
                  0);  // Like a killed program.
  options.resume = first->directory();
  options.time_budget = std::chrono::milliseconds(200);
  const auto second = run(with_parameters<Draws>(), options);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_GE(count(media_of(*second), "weights"), before);
  EXPECT_EQ(static_cast<int64_t>(second->results().size()), second->trials()[0].step);
}

TEST_F(MediaRunTest, TooMuchOfOneStepFailsTheAttemptWithTheLimit) {
  const auto analysis = run(with_parameters<reports_too_much>(), {});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_THAT(analysis->trials()[0].error, HasSubstr("16 MiB"));
}

TEST(Media, HasNoMeaningOutsideOfATrial) { EXPECT_THROW(add_histogram("weights", std::vector<double>{1}), Exception); }

}  // namespace
}  // namespace volador::tune
