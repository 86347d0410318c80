#include "runtime/files/directory_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "runtime/files/archive_tar.h"
#include "tests/tune/temporary_directory.h"

namespace volador {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

using tune::read_text;
using tune::write_text;

class DirectoryPartsTest : public testing::Test {
 protected:
  DirectoryPartsTest() {
    write("note", "small"), write("model/a", large('a')), write("model/b", large('b')),
        write("model/deep/c", "small too");
  }

  static std::string large(char letter) { return std::string(1'000, letter); }
  void write(const std::string& name, const std::string& text) const { write_text(source() / name, text); }
  fs::path source() const { return directory_.path() / "source"; }
  std::vector<DirectoryPart> pack() {
    auto parts = packer_.pack(source());
    EXPECT_TRUE(parts) << parts.error().message;
    return *parts;
  }
  // Writes the parts as files, then unpacks them to a directory.
  fs::path unpack(const std::vector<DirectoryPart>& parts) {
    const fs::path stored = directory_.path() / "stored";
    const fs::path target = directory_.path() / "target";
    fs::remove_all(stored);
    fs::remove_all(target);
    fs::create_directory(stored);
    for (size_t at = 0; at < parts.size(); ++at)
      fs::copy_file(packer_.archive(parts[at].sha256), stored / part_name(parts, at));
    const auto unpacked = unpack_archives(parts_in(stored), target, {}, Durability::kProcess);
    EXPECT_TRUE(unpacked) << unpacked.error().message;
    return target;
  }

  TemporaryDirectory directory_;
  DirectoryPacker packer_{directory_.path() / "packed", {.own_bytes_min = 1'000, .own_max = 3}};
};

TEST_F(DirectoryPartsTest, TogetherTheyAreTheDirectory) {
  ASSERT_EQ(::chmod((source() / "model" / "a").c_str(), 0750), 0);
  const auto parts = pack();
  ASSERT_EQ(parts.size(), 3u);
  const fs::path target = unpack(parts);
  EXPECT_EQ(read_text(target / "note"), "small");
  EXPECT_EQ(read_text(target / "model/a"), large('a'));
  EXPECT_EQ(fs::status(target / "model/a").permissions(), fs::perms(0750));
  EXPECT_EQ(read_text(target / "model/b"), large('b'));
  EXPECT_EQ(read_text(target / "model/deep/c"), "small too");
}

TEST_F(DirectoryPartsTest, WhatDidNotChangeIsTheSamePart) {
  const auto first = pack();
  write("model/b", large('B'));
  const auto second = pack();
  EXPECT_EQ(second[0], first[0]);
  EXPECT_EQ(second[1], first[1]);
  EXPECT_NE(second[2], first[2]);
  write("note", "else");
  const auto third = pack();
  EXPECT_NE(third[0], second[0]);
  EXPECT_THAT(std::vector(third.begin() + 1, third.end()), ElementsAre(second[1], second[2]));
  ASSERT_EQ(::chmod((source() / "model" / "a").c_str(), 0600 ^ 0100), 0);
  EXPECT_NE(pack()[1], third[1]) << "permissions belong to it";
  EXPECT_FALSE(fs::exists(packer_.archive(first[2].sha256))) << "of an earlier time";
  // Another packer gives the same result.
  DirectoryPacker other(directory_.path() / "other", {.own_bytes_min = 1'000, .own_max = 3});
  EXPECT_EQ(*other.pack(source()), pack());
}

TEST_F(DirectoryPartsTest, OnlyTheLargestFilesAreAlone) {
  for (int i = 0; i < 5; ++i) write("more/" + std::to_string(i), std::string(2'000 + static_cast<size_t>(i), 'x'));
  const auto parts = pack();
  EXPECT_EQ(parts.size(), 4u);
  EXPECT_EQ(read_text(unpack(parts) / "more/1"), std::string(2'001, 'x'));
}

TEST_F(DirectoryPartsTest, AnEmptyDirectoryIsOnePart) {
  fs::remove_all(source());
  fs::create_directory(source());
  const auto parts = pack();
  EXPECT_EQ(parts.size(), 1u);
  EXPECT_TRUE(fs::is_empty(unpack(parts)));
}

TEST_F(DirectoryPartsTest, AnArchiveThatIsGoneIsMadeAgain) {
  const auto first = pack();
  fs::remove(packer_.archive(first[1].sha256));
  EXPECT_EQ(pack(), first);
  EXPECT_TRUE(fs::exists(packer_.archive(first[1].sha256)));
}

TEST_F(DirectoryPartsTest, OneFileInTwoPartsIsRefused) {
  const auto parts = pack();
  const fs::path twice = packer_.archive(parts[1].sha256);
  const auto unpacked = unpack_archives({packer_.archive(parts[0].sha256), twice, twice}, directory_.path() / "target");
  ASSERT_FALSE(unpacked);
  EXPECT_FALSE(fs::exists(directory_.path() / "target"));
}

TEST_F(DirectoryPartsTest, ATarFileHoldsAllOfThem) {
  const auto parts = pack();
  std::vector<fs::path> archives;
  for (const DirectoryPart& part : parts) archives.push_back(packer_.archive(part.sha256));
  auto tar = ArchiveTar::open(archives);
  ASSERT_TRUE(tar);
  std::string all;
  while (true) {
    auto piece = tar->next();
    ASSERT_TRUE(piece) << piece.error().message;
    if (piece->empty()) break;
    all += *piece;
  }
  write_text(directory_.path() / "all.tar", all);
  const fs::path target = directory_.path() / "from_tar";
  fs::create_directory(target);
  ASSERT_EQ(std::system(("tar -xf " + (directory_.path() / "all.tar").string() + " -C " + target.string()).c_str()), 0);
  EXPECT_EQ(read_text(target / "model/b"), large('b'));
  EXPECT_EQ(read_text(target / "note"), "small");
}

}  // namespace
}  // namespace volador
