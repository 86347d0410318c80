#include "volador/roles/long_polls.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace volador {
namespace {

constexpr LongPolls::Key kTrial{.is_trial = true, .id = 7};
constexpr LongPolls::Key kExperiment{.is_trial = false, .id = 7};

BootTime at(int64_t ms) { return BootTime(std::chrono::milliseconds(ms)); }

class LongPollsTest : public testing::Test {
 protected:
  void add(LongPolls::Key key, int64_t until_ms, const std::string& name, const bool* ready) {
    polls_.add(key, at(until_ms), [this, name, ready](bool last) {
      if (!*ready && !last) return false;
      answered_.push_back(name + (last ? " late" : ""));
      return true;
    });
  }

  LongPolls polls_;
  std::vector<std::string> answered_;
};

TEST_F(LongPollsTest, AChangeAnswersThoseThatAreReady) {
  bool ready = false;
  const bool never = false;
  add(kTrial, 100, "a", &ready);
  add(kTrial, 50, "b", &never);
  add(kExperiment, 70, "c", &ready);
  polls_.on_changed(kTrial);
  EXPECT_TRUE(answered_.empty());
  ready = true;
  polls_.on_changed(kTrial);
  EXPECT_EQ(answered_, std::vector<std::string>{"a"});
  polls_.on_changed(kTrial);
  EXPECT_EQ(answered_.size(), 1U);
  polls_.on_changed(kExperiment);
  EXPECT_EQ(answered_.back(), "c");
  EXPECT_EQ(polls_.size(), 1U);
}

TEST_F(LongPollsTest, TheirTimeAnswersTheRest) {
  const bool never = false;
  add(kTrial, 100, "a", &never);
  add(kTrial, 50, "b", &never);
  add(kExperiment, 50, "c", &never);
  EXPECT_EQ(polls_.deadline(), at(50));
  polls_.on_time(at(49));
  EXPECT_TRUE(answered_.empty());
  polls_.on_time(at(50));
  EXPECT_EQ(answered_, (std::vector<std::string>{"b late", "c late"}));
  EXPECT_EQ(polls_.deadline(), at(100));
  polls_.on_time(at(1000));
  EXPECT_EQ(polls_.size(), 0U);
  EXPECT_EQ(polls_.deadline(), std::nullopt);
}

}  // namespace
}  // namespace volador
