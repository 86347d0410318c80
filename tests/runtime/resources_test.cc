#include "runtime/resources.h"

#include <gtest/gtest.h>

#include <limits>

namespace volador {
namespace {

TEST(ResourceSet, FractionsAreExactTenThousandths) {
  auto set = ResourceSet::from({.cpus = 0.1, .gpus = 0.5, .memory = 1000, .custom = {{"licence", 2}}});
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->get("cpus"), 1000);
  EXPECT_EQ(set->get("gpus"), 5000);
  EXPECT_EQ(set->get("memory"), 1000);
  EXPECT_EQ(set->get("licence"), 20000);
  EXPECT_EQ(set->get("none"), 0);
}

TEST(ResourceSet, RefusesWhatNoNodeCouldCount) {
  for (const Resources& bad : {Resources{.cpus = -1}, Resources{.cpus = std::numeric_limits<double>::quiet_NaN()},
                               Resources{.cpus = std::numeric_limits<double>::infinity()}, Resources{.cpus = 0.00001},
                               Resources{.gpus = 1.5}, Resources{.memory = -1}, Resources{.custom = {{"", 1}}}}) {
    EXPECT_EQ(ResourceSet::from(bad).error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(ResourceSet, TakingAndGivingBackEndsWhereItBegan) {
  const auto all = ResourceSet::from({.cpus = 4, .memory = 100}).value();
  const auto part = ResourceSet::from({.cpus = 0.3}).value();
  ResourceSet left = all;
  for (int i = 0; i < 10; ++i) left -= part;
  EXPECT_EQ(left.get("cpus"), 10'000);
  EXPECT_TRUE(part.fits_in(left));
  for (int i = 0; i < 10; ++i) left += part;
  EXPECT_EQ(left, all);
}

TEST(ResourceSet, ZeroIsNoEntry) {
  ResourceSet set;
  set.set("cpus", 5);
  set.set("cpus", 0);
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(to_string(set), "nothing");
}

TEST(Resources, AreShownForPeople) {
  EXPECT_EQ(format_amount(5000), "0.5");
  EXPECT_EQ(format_amount(20000), "2");
  EXPECT_EQ(format_amount(1), "0.0001");
  EXPECT_EQ(format_bytes(800), "800 B");
  EXPECT_EQ(format_bytes(int64_t{62} << 30), "62 GiB");
  EXPECT_EQ(format_bytes(int64_t{512} << 20), "512 MiB");
  EXPECT_EQ(to_string(ResourceSet::from({.cpus = 2, .gpus = 0.5, .memory = int64_t{2} << 30}).value()),
            "cpus 2, gpus 0.5, memory 2 GiB");
}

}  // namespace
}  // namespace volador
