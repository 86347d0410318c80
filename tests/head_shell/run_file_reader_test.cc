// Files of a run on another machine, requested from members simulated by the test.
#include <gtest/gtest.h>

#include <future>

#include "head/shell/head_access.h"
#include "tests/head_shell/head_fixture.h"

namespace volador::head {
namespace {

using namespace std::chrono_literals;
using security::Role;

class RunFileReaderTest : public HeadFixture {
 protected:
  // Connects a driver and a node on the same machine, which is not the head's; the experiment is registered when it
  // returns.
  void begin(bool with_node) {
    start();
    if (with_node) {
      credentials_ = join(Role::kNode, "m2");
      node_ = serve_on("m2", "there", credentials_);
      ASSERT_TRUE(node_->inbox.next([](const auto& message) { return message.has_registered(); }));
    }
    driver_ = drive_on("there");
    protocol::ClientMessage update;
    update.mutable_experiment()->set_experiment("digits");
    update.mutable_experiment()->set_state("running");
    update.mutable_experiment()->set_directory("/runs/digits");
    driver_->link->send(update);
    protocol::ClientMessage ping;  // Its reply implies that earlier messages were handled.
    ping.mutable_ping()->set_sequence(1);
    driver_->link->send(ping);
    ASSERT_TRUE(driver_->inbox.next([](const auto& message) { return message.has_pong(); }));
  }

  // Returns the head's request, with a reply to fill in.
  protocol::ReadRunFiles asked_of_node() {
    const auto message = node_->inbox.next([](const auto& one) { return one.has_read_run_files(); });
    EXPECT_TRUE(message) << "nothing was asked";
    return message ? message->read_run_files() : protocol::ReadRunFiles();
  }
  protocol::ReadRunFiles asked_of_driver() {
    const auto message = driver_->inbox.next([](const auto& one) { return one.has_read_run_files(); });
    EXPECT_TRUE(message) << "nothing was asked";
    return message ? message->read_run_files() : protocol::ReadRunFiles();
  }
  static protocol::RunFilesAnswer answer_to(const protocol::ReadRunFiles& question) {
    protocol::RunFilesAnswer answer;
    answer.set_request(question.request());
    return answer;
  }
  static protocol::RunFilesAnswer refusal_of(const protocol::ReadRunFiles& question, ErrorCode code,
                                             const std::string& message) {
    auto answer = answer_to(question);
    answer.mutable_error()->set_code(static_cast<int>(code));
    answer.mutable_error()->set_message(message);
    return answer;
  }
  void node_says(protocol::RunFilesAnswer answer) {
    protocol::WorkerMessage message;
    *message.mutable_run_files() = std::move(answer);
    node_->link->send(std::move(message));
  }
  void driver_says(protocol::RunFilesAnswer answer) {
    protocol::ClientMessage message;
    *message.mutable_run_files() = std::move(answer);
    driver_->link->send(std::move(message));
  }

  template <class T>
  struct Later {
    std::shared_ptr<std::promise<Result<T>>> promise = std::make_shared<std::promise<Result<T>>>();
    std::future<Result<T>> future = promise->get_future();
    std::function<void(Result<T>)> done() {
      return [kept = promise](Result<T> result) { kept->set_value(std::move(result)); };
    }
    Result<T> get() { return future.get(); }
  };
  Later<RemoteFile> open(const std::string& name) {
    Later<RemoteFile> later;
    head_->access().open_run_file("digits", "t1", name, later.done());
    return later;
  }
  static Later<std::string> next_of(RemoteFile& file) {
    Later<std::string> later;
    file.pieces->next(later.done());
    return later;
  }

  security::Credentials credentials_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<Driver> driver_;
};

TEST_F(RunFileReaderTest, TheNodeOfTheMachineIsAskedPieceByPiece) {
  begin(true);
  Later<std::vector<RunFiles::Entry>> listed;
  head_->access().list_run_files("digits", "t1", listed.done());
  auto question = asked_of_node();
  EXPECT_EQ(question.directory(), "/runs/digits");
  EXPECT_EQ(question.trial(), "t1");
  EXPECT_EQ(question.name(), "");
  auto answer = answer_to(question);
  auto& entry = *answer.add_entries();
  entry.set_name("weights");
  entry.set_kind("file");
  entry.set_bytes(6);
  node_says(answer);
  const auto entries = listed.get();
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 1U);
  EXPECT_EQ((*entries)[0].name, "weights");

