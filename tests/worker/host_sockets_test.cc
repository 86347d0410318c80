#include "worker/hosts/host_sockets.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cstdlib>
#include <fstream>

#include "runtime/random.h"
#include "tests/temporary_directory.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

bool lies_in_memory(const fs::path& folder) {
  struct statfs about {};
  return ::statfs(folder.c_str(), &about) == 0 && about.f_type == TMPFS_MAGIC;
}

class HostSockets : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!lies_in_memory("/dev/shm")) GTEST_SKIP() << "no file system in memory at /dev/shm";
    if (lies_in_memory(disk.path())) GTEST_SKIP() << "temporary files lie in memory, so sockets stay there";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
  }
  void TearDown() override { fs::remove_all(name); }

  Paths paths_with(const fs::path& memory_run) const {
    auto paths = Paths::from({.volador_home = disk.path(), .memory_run = memory_run, .uid = ::getuid()});
    EXPECT_TRUE(paths);
    EXPECT_TRUE(make_run_directory(paths->run_of(node), ::getuid()));
    EXPECT_TRUE(make_run_directory(paths->run_of(other), ::getuid()));
    return *paths;
  }
  static void put_socket(const fs::path& folder) { std::ofstream(folder / "a.sock") << "here"; }

  TemporaryDirectory disk;
  std::string name = "/dev/shm/volador-test-XXXXXX";
  SystemRandom random;
  const NodeId node = new_id<NodeId>(random);
  const NodeId other = new_id<NodeId>(random);
};

TEST_F(HostSockets, LieInMemoryWhereTheRunFolderIsOnADisk) {
  const Paths paths = paths_with(fs::path(name) / "run");
  const fs::path folder = make_socket_folder(paths, node);
  EXPECT_EQ(folder, paths.memory_run_of(node));
  EXPECT_TRUE(fs::is_directory(folder));
  struct stat about {};
  ASSERT_EQ(::stat(paths.memory_run().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0700u);
}

TEST_F(HostSockets, NothingStaysOfTheLastNode) {
  const Paths paths = paths_with(fs::path(name) / "run");
  put_socket(make_socket_folder(paths, node));
  put_socket(make_socket_folder(paths, other));
  remove_socket_folder(paths, node);
  EXPECT_FALSE(fs::exists(paths.memory_run_of(node)));
  EXPECT_TRUE(fs::exists(paths.memory_run_of(other) / "a.sock"));
  remove_socket_folder(paths, other);
  EXPECT_FALSE(fs::exists(paths.memory_run()));
}

TEST_F(HostSockets, OfAClusterOfItsOwnAllAreRemovedAtOnce) {
  const Paths paths = paths_with(fs::path(name) / "run");
  put_socket(make_socket_folder(paths, node));
  put_socket(make_socket_folder(paths, other));
  remove_socket_folders(paths);
  EXPECT_FALSE(fs::exists(paths.memory_run()));
}

TEST_F(HostSockets, LieInTheRunFolderWhereNobodyAskedForMemory) {
  const Paths paths = paths_with("");
  EXPECT_EQ(make_socket_folder(paths, node), paths.run_of(node));
  remove_socket_folder(paths, node);
  EXPECT_TRUE(fs::exists(paths.run_of(node)));
}

TEST_F(HostSockets, LieInTheRunFolderWhereTheOtherIsNoMemory) {
  const Paths paths = paths_with(disk.path() / "no-memory" / "run");
  fs::create_directory(disk.path() / "no-memory");
  EXPECT_EQ(make_socket_folder(paths, node), paths.run_of(node));
  EXPECT_TRUE(fs::is_empty(disk.path() / "no-memory"));
}

TEST_F(HostSockets, ALinkIsNeitherFollowedNorEmptied) {
  const fs::path elsewhere = fs::path(name) / "elsewhere";
  fs::create_directory(elsewhere);
  put_socket(elsewhere);
  fs::create_directory_symlink(elsewhere, fs::path(name) / "run");
  const Paths paths = paths_with(fs::path(name) / "run");
  EXPECT_EQ(make_socket_folder(paths, node), paths.run_of(node));
  remove_socket_folder(paths, node);
  remove_socket_folders(paths);
  EXPECT_TRUE(fs::exists(elsewhere / "a.sock"));
}

}  // namespace
}  // namespace volador::worker
