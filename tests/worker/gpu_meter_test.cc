#include "worker/resources/gpu_meter.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace volador::worker {
namespace {

TEST(GpuMeter, ReadsWhatTheDriverTellsOfThoseThatAnswer) {
  GpuMeter meter(FAKE_NVML);
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

TEST(GpuMeter, TheLibraryIsStartedOnceAndStoppedAtTheEnd) {
  void* library = ::dlopen(FAKE_NVML, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto opened = reinterpret_cast<int (*)()>(::dlsym(library, "fake_nvml_opened"));
  {
    GpuMeter meter(FAKE_NVML);
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
