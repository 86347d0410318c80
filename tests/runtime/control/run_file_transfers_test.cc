#include "runtime/control/run_file_transfers.h"

#include <gtest/gtest.h>

#include <fstream>
#include <future>

#include "runtime/control/run_file_server.h"
#include "runtime/files/directory_archive.h"
#include "tests/temporary_directory.h"

namespace volador::control {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class RunFileTransfersTest : public testing::Test {
 protected:
  RunFileTransfersTest() {
    write(root() / "outside", "secret");
    write(run() / "journal.vlj", "journal");
    write(run() / "3f2a90c1/result.json", "{}");
  }
  fs::path root() const { return directory_.path(); }
  fs::path run() const { return root() / "run"; }
  static void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  protocol::ReadRunFiles question(const std::string& trial, const std::string& name) {
    protocol::ReadRunFiles asked;
    asked.set_request(++request_);
    asked.set_directory(run().string());
    asked.set_trial(trial);
    asked.set_name(name);
    return asked;
  }
  protocol::ReadRunFiles next_of(uint64_t transfer) {
    protocol::ReadRunFiles asked;
    asked.set_request(++request_);
    asked.set_transfer(transfer);
    return asked;
  }
  protocol::RunFilesAnswer ask(const protocol::ReadRunFiles& asked) {
    const auto answer = transfers_.answer(now_, asked);
    EXPECT_TRUE(answer);
    if (!answer) return {};
    EXPECT_EQ(answer->request(), asked.request());
    return *answer;
  }
  ErrorCode refusal(const protocol::ReadRunFiles& asked) { return error_code_from(int64_t{ask(asked).error().code()}); }

