#include "runtime/files/directory_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <vector>

#include "runtime/random.h"
#include "tests/runtime/files/forged_archive.h"
#include "tests/tune/temporary_directory.h"

namespace volador {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using tune::read_text;
using tune::write_text;

std::string noise(size_t size, uint64_t seed) {
  SeededRandom random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random.next());
  return text;
}

// Writes a valid archive around any stream.
void forge(const fs::path& path, const std::string& stream) { write_text(path, forged_archive(stream)); }

class DirectoryArchive : public testing::Test {
 protected:
  fs::path source() const { return directory_.path() / "source"; }
  fs::path archive() const { return directory_.path() / "archive.vla"; }
  fs::path target() const { return directory_.path() / "target"; }

  void fill() {
    write_text(source() / "weights.pt", noise(3'000'000, 1));
    write_text(source() / "optimizer" / "state.json", R"({"step": 3})");
    write_text(source() / "optimizer" / "empty", "");
    fs::create_directories(source() / "nothing in here");
    fs::permissions(source() / "optimizer" / "state.json", fs::perms(0640));
  }
  // Expects only the archive and, if present, the source in the directory.
  void expect_nothing_left() {
    for (const auto& item : fs::directory_iterator(directory_.path())) {
      EXPECT_TRUE(item.path() == archive() || item.path() == source()) << item.path();
    }
  }

  TemporaryDirectory directory_;
};

TEST_F(DirectoryArchive, UnpacksWhatWasPacked) {
  fill();
  const auto packed = pack_directory(source(), archive());
  ASSERT_TRUE(packed) << packed.error().message;
  EXPECT_EQ(packed->entries, 5);
  EXPECT_EQ(packed->content_bytes, 3'000'000 + 11);
  EXPECT_EQ(packed->archive_bytes, static_cast<int64_t>(fs::file_size(archive())));
  const auto unpacked = unpack_archive(archive(), target());
  ASSERT_TRUE(unpacked) << unpacked.error().message;
  EXPECT_EQ(unpacked->sha256, packed->sha256);
  EXPECT_EQ(unpacked->content_bytes, packed->content_bytes);
  EXPECT_EQ(read_text(target() / "weights.pt"), read_text(source() / "weights.pt"));
  EXPECT_EQ(read_text(target() / "optimizer" / "state.json"), R"({"step": 3})");
  EXPECT_EQ(fs::file_size(target() / "optimizer" / "empty"), 0U);
  EXPECT_TRUE(fs::is_directory(target() / "nothing in here"));
  EXPECT_EQ(fs::status(target() / "optimizer" / "state.json").permissions(), fs::perms(0640));
  const auto verified = verify_archive(archive());
  ASSERT_TRUE(verified);
  EXPECT_EQ(verified->sha256, packed->sha256);
}

TEST_F(DirectoryArchive, EqualTreesGiveEqualArchives) {
  fill();
  const auto first = pack_directory(source(), archive());
  const auto second = pack_directory(source(), archive());
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->sha256, second->sha256);
}

TEST_F(DirectoryArchive, AnEmptyDirectoryIsAnArchiveToo) {
  fs::create_directories(source());
  ASSERT_TRUE(pack_directory(source(), archive()));
  ASSERT_TRUE(unpack_archive(archive(), target()));
  EXPECT_TRUE(fs::is_empty(target()));
}