  auto opening = open("weights");
  question = asked_of_node();
  EXPECT_EQ(question.name(), "weights");
  answer = answer_to(question);
  answer.set_transfer(41);
  answer.set_file_name("t1_weights");
  answer.set_length(6);
  answer.set_piece("abc");
  node_says(answer);
  auto file = opening.get();
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->file_name, "t1_weights");
  EXPECT_EQ(file->length, 6U);
  EXPECT_EQ(*next_of(*file).get(), "abc");
  auto second = next_of(*file);
  question = asked_of_node();
  EXPECT_EQ(question.transfer(), 41U);
  EXPECT_FALSE(question.end());
  answer = answer_to(question);
  answer.set_piece("def");
  answer.set_last(true);
  node_says(answer);
  EXPECT_EQ(*second.get(), "def");
  EXPECT_EQ(*next_of(*file).get(), "");
}

TEST_F(RunFileReaderTest, WhoeverReadsIsToldThatTheRestIsNotWanted) {
  begin(true);
  auto opening = open("weights");
  auto answer = answer_to(asked_of_node());
  answer.set_transfer(41);
  answer.set_piece("abc");
  node_says(answer);
  auto file = opening.get();
  ASSERT_TRUE(file);
  file = make_error(ErrorCode::kCancelled, "the client has gone");
  const auto question = asked_of_node();
  EXPECT_EQ(question.transfer(), 41U);
  EXPECT_TRUE(question.end());
}

TEST_F(RunFileReaderTest, AMachineThatGoesInTheMiddleEndsTheFileWithAnError) {
  begin(true);
  auto opening = open("weights");
  auto answer = answer_to(asked_of_node());
  answer.set_transfer(41);
  answer.set_length(6);
  answer.set_piece("abc");
  node_says(answer);
  auto file = opening.get();
  ASSERT_TRUE(file);
  EXPECT_EQ(*next_of(*file).get(), "abc");
  auto second = next_of(*file);
  asked_of_node();
  node_->link.reset();
  const auto cut = second.get();
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(cut.error().message.find("node m2"), std::string::npos) << cut.error().message;
}

TEST_F(RunFileReaderTest, TheProgramReadsWhatTheNodeMayNot) {
  begin(true);
  auto opening = open("weights");
  node_says(refusal_of(asked_of_node(), ErrorCode::kPermissionDenied, "/runs/digits: Permission denied"));
  auto question = asked_of_driver();
  EXPECT_EQ(question.name(), "weights");
  auto answer = answer_to(question);
  answer.set_transfer(5);
  answer.set_piece("all");
  answer.set_last(true);
  driver_says(answer);
  auto file = opening.get();
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(*next_of(*file).get(), "all");

  auto again = open("weights");
  node_says(refusal_of(asked_of_node(), ErrorCode::kPermissionDenied, "/runs/digits: Permission denied"));
  driver_says(refusal_of(asked_of_driver(), ErrorCode::kPermissionDenied, "/runs/digits: Permission denied"));
  const auto refused = again.get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(refused.error().message.find("/runs/digits"), std::string::npos);

  auto gone = open("nothing");
  node_says(refusal_of(asked_of_node(), ErrorCode::kNotFound, "/runs/digits/t1/nothing: No such file or directory"));
  EXPECT_EQ(gone.get().error().code, ErrorCode::kNotFound) << "nobody else is asked";
}

TEST_F(RunFileReaderTest, TheProgramAloneIsAskedUntilItGoes) {
  begin(false);
  auto opening = open("weights");
  auto answer = answer_to(asked_of_driver());
  answer.set_transfer(5);
  answer.set_piece("abc");
  driver_says(answer);
  auto file = opening.get();
  ASSERT_TRUE(file);
  EXPECT_EQ(*next_of(*file).get(), "abc");
  auto second = next_of(*file);
  asked_of_driver();
  driver_->link.reset();
  EXPECT_EQ(second.get().error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(open("weights").get().error().code, ErrorCode::kInfeasible);
  EXPECT_EQ(open("").get().error().code, ErrorCode::kInvalidArgument);
}

// Request numbers are easy to guess.
TEST_F(RunFileReaderTest, OnlyWhoWasAskedCanAnswer) {
  begin(true);
  auto opening = open("weights");
  const auto question = asked_of_node();
  auto forged = answer_to(question);
  forged.set_piece("forged");
  forged.set_last(true);
  driver_says(forged);
  protocol::ClientMessage ping;
  ping.mutable_ping()->set_sequence(2);
  driver_->link->send(ping);
  ASSERT_TRUE(
      driver_->inbox.next([](const auto& message) { return message.has_pong() && message.pong().sequence() == 2; }));
  auto answer = answer_to(question);
  answer.set_piece("genuine");
  answer.set_last(true);
  node_says(answer);
  auto file = opening.get();
  ASSERT_TRUE(file);
  EXPECT_EQ(*next_of(*file).get(), "genuine");
}

}  // namespace
}  // namespace volador::head
