#include "head/scheduling/backfill.h"

#include <gtest/gtest.h>

#include "runtime/random.h"

namespace volador::head {
namespace {

ResourceSet amounts_of(Resources resources) { return *ResourceSet::from(resources); }

// A node with 8 CPUs and 2 GPUs on which these requests run.
struct OccupiedNode {
  explicit OccupiedNode(Resources total = {.cpus = 8, .gpus = 2}) {
    std::vector<int32_t> gpus;
    for (int32_t index = 0; index < static_cast<int32_t>(total.gpus); ++index) gpus.push_back(index);
    pool = ResourcePool::of_node(amounts_of(total), gpus);
  }
  bool run(const ResourceSet& asked) {
    const auto gpus = pool.take(asked);
    if (!gpus) return false;
    occupants.push_back({asked});
    devices.push_back(*gpus);
    return true;
  }
  ResourcePool pool;
  std::vector<Occupant> occupants;
  std::vector<std::vector<int32_t>> devices;  // Devices of each occupant.
};

TEST(Backfill, KeepsNoCpuThatTheHolderOfTheGpuGivesBack) {
  OccupiedNode node;
  ASSERT_TRUE(node.run(amounts_of({.cpus = 1, .gpus = 2})));
  const Backfill result = backfill(amounts_of({.cpus = 1, .gpus = 1}), node.pool, node.occupants, 0);
  EXPECT_TRUE(result.kept.empty()) << to_string(result.kept);
  EXPECT_TRUE(result.left.fits(amounts_of({.cpus = 7})));
}

TEST(Backfill, KeepsWhatTheHolderOfTheGpuDoesNotGiveBack) {
  OccupiedNode node;
  ASSERT_TRUE(node.run(amounts_of({.cpus = 1, .gpus = 2})));
  const Backfill result = backfill(amounts_of({.cpus = 4, .gpus = 1}), node.pool, node.occupants, 0);
  EXPECT_EQ(result.kept, amounts_of({.cpus = 3}));
  EXPECT_TRUE(result.left.fits(amounts_of({.cpus = 4})));
  EXPECT_FALSE(result.left.fits(amounts_of({.cpus = 5})));
}

TEST(Backfill, KeepsAllOfWhatIsShort) {
  OccupiedNode node({.cpus = 8});
  for (int number = 0; number < 3; ++number) ASSERT_TRUE(node.run(amounts_of({.cpus = 2})));
  const Backfill result = backfill(amounts_of({.cpus = 8}), node.pool, node.occupants, 0);
  EXPECT_EQ(result.kept, amounts_of({.cpus = 2}));
  EXPECT_FALSE(result.left.fits(amounts_of({.cpus = 0.5})));
}

TEST(Backfill, KeepsOneDeviceOfPartlyUsedOnes) {
  OccupiedNode node;
  for (int number = 0; number < 3; ++number) ASSERT_TRUE(node.run(amounts_of({.gpus = 0.75})) || number == 2);
  const Backfill result = backfill(amounts_of({.gpus = 1}), node.pool, node.occupants, 0);
  EXPECT_EQ(result.kept, amounts_of({.gpus = 0.25}));
  EXPECT_TRUE(result.left.fits(amounts_of({.gpus = 0.25}))) << "of the other device";
  EXPECT_FALSE(result.left.fits(amounts_of({.gpus = 0.5})));
}

TEST(Backfill, KeepsAPartOfADeviceForWhoAsksForAPart) {
  OccupiedNode node({.gpus = 1});
  ASSERT_TRUE(node.run(amounts_of({.gpus = 0.25})));
  const Backfill result = backfill(amounts_of({.gpus = 0.5}), node.pool, node.occupants, 0);
  EXPECT_EQ(result.kept, amounts_of({.gpus = 0.5}));
  EXPECT_TRUE(result.left.fits(amounts_of({.gpus = 0.25})));
}

TEST(Backfill, KeepsNoCpuThatItsHolderLent) {
  OccupiedNode node({.cpus = 2, .gpus = 1});
  ASSERT_TRUE(node.run(amounts_of({.gpus = 1})));  // It lent its two CPUs.
  const Backfill result = backfill(amounts_of({.cpus = 2, .gpus = 1}), node.pool, node.occupants, 2 * kUnit);
  EXPECT_TRUE(result.left.fits(amounts_of({.cpus = 2})));
}

// For any order of ends, the waiting request starts as early as if no other request had used the remaining resources.
TEST(Backfill, WhoTakesWhatIsLeftDelaysNobody) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    OccupiedNode node({.cpus = 8, .gpus = 3, .memory = 16, .custom = {{"licence", 4}}});
    const double parts[] = {0, 0, 0.25, 0.5, 1, 2, 3};
    const auto draw = [&] {
      return amounts_of({.cpus = static_cast<double>(random.below(9)) / 2,
                         .gpus = parts[random.below(7)],
                         .memory = static_cast<int64_t>(random.below(6)),
                         .custom = {{"licence", static_cast<double>(random.below(3))}}});
    };
    for (int number = 0; number < 8; ++number) node.run(draw());
    ResourceSet asked = draw();
    if (node.pool.fits(asked)) continue;
    Backfill result = backfill(asked, node.pool, node.occupants, 0);
    EXPECT_TRUE(result.kept.fits_in(asked));
    ResourcePool full = node.pool;  // As if all remaining resources were in use.
    full.free = result.kept;
    for (size_t at = 0; at < full.devices.size(); ++at) {
      full.devices[at].used += full.devices[at].size - result.left.devices[at].used;
    }
    const size_t sets = size_t{1} << node.occupants.size();
    for (size_t ended = 1; ended < sets; ++ended) {
      ResourcePool alone = node.pool;
      ResourcePool shared = full;
      // A device with free capacity that is not reserved is available to others: the waiting request does not need it.
      std::vector<bool> for_others;
      for (size_t at = 0; at < alone.devices.size(); ++at) {
        const Amount used = node.pool.devices[at].used;
        for_others.push_back(used < kUnit && result.left.devices[at].used == used);
        if (for_others[at]) alone.devices[at].used = kUnit;
      }
      for (size_t at = 0; at < node.occupants.size(); ++at) {
        if ((ended >> at & 1) == 0) continue;
        std::vector<int32_t> devices;
        for (const int32_t index : node.devices[at]) {
          if (!for_others[static_cast<size_t>(index)]) devices.push_back(index);
        }
        alone.put_back(node.occupants[at].held, devices);
        shared.put_back(node.occupants[at].held, node.devices[at]);
      }
      if (!alone.fits(asked)) continue;
      EXPECT_TRUE(shared.fits(asked)) << to_string(asked) << " beside " << ended << ": " << to_string(shared.free);
    }
  }
}

}  // namespace
}  // namespace volador::head
