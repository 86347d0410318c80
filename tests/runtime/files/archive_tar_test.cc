#include "runtime/files/archive_tar.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "runtime/files/directory_archive.h"

namespace volador {
namespace {

namespace fs = std::filesystem;

class ArchiveTarTest : public testing::Test {
 protected:
  ArchiveTarTest() {
    std::string path = (fs::temp_directory_path() / "volador-tar-XXXXXX").string();
    folder_ = ::mkdtemp(path.data());
  }
  ~ArchiveTarTest() override { fs::remove_all(folder_); }

  static void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  static std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path pack() {
    const auto packed = pack_directory(folder_ / "in", folder_ / "archive.vla", {}, Durability::kProcess);
    EXPECT_TRUE(packed) << packed.error().message;
    return folder_ / "archive.vla";
  }
  // Unpacks the tar file with the machine's own tar.
  Result<void> unpack(const fs::path& archive) { return unpack(std::vector<fs::path>{archive}); }
  Result<void> unpack(const std::vector<fs::path>& archives) {
    auto tar = ArchiveTar::open(archives);
    if (!tar) return make_error(tar.error());
    std::ofstream out(folder_ / "out.tar", std::ios::binary);
    while (true) {
      auto piece = tar->next();
      if (!piece) return make_error(piece.error());
      EXPECT_LE(piece->size(), ArchiveTar::kPieceBytes + (size_t{64} << 10));
      if (piece->empty()) break;
      out << *piece;
    }
    out.close();
    fs::create_directories(folder_ / "out");
    EXPECT_EQ(std::system(("tar -xf " + (folder_ / "out.tar").string() + " -C " + (folder_ / "out").string()).c_str()),
              0);
    return {};
  }

  fs::path folder_;
};

TEST_F(ArchiveTarTest, TarUnpacksWhatWasPacked) {
  std::string large;
  for (int i = 0; i < 200'000; ++i) large += std::to_string(i * 7919) + "\n";
  const std::string deep = std::string(90, 'd') + "/" + std::string(90, 'f') + ".bin";
  write(folder_ / "in/weights.bin", large);
  write(folder_ / "in/empty", "");
  write(folder_ / "in" / deep, "deep");
  fs::create_directories(folder_ / "in/nothing");
  ASSERT_TRUE(unpack(pack()));
  EXPECT_EQ(read(folder_ / "out/weights.bin"), large);
  EXPECT_EQ(read(folder_ / "out" / deep), "deep");
  EXPECT_TRUE(fs::is_regular_file(folder_ / "out/empty"));
  EXPECT_TRUE(fs::is_directory(folder_ / "out/nothing"));
}

TEST_F(ArchiveTarTest, ATornArchiveEndsInAnError) {
  write(folder_ / "in/a", std::string(100'000, 'a') + "b");
  const fs::path archive = pack();
  std::string bytes = read(archive);
  write(folder_ / "short.vla", bytes.substr(0, bytes.size() - 40));
  EXPECT_FALSE(unpack(folder_ / "short.vla"));
  bytes[bytes.size() - 1] ^= 1;
  write(folder_ / "flipped.vla", bytes);
  EXPECT_FALSE(unpack(folder_ / "flipped.vla"));
  write(folder_ / "other", std::string(100, 'x'));
  EXPECT_FALSE(ArchiveTar::open({folder_ / "other"}));
}

}  // namespace
}  // namespace volador
