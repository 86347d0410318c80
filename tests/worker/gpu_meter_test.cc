#include "worker/resources/gpu_meter.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/built_program.h"

namespace volador::worker {
namespace {

std::string fake_nvml() { return volador::testing::built_program("fake_nvml.so"); }

TEST(GpuMeter, ReadsWhatTheDriverTellsOfThoseThatAnswer) {
  GpuMeter meter(fake_nvml().c_str());
  for (int time = 0; time < 2; ++time) {
    const auto readings = meter.read();
    ASSERT_EQ(readings.size(), 1U);  // The other one does not report its utilisation.
    EXPECT_EQ(readings[0].uuid, "GPU-1111");
    EXPECT_DOUBLE_EQ(readings[0].utilization, 0.75);
    EXPECT_EQ(readings[0].memory_bytes, int64_t{20} << 30);
    EXPECT_EQ(readings[0].memory_total_bytes, int64_t{80} << 30);
    EXPECT_EQ(readings[0].temperature_celsius, 64);
    EXPECT_EQ(readings[0].power_watts, 312.5);
    EXPECT_EQ(readings[0].power_limit_watts, std::nullopt);  // The driver does not report it.
  }
}

TEST(GpuMeter, InspectsAllDevicesThatWereListed) {
  GpuMeter meter(fake_nvml().c_str());
  auto found = meter.inspect();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].uuid, "GPU-1111");
  EXPECT_EQ(found[0].error, "");
  EXPECT_EQ(found[0].memory_errors, 0U);
  EXPECT_FALSE(found[0].remap_failed || found[0].reset_due || found[0].too_hot);
  EXPECT_TRUE(found[0].xids.empty());
  EXPECT_EQ(found[1].memory_errors, 5U);
  EXPECT_TRUE(found[1].reset_due && found[1].too_hot);
  EXPECT_FALSE(found[1].remap_failed);
  EXPECT_EQ(found[1].temperature_celsius, 64);
  EXPECT_EQ(found[1].xids, (std::vector{79, 13}));
  EXPECT_TRUE(meter.inspect()[1].xids.empty()) << "each is read once";
}

TEST(GpuMeter, ALostDeviceSaysWhy) {
  void* library = ::dlopen(fake_nvml().c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto lose = reinterpret_cast<void (*)(bool)>(::dlsym(library, "fake_nvml_lose"));
  const auto event_sets = reinterpret_cast<int (*)()>(::dlsym(library, "fake_nvml_event_sets"));
  {
    GpuMeter meter(fake_nvml().c_str());
    lose(true);
    EXPECT_EQ(meter.inspect()[0].error, "GPU is lost");
    lose(false);
    EXPECT_EQ(meter.inspect()[0].error, "");
    EXPECT_EQ(event_sets(), 1);
  }
  EXPECT_EQ(event_sets(), 0);
  ::dlclose(library);
}

TEST(GpuMeter, TheLibraryIsStartedOnceAndStoppedAtTheEnd) {
  void* library = ::dlopen(fake_nvml().c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto opened = reinterpret_cast<int (*)()>(::dlsym(library, "fake_nvml_opened"));
  {
    GpuMeter meter(fake_nvml().c_str());
    meter.read();
    meter.read();
    EXPECT_EQ(opened(), 1);
  }
  EXPECT_EQ(opened(), 0);
  ::dlclose(library);
}

TEST(GpuMeter, WithoutADriverThereIsNothingToRead) { EXPECT_TRUE(GpuMeter("libthere-is-none.so.1").read().empty()); }

}  // namespace
}  // namespace volador::worker
