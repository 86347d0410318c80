#include "dashboard/remote_body.h"

#include <gtest/gtest.h>

#include <deque>

namespace volador::dashboard {
namespace {

// A sender controlled by the test.
class Sender final : public LaterPieces {
 public:
  explicit Sender(bool& gone) : gone_(gone) {}
  ~Sender() override { gone_ = true; }
  void next(Done done) override {
    EXPECT_FALSE(asked_) << "one at a time";
    ++questions;
    asked_ = std::move(done);
  }
  bool is_asked() const { return static_cast<bool>(asked_); }
  void send(Result<std::string> piece) { std::exchange(asked_, nullptr)(std::move(piece)); }

  int questions = 0;

 private:
  bool& gone_;
  Done asked_;
};

class RemoteBodyTest : public testing::Test {
 protected:
  // Runs the pending functions of the server's thread.
  void run_turns() {
    while (!turns_.empty()) {
      const auto turn = std::move(turns_.front());
      turns_.pop_front();
      turn();
    }
  }
  void send(Result<std::string> piece) {
    sender_->send(std::move(piece));
    run_turns();
  }
  void want() {
    body_->next([this](Result<std::string> piece) { got_.push_back(std::move(piece)); });
    run_turns();
  }

  bool gone_ = false;
  std::deque<std::function<void()>> turns_;
  std::shared_ptr<Sender> sender_ = std::make_shared<Sender>(gone_);
  std::shared_ptr<RemoteBody> body_ = std::make_shared<RemoteBody>(
      sender_, 6, [this](std::function<void()> turn) { turns_.push_back(std::move(turn)); });
  std::vector<Result<std::string>> got_;
};

TEST_F(RemoteBodyTest, PiecesComeInOrderWithOneAskedForAhead) {
  EXPECT_EQ(body_->length(), 6U);
  EXPECT_EQ(sender_->questions, 0);
  want();
  EXPECT_EQ(sender_->questions, 1);
  EXPECT_TRUE(got_.empty());
  send("abc");
  ASSERT_EQ(got_.size(), 1U);
  EXPECT_EQ(*got_[0], "abc");
  EXPECT_EQ(sender_->questions, 2) << "while the client takes this one";
  want();
  send("def");
  EXPECT_EQ(*got_[1], "def");
  want();
  send("");
  ASSERT_EQ(got_.size(), 3U);
  EXPECT_EQ(*got_[2], "");
  EXPECT_EQ(sender_->questions, 3) << "nothing is asked after the end";
}

TEST_F(RemoteBodyTest, ASlowClientHoldsOnePieceAhead) {
  want();
  send("abc");
  send("def");
  EXPECT_FALSE(sender_->is_asked());
  EXPECT_EQ(sender_->questions, 2);
  EXPECT_EQ(got_.size(), 1U);
  want();
  EXPECT_EQ(*got_[1], "def");
  EXPECT_EQ(sender_->questions, 3);
}

TEST_F(RemoteBodyTest, AnErrorCutsTheBodyWhereverItComes) {
  want();
  send("abc");
  send(make_error(ErrorCode::kUnavailable, "the machine is gone"));
  EXPECT_EQ(got_.size(), 1U) << "what came before it is handed out first";
  want();
  ASSERT_EQ(got_.size(), 2U);
  EXPECT_FALSE(got_[1]);
  EXPECT_EQ(got_[1].error().message, "the machine is gone");
  EXPECT_EQ(sender_->questions, 2);
}

TEST_F(RemoteBodyTest, AClientThatLeavesEndsTheTransferAndNothingIsHandedToIt) {
  want();
  send("abc");
  Sender* const sender = sender_.get();
  sender->send("def");  // Still queued for the server's thread.
  sender_.reset();
  body_.reset();
  EXPECT_TRUE(gone_);
  run_turns();
  EXPECT_EQ(got_.size(), 1U);
}

}  // namespace
}  // namespace volador::dashboard
