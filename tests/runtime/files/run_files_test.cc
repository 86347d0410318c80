#include "runtime/files/run_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "runtime/files/directory_archive.h"

namespace volador {
namespace {

namespace fs = std::filesystem;

class RunFilesTest : public testing::Test {
 protected:
  RunFilesTest() {
    std::string path = (fs::temp_directory_path() / "volador-files-XXXXXX").string();
    root_ = ::mkdtemp(path.data());
    write(root_ / "outside", "secret");
    write(run() / "journal.vlj", "journal");
    write(run() / "3f2a90c1/result.json", "{}");
    write(run() / "3f2a90c1/checkpoint_000010/archive.vla", "no archive");
    write(root_ / "state/weights", std::string(1000, 'w'));
    fs::create_directories(run() / "3f2a90c1/checkpoint_000020");
    EXPECT_TRUE(
        pack_directory(root_ / "state", run() / "3f2a90c1/checkpoint_000020/archive.vla", {}, Durability::kProcess));
  }
  ~RunFilesTest() override { fs::remove_all(root_); }

  static void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  fs::path run() const { return root_ / "run"; }
  static Result<std::string> all_of(FilePieces& pieces) {
    std::string out;
    while (true) {
      auto piece = pieces.next();
      if (!piece || piece->empty()) return piece ? Result<std::string>(out) : piece;
      out += *piece;
    }
  }
  Result<std::string> read(const std::string& trial, const std::string& name) const {
    auto opened = RunFiles(run()).open(trial, name);
    if (!opened) return make_error(opened.error());
    return all_of(*opened->pieces);
  }
  ErrorCode refusal(const std::string& trial, const std::string& name) const {
    const auto opened = RunFiles(run()).open(trial, name);
    return opened ? ErrorCode::kInternal : opened.error().code;
  }

  fs::path root_;
};

TEST_F(RunFilesTest, ListsFilesAndCompleteCheckpoints) {
  fs::create_directories(run() / "3f2a90c1/.checkpoint_000030.partial");
  fs::create_directories(run() / "3f2a90c1/checkpoint_000040");
  const auto run_files = RunFiles(run()).list("");
  ASSERT_TRUE(run_files);
  ASSERT_EQ(run_files->size(), 1U);
  EXPECT_EQ((*run_files)[0].name, "journal.vlj");
  EXPECT_EQ((*run_files)[0].bytes, 7);
  const auto trial = RunFiles(run()).list("3f2a90c1");
  ASSERT_TRUE(trial);
  ASSERT_EQ(trial->size(), 3U);
  EXPECT_EQ((*trial)[0].name, "checkpoint_000010");
  EXPECT_EQ((*trial)[1].kind, "checkpoint");
  EXPECT_EQ((*trial)[2].kind, "file");
}

TEST_F(RunFilesTest, FilesComeWhole) {
  std::string large;
  for (int i = 0; i < 100'000; ++i) large += std::to_string(i);
  write(run() / "journal.vlj", large);
  EXPECT_EQ(*read("", "journal.vlj"), large);
  EXPECT_EQ(*read("3f2a90c1", "result.json"), "{}");
}

TEST_F(RunFilesTest, ACheckpointComesAsATarFile) {
  const auto tar = read("3f2a90c1", "checkpoint_000020");
  ASSERT_TRUE(tar) << tar.error().message;
  EXPECT_EQ(tar->size() % 512, 0U);
  EXPECT_EQ(tar->substr(0, 8), std::string("weights\0", 8));
  EXPECT_EQ(refusal("3f2a90c1", "checkpoint_000010"), ErrorCode::kUnavailable);  // Incomplete.
}

TEST_F(RunFilesTest, NoNameLeadsElsewhere) {
  fs::create_symlink(root_ / "outside", run() / "link");
  fs::create_directory_symlink(root_, run() / "folder");
  fs::create_symlink(root_ / "outside", run() / "3f2a90c1/link");
  ASSERT_EQ(::mkfifo((run() / "pipe").c_str(), 0600), 0);
  for (const std::string& name :
       {std::string(".."), std::string("."), std::string(""), std::string("../outside"), std::string("/etc/passwd"),
        std::string("3f2a90c1/result.json"), std::string(".hidden"), std::string("a\nb")}) {
    EXPECT_EQ(refusal("", name), ErrorCode::kInvalidArgument) << name;
    if (name.empty()) continue;  // The run itself.
    EXPECT_EQ(refusal(name, "result.json"), ErrorCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(refusal("", "link"), ErrorCode::kNotFound);
  EXPECT_EQ(refusal("3f2a90c1", "link"), ErrorCode::kNotFound);
  EXPECT_EQ(refusal("folder", "outside"), ErrorCode::kNotFound);
  EXPECT_EQ(refusal("", "pipe"), ErrorCode::kNotFound);  // And does not wait for a writer.
  EXPECT_EQ(refusal("", "3f2a90c1"), ErrorCode::kNotFound);
  const auto listed = RunFiles(run()).list("");
  ASSERT_TRUE(listed);
  EXPECT_EQ(listed->size(), 1U);
  EXPECT_FALSE(RunFiles(run()).list("folder"));
}

TEST_F(RunFilesTest, AFileThatGrowsComesAsLongAsItWas) {
  const auto opened = RunFiles(run()).open("", "journal.vlj");
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->pieces->length(), 7U);
  std::ofstream(run() / "journal.vlj", std::ios::app) << " goes on";
  EXPECT_EQ(*all_of(*opened->pieces), "journal");
}

TEST_F(RunFilesTest, AFileThatIsCutEndsInAnError) {
  const auto opened = RunFiles(run()).open("", "journal.vlj");
  ASSERT_TRUE(opened);
  fs::resize_file(run() / "journal.vlj", 3);
  EXPECT_FALSE(all_of(*opened->pieces));
}

TEST_F(RunFilesTest, AFolderThatHoldsNoRunIsNotOpened) {
  write(root_ / "head/authority.key", "secret");
  for (const char* marker : {"", "folder", "link"}) {
    if (std::string(marker) == "folder") fs::create_directories(root_ / "head/journal.vlj");
    if (std::string(marker) == "link") {
      fs::remove(root_ / "head/journal.vlj");
      fs::create_symlink(run() / "journal.vlj", root_ / "head/journal.vlj");
    }
    const RunFiles files(root_ / "head");
    const auto opened = files.open("", "authority.key");
    ASSERT_FALSE(opened) << marker;
    EXPECT_NE(opened.error().message.find("holds no run: journal.vlj is missing there"), std::string::npos)
        << opened.error().message;
    EXPECT_FALSE(files.list("")) << marker;
  }
}

TEST_F(RunFilesTest, ADirectoryThatIsNotAbsoluteIsNotOpened) {
  for (const char* directory : {"", ".", "run", "../run"}) {
    EXPECT_EQ(RunFiles(directory).list("").error().code, ErrorCode::kInvalidArgument) << directory;
    EXPECT_EQ(RunFiles(directory).open("", "journal.vlj").error().code, ErrorCode::kInvalidArgument) << directory;
  }
}

}  // namespace
}  // namespace volador
