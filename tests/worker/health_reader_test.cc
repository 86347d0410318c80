#include "worker/resources/health_reader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/temporary_directory.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

class HealthReaderTest : public ::testing::Test {
 protected:
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((folder_.path() / file).parent_path());
    std::ofstream(folder_.path() / file) << text;
  }
  void state(const std::string& card, const std::string& text) { write("sys/class/net/" + card + "/operstate", text); }
  std::vector<std::pair<std::string, bool>> cards(const HealthReader& reader) {
    std::vector<std::pair<std::string, bool>> out;
    for (const HealthSample::Card& card : reader.read({}).cards) out.emplace_back(card.name, card.up);
    return out;
  }

  volador::TemporaryDirectory folder_;
};

using Cards = std::vector<std::pair<std::string, bool>>;

TEST_F(HealthReaderTest, WatchesTheCardsOfDefaultRoutesAndOfTheNodesAddressThatWereUp) {
  write("proc/net/route",
        "Iface\tDestination\tGateway\n"
        "eth0\t00000000\t0100000A\neth1\t0000000A\t00000000\neth9\t00000000\t0100000A\n");
  write("proc/net/ipv6_route",
        "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe80 00000400 1 0 3 eth2\n"
        "00000000000000000000000000000000 00 00000000000000000000000000000000 00 0000 ffffffff 1 0 200200 lo\n");
  for (const char* card : {"eth0", "eth1", "eth2", "ib0"}) state(card, "up\n");
  state("eth9", "down\n");
  const HealthReader reader("ib0", folder_.path());
  EXPECT_EQ(cards(reader), (Cards{{"eth0", true}, {"eth2", true}, {"ib0", true}}));
  state("eth0", "down\n");
  fs::remove_all(folder_.path() / "sys/class/net/ib0");
  EXPECT_EQ(cards(reader), (Cards{{"eth0", false}, {"eth2", true}, {"ib0", false}}));
}

TEST_F(HealthReaderTest, LooksOnlyAtFileSystemsThatTheWorkerWritesTo) {
  protocol::MachineUsage usage;
  usage.add_file_systems()->set_path("/");
  protocol::FileSystemUsage& logs = *usage.add_file_systems();
  logs.set_path("/");
  logs.add_uses("logs");
  logs.set_free_bytes(5);
  const HealthSample sample = HealthReader("", folder_.path()).read(usage);
  ASSERT_EQ(sample.file_systems.size(), 1U);
  EXPECT_EQ(sample.file_systems[0].free_bytes, 5);
  EXPECT_FALSE(sample.file_systems[0].read_only);
}

TEST(HealthReader, KnowsTheCardOfAnAddress) {
  EXPECT_EQ(card_with_address("127.0.0.1"), "lo");
  EXPECT_EQ(card_with_address("203.0.113.77"), "");
  EXPECT_EQ(card_with_address("0.0.0.0"), "");
}

}  // namespace
}  // namespace volador::worker
