#include "worker/hosts/cgroup_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace volador::worker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// v1 controllers one by one, v2 beside them without controllers.
constexpr std::string_view kHybridMounts =
    "23 1 0:25 / /sys rw,relatime - sysfs sysfs rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:4 - cgroup cgroup rw,memory\n"
    "39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
    "40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
constexpr std::string_view kHybridOwn = "9:name=systemd:/\n8:pids:/\n4:memory:/api/9a0d\n2:cpuacct:/\n1:cpu:/\n0::/\n";

constexpr std::string_view kV2Mounts =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kAll = "cpuset cpu io memory hugetlb pids rdma";

TEST(CgroupPlan, UsesEachControllerOfAHybridSystemAndEndsByV2) {
  std::map<std::string, GroupFolder> folders;
  for (const std::string& folder : folders_to_read(kHybridMounts, kHybridOwn)) folders[folder].writable = true;
  folders.at("/sys/fs/cgroup/unified").is_root = true;
  folders.at("/sys/fs/cgroup/unified").has_kill = true;
  const GroupPlan plan = plan_groups(kHybridMounts, kHybridOwn, folders);
  EXPECT_THAT(plan.hierarchies,
              ElementsAre(GroupHierarchy{.base = "/sys/fs/cgroup/memory/api/9a0d", .memory = true},
                          GroupHierarchy{.base = "/sys/fs/cgroup/pids", .pids = true},
                          GroupHierarchy{.base = "/sys/fs/cgroup/cpu", .cpu = true},
                          GroupHierarchy{.base = "/sys/fs/cgroup/unified", .v2 = true, .kill = true}));
  EXPECT_THAT(plan.missing, IsEmpty());
  EXPECT_EQ(plan.leaf, "");
  EXPECT_EQ(plan.enable, "");
}

TEST(CgroupPlan, UsesTheRootOfV2WhichMayHaveProcesses) {
  const GroupPlan plan = plan_groups(kV2Mounts, "0::/\n",
                                     {{"/sys/fs/cgroup",
                                       {.writable = true,
                                        .controllers = kAll,
                                        .subtree_control = "cpuset cpu io memory pids",
                                        .is_root = true,
                                        .has_kill = true,
                                        .has_other_processes = true}}});
  EXPECT_THAT(plan.hierarchies,
              ElementsAre(GroupHierarchy{
                  .base = "/sys/fs/cgroup", .v2 = true, .memory = true, .pids = true, .cpu = true, .kill = true}));
  EXPECT_EQ(plan.leaf, "");
  EXPECT_EQ(plan.enable, "+memory +pids +cpu");
  EXPECT_TRUE(plan.base_has_controllers);
}

constexpr const char* kScope = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-r7.scope";
constexpr const char* kSlice = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice";
constexpr std::string_view kScopeOwn = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-r7.scope\n";

TEST(CgroupPlan, MovesItsDaemonsIntoALeafOfADelegatedScope) {
  const GroupFolder scope{.writable = true, .controllers = "cpu memory pids", .subtree_control = "", .has_kill = true};
  const GroupPlan plan = plan_groups(kV2Mounts, kScopeOwn, {{kScope, scope}});
  EXPECT_EQ(plan.leaf, kLeafGroup);
  EXPECT_EQ(plan.enable, "+memory +pids +cpu");
  EXPECT_FALSE(plan.base_has_controllers);
  ASSERT_THAT(plan.hierarchies, SizeIs(1));
  EXPECT_EQ(plan.hierarchies[0].base, kScope);
  EXPECT_TRUE(plan.hierarchies[0].memory && plan.hierarchies[0].kill);
  // A worker that starts later in the leaf uses the same group.
  const std::string inside =
      "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-r7.scope/volador-daemons\n";
  GroupFolder prepared = scope;
  prepared.subtree_control = "cpu memory pids";
  const GroupPlan second = plan_groups(kV2Mounts, inside, {{kScope, prepared}});
  EXPECT_EQ(second.hierarchies, plan.hierarchies);
  EXPECT_EQ(second.leaf, "");
}

TEST(CgroupPlan, PlacesGroupsBesideAScopeWithOtherPrograms) {
  const GroupFolder scope{
      .writable = true, .controllers = "memory pids", .has_kill = true, .has_other_processes = true};
  const GroupFolder slice{
      .writable = true, .controllers = "cpu memory pids", .subtree_control = "memory pids cpu", .has_kill = true};
  const GroupPlan plan = plan_groups(kV2Mounts, kScopeOwn, {{kScope, scope}, {kSlice, slice}});
  ASSERT_THAT(plan.hierarchies, SizeIs(1));
  EXPECT_EQ(plan.hierarchies[0].base, kSlice);
  EXPECT_EQ(plan.leaf, "");
  EXPECT_TRUE(plan.hierarchies[0].memory);
  // Without a usable group above, it ends processes but sets no limits.
  const GroupPlan alone = plan_groups(kV2Mounts, kScopeOwn, {{kScope, scope}});
  EXPECT_EQ(alone.hierarchies, (std::vector<GroupHierarchy>{{.base = kScope, .v2 = true, .kill = true}}));
  EXPECT_THAT(alone.missing, Contains(::testing::AllOf(HasSubstr("memory: "), HasSubstr("Delegate=yes"))));
}