TEST_F(DirectoryArchive, PackingRefusesLinksAndNamesThem) {
  fill();
  fs::create_symlink("/etc/passwd", source() / "latest");
  const auto packed = pack_directory(source(), archive());
  ASSERT_FALSE(packed);
  EXPECT_EQ(packed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(packed.error().message, HasSubstr("latest"));
  expect_nothing_left();
}

TEST_F(DirectoryArchive, PackingKeepsToItsLimits) {
  fill();
  EXPECT_FALSE(pack_directory(source(), archive(), {.content_bytes_max = 2'999'999}));
  EXPECT_FALSE(pack_directory(source(), archive(), {.entries_max = 4}));
  EXPECT_FALSE(pack_directory(source(), archive(), {.path_bytes_max = 5}));
  expect_nothing_left();
}

TEST_F(DirectoryArchive, EveryTruncationIsAnErrorThatChangesNothing) {
  write_text(source() / "a", noise(5000, 2));
  write_text(source() / "b" / "c", "text");
  ASSERT_TRUE(pack_directory(source(), archive()));
  const std::string whole = read_text(archive());
  for (size_t size = 0; size < whole.size(); size += size < 64 || size > whole.size() - 64 ? 1 : 97) {
    write_text(archive(), whole.substr(0, size));
    const auto unpacked = unpack_archive(archive(), target());
    ASSERT_FALSE(unpacked) << size;
    EXPECT_EQ(unpacked.error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(verify_archive(archive())) << size;
    expect_nothing_left();
  }
}

TEST_F(DirectoryArchive, EveryFlippedByteIsAnErrorThatChangesNothing) {
  write_text(source() / "a", noise(300, 3));
  write_text(source() / "b" / "c", std::string(2000, 'x'));
  ASSERT_TRUE(pack_directory(source(), archive()));
  const std::string whole = read_text(archive());
  for (size_t at = 0; at < whole.size(); at += at < 16 || at > whole.size() - 40 ? 1 : 5) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 0x15);
    write_text(archive(), bad);
    ASSERT_FALSE(unpack_archive(archive(), target())) << at;
    ASSERT_FALSE(verify_archive(archive())) << at;
    expect_nothing_left();
  }
}

TEST_F(DirectoryArchive, NamesThatLeaveTheTargetAreRefused) {
  const std::vector<std::string> names{"../evil", "/tmp/evil", "a/../../evil", "..",  ".",
                                       "",        "a//b",      "a/",           "./a", std::string("a\0b", 3)};
  for (const std::string& name : names) {
    forge(archive(), archive_entry(2, name, "x", 1) + archive_end(1, 1));
    const auto unpacked = unpack_archive(archive(), target());
    ASSERT_FALSE(unpacked) << name;
    EXPECT_EQ(unpacked.error().code, ErrorCode::kInvalidArgument) << name;
    expect_nothing_left();
  }
}

TEST_F(DirectoryArchive, ForgedStreamsAreRefused) {
  const auto refuse = [&](const std::string& stream, const std::string& why) {
    forge(archive(), stream);
    const auto unpacked = unpack_archive(archive(), target(), {.content_bytes_max = 1000, .entries_max = 3});
    ASSERT_FALSE(unpacked) << why;
    expect_nothing_left();
  };
  refuse(archive_entry(3, "link", "", 0) + archive_end(1, 0), "unknown kind");
  refuse(archive_entry(2, "a", "x", 1) + archive_entry(2, "a", "y", 1) + archive_end(2, 2), "one name twice");
  refuse(archive_entry(2, "a", "x", 1) + archive_entry(2, "a/b", "y", 1) + archive_end(2, 2), "a file as directory");
  refuse(archive_entry(2, "no/parent", "x", 1) + archive_end(1, 1), "no parent");
  refuse(archive_entry(2, "bomb", "x", 1ULL << 62) + archive_end(1, 1), "claims too much");
  refuse(archive_entry(2, "a", "x", 1) + archive_end(2, 1), "counts wrong");
  refuse(archive_entry(1, "a", "", 5) + archive_end(1, 0), "directory with contents");
  refuse(archive_entry(2, "a", "x", 1) + archive_end(1, 1) + "more", "data after the end");
  refuse(archive_entry(1, "1", "", 0) + archive_entry(1, "2", "", 0) + archive_entry(1, "3", "", 0) +
             archive_entry(1, "4", "", 0) + archive_end(4, 0),
         "too many");
}

TEST_F(DirectoryArchive, AFullTargetIsLeftAlone) {
  fill();
  ASSERT_TRUE(pack_directory(source(), archive()));
  write_text(target() / "mine", "keep");
  EXPECT_FALSE(unpack_archive(archive(), target()));
  EXPECT_EQ(read_text(target() / "mine"), "keep");
}

}  // namespace
}  // namespace volador
