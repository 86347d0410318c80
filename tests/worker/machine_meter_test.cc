#include "worker/resources/machine_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "tests/temporary_directory.h"
#include "worker/resources/machine_watch.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MachineMeterTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const fs::path file = folder_.path() / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void disk(int sectors_read, int sectors_written) {
    const std::string numbers =
        " 9 9 " + std::to_string(sectors_read) + " 9 9 9 " + std::to_string(sectors_written) + " 9 9 9 9";
    write("proc/diskstats", " 8 0 sda" + numbers + "\n 8 1 sda1" + numbers + "\n 253 0 dm-0" + numbers);
    fs::create_directories(folder_.path() / "sys/block/sda/device");
    fs::create_directories(folder_.path() / "sys/block/dm-0");
  }
  void network(const std::string& name, int received, int sent) {
    networks_ +=
        "  " + name + ": " + std::to_string(received) + " 1 0 0 0 0 0 0 " + std::to_string(sent) + " 1 0 0 0 0 0 0\n";
  }
  void write_networks() { write("proc/net/dev", "Inter-|   Receive\n face |bytes\n" + std::exchange(networks_, {})); }
  MachineMeter meter(std::vector<UsedFolder> folders = {}) { return MachineMeter(std::move(folders), folder_.path()); }
  static BootTime at(int second) { return BootTime(std::chrono::seconds(second)); }

  volador::TemporaryDirectory folder_;
  std::string networks_;
};

TEST_F(MachineMeterTest, AMachineThatTellsNothingHasNoMeasures) {
  MachineMeter machine = meter({{.use = "logs", .path = "/"}});
  for (int second = 1; second < 3; ++second) EXPECT_EQ(machine.read(at(second)).ByteSizeLong(), 0U);
}

TEST_F(MachineMeterTest, RatesAreOfWholeDisksSinceTheReadingBefore) {
  MachineMeter machine = meter();
  disk(100, 1000);
  EXPECT_FALSE(machine.read(at(10)).has_disk_read_bytes_per_s());
  disk(140, 3000);
  const auto usage = machine.read(at(12));
  EXPECT_DOUBLE_EQ(usage.disk_read_bytes_per_s(), 40 * 512 / 2.0);
  EXPECT_DOUBLE_EQ(usage.disk_write_bytes_per_s(), 2000 * 512 / 2.0);
  disk(0, 3000);  // Another disk with the same name.
  EXPECT_DOUBLE_EQ(machine.read(at(14)).disk_read_bytes_per_s(), 0);
}

TEST_F(MachineMeterTest, BridgesAndTheLoopbackDoNotCountBesideACard) {
  fs::create_directories(folder_.path() / "sys/class/net/eth0/device");
  MachineMeter machine = meter();
  network("lo", 0, 0), network("eth0", 100, 50), network("docker0", 0, 0), write_networks();
  (void)machine.read(at(1));
  network("lo", 9000, 9000), network("eth0", 1100, 250), network("docker0", 700, 700), write_networks();
  const auto usage = machine.read(at(2));
  EXPECT_DOUBLE_EQ(usage.network_receive_bytes_per_s(), 1000);
  EXPECT_DOUBLE_EQ(usage.network_send_bytes_per_s(), 200);
}

TEST_F(MachineMeterTest, WithoutACardTheEndsOfPairsCount) {
  MachineMeter machine = meter();
  network("lo", 0, 0), network("eth0", 100, 50), write_networks();
  (void)machine.read(at(1));
  network("lo", 9000, 9000), network("eth0", 1100, 250), write_networks();
  EXPECT_DOUBLE_EQ(machine.read(at(2)).network_receive_bytes_per_s(), 1000);
}

