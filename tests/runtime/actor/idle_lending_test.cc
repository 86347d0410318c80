#include "runtime/actor/idle_lending.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace volador::internal {
namespace {

using namespace std::chrono_literals;

class IdleLendingTest : public testing::Test {
 protected:
  void SetUp() override {
    auto io = net::IoLoop::create();
    ASSERT_TRUE(io);
    io_ = std::move(*io);
    lending_ = std::make_shared<IdleLending>(*io_, clock_, [this](bool lend) {
      const std::lock_guard<std::mutex> hold(mutex_);
      told_.push_back(lend);
    });
  }
  void TearDown() override {
    lending_.reset();
    io_.reset();
  }
  std::vector<bool> told() {
    const std::lock_guard<std::mutex> hold(mutex_);
    return told_;
  }
  bool is_told(size_t count) {
    for (int turn = 0; turn < 30'000 && told().size() < count; ++turn) std::this_thread::sleep_for(1ms);
    return told().size() == count;
  }

  SystemClock clock_;
  std::unique_ptr<net::IoLoop> io_;
  std::mutex mutex_;
  std::vector<bool> told_;
  std::shared_ptr<IdleLending> lending_;
};

TEST_F(IdleLendingTest, WhatIsIdleIsLentOnceAndTakenBackForTheNextCall) {
  lending_->end();
  ASSERT_TRUE(is_told(1));
  lending_->begin();
  EXPECT_EQ(told(), (std::vector<bool>{true, false}));
  lending_->end();
  ASSERT_TRUE(is_told(3));
  EXPECT_EQ(told(), (std::vector<bool>{true, false, true}));
}

TEST_F(IdleLendingTest, NothingIsSaidOfWhatWorksAllTheTime) {
  const auto until = std::chrono::steady_clock::now() + 100ms;
  lending_->begin();
  std::this_thread::sleep_for(30ms);
  EXPECT_TRUE(told().empty()) << "one call that takes long";
  while (std::chrono::steady_clock::now() < until) {
    io_->run([&] {  // On the timer's thread: it never runs in between.
      lending_->end();
      lending_->begin();
    });
  }
  EXPECT_TRUE(told().empty()) << "many short ones";
}

TEST_F(IdleLendingTest, ATimerThatIsLeftMeetsNobody) {
  lending_->end();
  lending_.reset();
  std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(told().empty());
}

}  // namespace
}  // namespace volador::internal