  volador::TemporaryDirectory directory_;
  BootTime now_{1000s};
  RunFileTransfers transfers_{7, {.open = 3, .idle = 60s}};
  uint64_t request_ = 0;
};

TEST_F(RunFileTransfersTest, ASmallFileIsOneAnswer) {
  const auto listed = ask(question("", ""));
  ASSERT_EQ(listed.entries_size(), 1);
  EXPECT_EQ(listed.entries(0).name(), "journal.vlj");
  EXPECT_EQ(listed.entries(0).kind(), "file");
  EXPECT_EQ(listed.entries(0).bytes(), 7);
  const auto whole = ask(question("3f2a90c1", "result.json"));
  EXPECT_EQ(whole.piece(), "{}");
  EXPECT_EQ(whole.file_name(), "3f2a90c1_result.json");
  EXPECT_EQ(whole.content_type(), "application/json");
  EXPECT_EQ(whole.length(), 2);
  EXPECT_TRUE(whole.last());
  EXPECT_EQ(transfers_.open(), 0U);
}

TEST_F(RunFileTransfersTest, ALargeFileComesPieceByPieceAndIsClosedAfterItsLast) {
  std::string large;
  for (int i = 0; large.size() < 5 * FilePieces::kPieceBytes / 2; ++i) large += std::to_string(i);
  write(run() / "journal.vlj", large);
  auto answer = ask(question("", "journal.vlj"));
  EXPECT_EQ(answer.length(), static_cast<int64_t>(large.size()));
  std::string got = answer.piece();
  int pieces = 1;
  for (; !answer.last(); ++pieces) {
    EXPECT_LE(answer.piece().size(), FilePieces::kPieceBytes);
    EXPECT_EQ(transfers_.open(), 1U);
    answer = ask(next_of(answer.transfer()));
    EXPECT_FALSE(answer.has_length());
    got += answer.piece();
  }
  EXPECT_EQ(got, large);
  EXPECT_EQ(pieces, 3);
  EXPECT_EQ(transfers_.open(), 0U);
  EXPECT_EQ(refusal(next_of(answer.transfer())), ErrorCode::kNotFound);
}

TEST_F(RunFileTransfersTest, ACheckpointComesAsATarFileThatEndsWithAnEmptyPiece) {
  write(root() / "state/weights", std::string(FilePieces::kPieceBytes, 'w'));
  fs::create_directories(run() / "3f2a90c1/checkpoint_000020");
  ASSERT_TRUE(
      pack_directory(root() / "state", run() / "3f2a90c1/checkpoint_000020/archive.vla", {}, Durability::kProcess));
  auto answer = ask(question("3f2a90c1", "checkpoint_000020"));
  EXPECT_EQ(answer.file_name(), "3f2a90c1_checkpoint_000020.tar");
  EXPECT_FALSE(answer.has_length());
  std::string got = answer.piece();
  while (!answer.last()) {
    answer = ask(next_of(answer.transfer()));
    got += answer.piece();
  }
  EXPECT_TRUE(answer.piece().empty());
  EXPECT_EQ(got.substr(0, 8), std::string("weights\0", 8));
  EXPECT_EQ(got.size() % 512, 0U);
  EXPECT_GT(got.size(), FilePieces::kPieceBytes);
}

// Applies the rule for files of the head's machine (run_files_test.cc) to transfers.
TEST_F(RunFileTransfersTest, NothingLeadsOutOfTheDirectoryOfTheRun) {
  fs::create_symlink(root() / "outside", run() / "link");
  fs::create_directory_symlink(root(), run() / "folder");
  for (const char* name : {"..", "../outside", "/etc/passwd", "3f2a90c1/result.json", ".", ".hidden"}) {
    EXPECT_EQ(refusal(question("", name)), ErrorCode::kInvalidArgument) << name;
    EXPECT_EQ(refusal(question(name, "result.json")), ErrorCode::kInvalidArgument) << name;
    EXPECT_EQ(refusal(question(name, "")), ErrorCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(refusal(question("", "link")), ErrorCode::kNotFound);
  EXPECT_EQ(refusal(question("folder", "outside")), ErrorCode::kNotFound);
  EXPECT_EQ(refusal(question("folder", "")), ErrorCode::kNotFound);
  auto other = question("", "outside");
  other.set_directory(root().string());  // Contains no run.
  EXPECT_EQ(refusal(other), ErrorCode::kNotFound);
  other.set_directory("run");
  EXPECT_EQ(refusal(other), ErrorCode::kInvalidArgument);
  EXPECT_EQ(transfers_.open(), 0U);
}

TEST_F(RunFileTransfersTest, AFileThatIsCutOrGoneEndsItsTransferWithAnError) {
  write(run() / "journal.vlj", std::string(3 * FilePieces::kPieceBytes, 'j'));
  const auto begun = ask(question("", "journal.vlj"));
  fs::resize_file(run() / "journal.vlj", FilePieces::kPieceBytes);
  EXPECT_EQ(refusal(next_of(begun.transfer())), ErrorCode::kUnavailable);
  EXPECT_EQ(transfers_.open(), 0U);
  EXPECT_EQ(refusal(next_of(begun.transfer())), ErrorCode::kNotFound);
  EXPECT_EQ(refusal(question("", "gone")), ErrorCode::kNotFound);
  fs::remove_all(run());
  EXPECT_EQ(refusal(question("", "journal.vlj")), ErrorCode::kNotFound);
}

TEST_F(RunFileTransfersTest, AFileThatIsRemovedWhileItIsReadComesWhole) {
  write(run() / "3f2a90c1/weights", std::string(2 * FilePieces::kPieceBytes, 'w'));
  const auto begun = ask(question("3f2a90c1", "weights"));
  fs::remove(run() / "3f2a90c1/weights");
  const auto rest = ask(next_of(begun.transfer()));
  EXPECT_TRUE(rest.last());
  EXPECT_EQ(begun.piece().size() + rest.piece().size(), 2 * FilePieces::kPieceBytes);
}

TEST_F(RunFileTransfersTest, WhatNobodyAsksForEnds) {
  write(run() / "journal.vlj", std::string(3 * FilePieces::kPieceBytes, 'j'));
  EXPECT_FALSE(transfers_.expire(now_));
  const auto first = ask(question("", "journal.vlj"));
  now_ += 40s;
  const auto second = ask(question("", "journal.vlj"));
  EXPECT_NE(first.transfer(), second.transfer());
  EXPECT_EQ(transfers_.expire(now_), BootTime(1000s) + 60s);
  now_ += 19s;
  EXPECT_FALSE(ask(next_of(first.transfer())).last());  // It stays usable.
  now_ += 50s;
  EXPECT_EQ(transfers_.expire(now_), now_ + 10s);
  EXPECT_EQ(transfers_.open(), 1U);
  EXPECT_EQ(refusal(next_of(second.transfer())), ErrorCode::kNotFound);
  auto end = next_of(first.transfer());
  end.set_end(true);
  EXPECT_FALSE(transfers_.answer(now_, end));
  EXPECT_FALSE(transfers_.answer(now_, end));
  EXPECT_EQ(transfers_.open(), 0U);
}

TEST_F(RunFileTransfersTest, SoManyAtOnceAndNoMore) {
  write(run() / "journal.vlj", std::string(2 * FilePieces::kPieceBytes, 'j'));
  const auto first = ask(question("", "journal.vlj"));
  ask(question("", "journal.vlj"));
  ask(question("", "journal.vlj"));
  const auto refused = ask(question("", "journal.vlj"));
  EXPECT_EQ(error_code_from(int64_t{refused.error().code()}), ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message().find("3 files"), std::string::npos) << refused.error().message();
  EXPECT_EQ(ask(question("", "")).entries_size(), 1) << "lists hold nothing open";
  EXPECT_TRUE(ask(next_of(first.transfer())).last());
  EXPECT_EQ(ask(question("", "journal.vlj")).error().code(), 0);
}

TEST_F(RunFileTransfersTest, TheServerAnswersOnItsThreadInOrderAndNobodyAfterItsEnd) {
  const SystemClock clock;
  std::vector<uint64_t> order;
  {
    RunFileServer server(clock);
    std::promise<void> last;
    for (int n = 0; n < 20; ++n) {
      server.ask(question("", ""), [&order, &last](const protocol::RunFilesAnswer& answer) {
        order.push_back(answer.request());
        if (answer.request() == 20) last.set_value();
      });
    }
    last.get_future().wait();
    auto end = next_of(1);
    end.set_end(true);
    server.ask(end, [&order](const protocol::RunFilesAnswer&) { order.push_back(0); });
    server.ask(question("", "journal.vlj"), [](const protocol::RunFilesAnswer&) {});
  }
  ASSERT_EQ(order.size(), 20U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

}  // namespace
}  // namespace volador::control