TEST_F(MachineMeterTest, TheTemperatureIsThatOfTheProcessor) {
  write("sys/class/hwmon/hwmon0/name", "nvme");
  write("sys/class/hwmon/hwmon0/temp1_input", "90000");
  EXPECT_FALSE(meter().read(at(1)).has_cpu_temperature_celsius());
  write("sys/class/thermal/thermal_zone0/type", "acpitz");
  write("sys/class/thermal/thermal_zone0/temp", "95000");
  write("sys/class/thermal/thermal_zone1/type", "x86_pkg_temp");
  write("sys/class/thermal/thermal_zone1/temp", "48000");
  EXPECT_DOUBLE_EQ(meter().read(at(1)).cpu_temperature_celsius(), 48);
  write("sys/class/hwmon/hwmon1/name", "coretemp");
  write("sys/class/hwmon/hwmon1/temp1_label", "Package id 0");
  write("sys/class/hwmon/hwmon1/temp1_input", "61500");
  write("sys/class/hwmon/hwmon1/temp2_label", "Core 0");
  write("sys/class/hwmon/hwmon1/temp2_input", "70000");
  EXPECT_DOUBLE_EQ(meter().read(at(1)).cpu_temperature_celsius(), 61.5);
  write("sys/class/hwmon/hwmon1/temp1_input", "-128000");  // Not a sensor.
  EXPECT_FALSE(meter().read(at(1)).has_cpu_temperature_celsius());
}

TEST_F(MachineMeterTest, PowerIsOfAllPackagesAlsoWhereACounterBeginsAnew) {
  for (const std::string zone : {"0", "1"}) {
    write("sys/class/powercap/intel-rapl:" + zone + "/name", "package-" + zone);
    write("sys/class/powercap/intel-rapl:" + zone + "/max_energy_range_uj", "100000000");
    write("sys/class/powercap/intel-rapl:" + zone + "/energy_uj", "90000000");
  }
  write("sys/class/powercap/intel-rapl:0:0/name", "core");
  write("sys/class/powercap/intel-rapl:0:0/energy_uj", "0");
  MachineMeter machine = meter();
  EXPECT_FALSE(machine.read(at(1)).has_cpu_power_watts());
  write("sys/class/powercap/intel-rapl:0/energy_uj", "98000000");
  write("sys/class/powercap/intel-rapl:1/energy_uj", "2000000");
  write("sys/class/powercap/intel-rapl:0:0/energy_uj", "99000000");
  EXPECT_DOUBLE_EQ(machine.read(at(3)).cpu_power_watts(), (8 + 12) / 2.0);
}

TEST_F(MachineMeterTest, FileSystemsAreThoseOfTheFoldersEachOnce) {
  fs::create_directories(folder_.path() / "data one");
  fs::create_directories(folder_.path() / "data one2");
  write("proc/self/mountinfo",
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /data\\040one rw shared:1 - tmpfs tmpfs rw\n3 1 8:2 / "
        "/data\\040one rw - xfs /dev/sdb rw\n4 1 0:9 / /proc rw - proc proc rw");
  MachineMeter machine = meter({{.use = "", .path = "/"},
                                {.use = "logs", .path = "/data one/logs"},
                                {.use = "spilled objects", .path = "/data one/x"},
                                {.use = "temporary files", .path = "/data one2"}});
  const auto usage = machine.read(at(1));
  ASSERT_EQ(usage.file_systems_size(), 2);
  EXPECT_EQ(usage.file_systems(0).path(), "/");
  EXPECT_THAT(usage.file_systems(0).uses(), ElementsAre("temporary files"))
      << "a name that begins alike is another folder";
  EXPECT_EQ(usage.file_systems(1).path(), "/data one");
  EXPECT_EQ(usage.file_systems(1).type(), "xfs") << "the later mount hides the one before";
  EXPECT_THAT(usage.file_systems(1).uses(), ElementsAre("logs", "spilled objects"));
  EXPECT_GT(usage.file_systems(0).total_bytes(), 0);
  EXPECT_GE(usage.file_systems(0).total_bytes(), usage.file_systems(0).free_bytes());
}

TEST(MachineWatch, HandsOutTheNewestReadingAndNoOldOne) {
  SystemClock clock;
  const MachineWatch watch(clock, {{.use = "logs", .path = fs::temp_directory_path()}}, false);
  std::optional<MachineWatch::Reading> reading;
  for (int i = 0; i < 500 && !reading; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    reading = watch.newest(clock.now());
  }
  ASSERT_TRUE(reading);
  ASSERT_EQ(reading->machine.file_systems_size(), 1);
  EXPECT_THAT(reading->machine.file_systems(0).uses(), ElementsAre("logs"));
  EXPECT_THAT(reading->gpus, IsEmpty());
  EXPECT_FALSE(watch.newest(clock.now() + MachineWatch::kOldest + MachineWatch::kEvery));
}

}  // namespace
}  // namespace volador::worker
