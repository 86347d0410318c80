#include "runtime/control/program_uploader.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <vector>

namespace volador::control {
namespace {

using namespace std::chrono_literals;

// Uploads that last until the test ends them or their token requests a stop.
class ProgramUploaderTest : public testing::Test {
 protected:
  Result<void> upload(const std::stop_token& stop) {
    std::unique_lock hold(mutex_);
    ++begun_;
    changed_.notify_all();
    const std::stop_callback on_stop(stop, [this] { changed_.notify_all(); });
    changed_.wait(hold, [&] { return allowed_ > 0 || stop.stop_requested(); });
    if (stop.stop_requested()) {
      ++cancelled_;
      changed_.notify_all();
      return make_error(ErrorCode::kCancelled, "stopped");
    }
    --allowed_;
    ++ended_;
    changed_.notify_all();
    if (std::exchange(fail_next_, false)) return make_error(ErrorCode::kUnavailable, "declared by this test");
    return {};
  }
  void allow(bool fail = false) {
    const std::lock_guard hold(mutex_);
    fail_next_ = fail;
    ++allowed_;
    changed_.notify_all();
  }
  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock hold(mutex_);
    return changed_.wait_for(hold, 10s, condition);
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  int begun_ = 0, ended_ = 0, cancelled_ = 0, allowed_ = 0;
  bool fail_next_ = false;
  ProgramUploader uploader_{[this](const std::stop_token& stop) { return upload(stop); }};
};

TEST_F(ProgramUploaderTest, DoesNotWaitForAnUploadThatStalls) {
  uploader_.request(1);
  ASSERT_TRUE(wait([this] { return begun_ == 1; }));
  uploader_.request(1);  // Returns although nothing ends the first one.
  uploader_.request(2);  // The head restarted: the first upload is obsolete.
  ASSERT_TRUE(wait([this] { return cancelled_ == 1 && begun_ == 2; }));
  allow();
  ASSERT_TRUE(wait([this] { return ended_ == 1; }));
}

TEST_F(ProgramUploaderTest, RepeatsAfterAFailureOnlyWhatWasAskedForMeanwhile) {
  uploader_.request(1);
  ASSERT_TRUE(wait([this] { return begun_ == 1; }));
  uploader_.request(1);
  allow(true);
  ASSERT_TRUE(wait([this] { return begun_ == 2; }));
  uploader_.request(1);
  allow();
  ASSERT_TRUE(wait([this] { return ended_ == 2; }));
  uploader_.stop();
  EXPECT_EQ(begun_, 2) << "the upload that succeeded answered both requests";
}

TEST_F(ProgramUploaderTest, StopCancelsTheUpload) {
  uploader_.request(1);
  ASSERT_TRUE(wait([this] { return begun_ == 1; }));
  uploader_.stop();
  EXPECT_EQ(cancelled_, 1);
  uploader_.request(2);
  EXPECT_EQ(begun_, 1);
}

}  // namespace
}  // namespace volador::control
