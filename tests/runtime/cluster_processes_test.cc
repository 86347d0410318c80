#include "runtime/cluster_processes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/machine.h"
#include "runtime/process_file.h"
#include "tests/temporary_directory.h"

namespace volador {
namespace {

class HeadExpected : public testing::Test {
 protected:
  HeadExpected() {
    PathEnvironment environment;
    environment.volador_home = folder_.path();
    paths_.emplace(Paths::from(environment).value());
    EXPECT_TRUE(make_private_directory(cluster().head().directory));
    EXPECT_TRUE(make_private_directory(worker().directory));
  }
  ClusterPaths cluster() const { return paths_->cluster("heron"); }
  NodePaths worker() const { return cluster().node("a"); }
  bool is_expected() const { return is_head_expected(*paths_, "heron"); }
  static void name_process(const std::filesystem::path& file, const ProcessRecord& record) {
    ASSERT_TRUE(write_file_atomic(file, to_text(record), 0600));
  }
  // From this boot, with a start time that no process has.
  static ProcessRecord ended_process() { return {.pid = ::getpid(), .start_ticks = 1, .boot_id = boot_id().value()}; }

  TemporaryDirectory folder_;
  std::optional<Paths> paths_;
};

TEST_F(HeadExpected, NotWhereAllProcessesEndedInOrder) { EXPECT_FALSE(is_expected()); }

TEST_F(HeadExpected, WhereTheHeadWasKilled) {
  name_process(cluster().head().pid(), ended_process());
  EXPECT_TRUE(is_expected());
}

TEST_F(HeadExpected, NotWhereTheMachineBootedSince) {
  ProcessRecord earlier = ended_process();
  earlier.boot_id = "11111111-2222-3333-4444-555555555555";
  name_process(cluster().head().pid(), earlier);
  EXPECT_FALSE(is_expected());
}

TEST_F(HeadExpected, WhereAWorkerRuns) {
  name_process(worker().pid(), describe_process(::getpid()).value());
  EXPECT_TRUE(is_expected());
}

TEST_F(HeadExpected, NotWhereAWorkerWasKilled) {
  name_process(worker().pid(), ended_process());
  EXPECT_FALSE(is_expected());
}

}  // namespace
}  // namespace volador