TEST(CgroupPlan, SaysHowToPermitItToAnOrdinaryUser) {
  const GroupPlan plan = plan_groups(kV2Mounts, "0::/user.slice/user-1000.slice/session-3.scope\n", {});
  EXPECT_THAT(plan.hierarchies, IsEmpty());
  EXPECT_THAT(plan.missing,
              Contains(::testing::AllOf(HasSubstr("memory: this user may not create groups in /sys/fs/cgroup/user"),
                                        HasSubstr("systemd-run --user --scope -p Delegate=yes"))));
}

TEST(CgroupPlan, SaysThatAContainerHasAReadOnlyMount) {
  const std::string_view mounts =
      "733 732 0:26 /../../.. /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate\n"
      "734 732 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate\n";
  const GroupPlan plan = plan_groups(mounts, "0::/\n", {{"/sys/fs/cgroup", {.writable = true, .controllers = kAll}}});
  // The shell reports a read-only mount as not writable.
  EXPECT_THAT(plan_groups(mounts, "0::/\n", {{"/sys/fs/cgroup", {.controllers = kAll}}}).missing,
              Contains(HasSubstr("read-only; start the container with a writable /sys/fs/cgroup")));
  EXPECT_THAT(plan.hierarchies, IsEmpty()) << "the mount decides";
}

TEST(CgroupPlan, FindsTheGroupOfAContainerBelowTheRootOfItsMount) {
  const auto mounts = parse_cgroup_mounts(
      "700 690 0:33 /docker/ab12 /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
      "701 690 0:34 /docker/ab12 /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
      "702 690 0:35 / /with\\040space ro - cgroup cgroup rw,pids\n");
  const std::string_view own = "4:memory:/docker/ab12\n3:cpu,cpuacct:/docker/ab12/sub\n2:pids:/../other\n";
  EXPECT_EQ(own_group(mounts, own, "memory")->folder, "/sys/fs/cgroup/memory");
  EXPECT_EQ(own_group(mounts, own, "memory")->parent, "");
  EXPECT_EQ(own_group(mounts, own, "cpu")->folder, "/sys/fs/cgroup/cpu,cpuacct/sub");
  EXPECT_EQ(own_group(mounts, own, "cpu")->parent, "/sys/fs/cgroup/cpu,cpuacct");
  EXPECT_FALSE(own_group(mounts, own, "pids")) << "outside of the namespace";
  EXPECT_FALSE(own_group(mounts, own, ""));
  EXPECT_EQ(mounts[2].point, "/with space");
  EXPECT_TRUE(mounts[2].read_only);
  EXPECT_FALSE(own_group(mounts, "4:memory:/docker/ab123\n", "memory")) << "another container";
}

TEST(CgroupPlan, HasNothingWithoutMounts) {
  const GroupPlan plan = plan_groups("23 1 0:25 / /sys rw - sysfs sysfs rw\nnonsense\n", "", {});
  EXPECT_THAT(plan.hierarchies, IsEmpty());
  EXPECT_THAT(plan.missing, SizeIs(3));
}

TEST(CgroupPlan, WritesLimitsInTheOrderOfTheKernel) {
  const GroupLimits limits{.memory_bytes = 512 << 20, .processes = 4096, .cpus = 2.5};
  EXPECT_THAT(
      limit_writes({.base = "", .v2 = true, .memory = true, .pids = true, .cpu = true, .kill = true}, limits),
      ElementsAre(GroupWrite{.file = "memory.max", .text = "536870912"},
                  GroupWrite{.file = "memory.swap.max", .text = "0", .if_present = true},
                  GroupWrite{.file = "pids.max", .text = "4096"}, GroupWrite{.file = "cpu.weight", .text = "250"}));
  EXPECT_THAT(limit_writes({.base = "", .memory = true, .cpu = true}, limits),
              ElementsAre(GroupWrite{.file = "memory.limit_in_bytes", .text = "536870912"},
                          GroupWrite{.file = "memory.memsw.limit_in_bytes", .text = "536870912", .if_present = true},
                          GroupWrite{.file = "cpu.shares", .text = "2560"}));
  EXPECT_THAT(limit_writes({.base = "", .v2 = true, .memory = true, .pids = true, .cpu = true}, {.cpus = 0}),
              ElementsAre(GroupWrite{.file = "cpu.weight", .text = "50"}));
  EXPECT_THAT(limit_writes({.base = "", .v2 = true, .cpu = true}, {.cpus = 512}),
              ElementsAre(GroupWrite{.file = "cpu.weight", .text = "10000"}));
  EXPECT_THAT(limit_writes({.base = "", .v2 = true, .memory = true, .pids = true, .cpu = true}, {}), IsEmpty());
}

}  // namespace
}  // namespace volador::worker
