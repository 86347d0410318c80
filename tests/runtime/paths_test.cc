#include "runtime/paths.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <vector>

#include "tests/temporary_directory.h"

namespace volador {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 0777;
}

TEST(Paths, StateLiesInTheHomeFolderByDefault) {
  auto paths = Paths::from({.home = "/home/ann", .uid = 1000});
  ASSERT_TRUE(paths);
  EXPECT_EQ(paths->home(), "/home/ann/.local/state/volador");
  EXPECT_EQ(paths->programs(), "/home/ann/.cache/volador/programs");
  EXPECT_EQ(paths->user_config(), "/home/ann/.config/volador/config.yaml");
  EXPECT_EQ(paths->run(), "/tmp/volador-1000");
  EXPECT_EQ(paths->cluster("heron").head().journal(), "/home/ann/.local/state/volador/clusters/heron/head/journal.db");
  EXPECT_EQ(paths->cluster("heron").node("b").pid(),
            "/home/ann/.local/state/volador/clusters/heron/nodes/b/worker.pid");
}

TEST(Paths, XdgVariablesMoveIt) {
  auto paths = Paths::from({.home = "/home/ann",
                            .xdg_state_home = "/s",
                            .xdg_runtime_dir = "/run/user/1000",
                            .xdg_cache_home = "/c",
                            .xdg_config_home = "/e",
                            .uid = 1000});
  ASSERT_TRUE(paths);
  EXPECT_EQ(paths->home(), "/s/volador");
  EXPECT_EQ(paths->run(), "/run/user/1000/volador");
  EXPECT_EQ(paths->cache(), "/c/volador");
  EXPECT_EQ(paths->user_config(), "/e/volador/config.yaml");
}

TEST(Paths, XdgVariablesThatAreNotAbsoluteAreIgnored) {
  auto paths = Paths::from({.home = "/home/ann", .xdg_state_home = "state", .xdg_runtime_dir = "run"});
  ASSERT_TRUE(paths);
  EXPECT_EQ(paths->home(), "/home/ann/.local/state/volador");
  EXPECT_EQ(paths->run(), "/tmp/volador-0");
}

TEST(Paths, VoladorHomeHoldsEverything) {
  auto paths = Paths::from(
      {.volador_home = "/data/v/", .home = "/home/ann", .xdg_state_home = "/s", .xdg_runtime_dir = "/run/user/1"});
  ASSERT_TRUE(paths);
  EXPECT_EQ(paths->home(), "/data/v");
  EXPECT_EQ(paths->run(), "/data/v/run");
  EXPECT_EQ(paths->cache(), "/data/v/cache");
}

TEST(Paths, SocketsInMemoryOnlyWhereNobodySaidWhereTheyAreToLie) {
  const char* const names[] = {"VOLADOR_HOME", "XDG_RUNTIME_DIR"};
  std::vector<std::optional<std::string>> before;
  for (const char* name : names) {
    const char* value = std::getenv(name);
    before.push_back(value == nullptr ? std::nullopt : std::optional<std::string>(value));
    ::unsetenv(name);
  }
  EXPECT_EQ(PathEnvironment::of_this_process().memory_run, "/dev/shm/volador-" + std::to_string(::getuid()));
  for (size_t i = 0; i < 2; ++i) {
    ::setenv(names[i], "/somewhere", 1);
    EXPECT_EQ(PathEnvironment::of_this_process().memory_run, "") << names[i];
    ::unsetenv(names[i]);
  }
  for (size_t i = 0; i < 2; ++i) {
    if (before[i]) ::setenv(names[i], before[i]->c_str(), 1);
  }
}

TEST(Paths, SocketsStayShortWhereVoladorHomeIsLong) {
  auto paths = Paths::from({.volador_home = "/" + std::string(100, 'x'), .uid = 7});
  ASSERT_TRUE(paths);
  EXPECT_EQ(paths->run(), "/tmp/volador-7");
}

TEST(Paths, EverySocketPathFitsItsAddress) {
  for (size_t length = 1; length < 120; ++length) {
    auto paths = Paths::from({.volador_home = "/" + std::string(length, 'x'), .uid = 4'294'967'294u});
    ASSERT_TRUE(paths);
    fs::path socket = paths->run_of(NodeId()) / std::string(kSocketNameBytesMax, 's');
    EXPECT_LT(socket.native().size(), sizeof(sockaddr_un::sun_path)) << length;
  }
}

TEST(Paths, NoHomeIsAnErrorThatNamesTheVariable) {
  auto paths = Paths::from({});
  ASSERT_FALSE(paths);
  EXPECT_NE(paths.error().message.find("set VOLADOR_HOME"), std::string::npos);
  EXPECT_FALSE(Paths::from({.volador_home = "relative"}));
}

TEST(CheckName, RefusesWhatIsNoFolderOrServerName) {
  for (const char* good : {"heron", "gpu-1", "10.0.0.1", "a_b", "9"}) EXPECT_TRUE(check_name("node", good)) << good;
  for (const char* bad : {"", "..", ".", "-a", "a/b", "a b", "a\n", "é"}) EXPECT_FALSE(check_name("node", bad)) << bad;
  EXPECT_TRUE(check_name("node", std::string(63, 'a')));
  EXPECT_FALSE(check_name("node", std::string(64, 'a')));
}

TEST(WriteFileAtomic, ReplacesTheContentAndSetsTheMode) {
  TemporaryDirectory folder;
  const fs::path file = folder.path() / "secret";
  ASSERT_TRUE(write_file_atomic(file, "one", 0600));
  ASSERT_TRUE(write_file_atomic(file, "two", 0600));
  EXPECT_EQ(read_file_limited(file, 100).value(), "two");
  EXPECT_EQ(mode_of(file), 0600u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(WriteFileAtomic, LeavesNothingBehindWhereItFails) {
  TemporaryDirectory folder;
  fs::create_directory(folder.path() / "taken");
  auto result = write_file_atomic(folder.path() / "taken", "x", 0600);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("taken"), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
  EXPECT_EQ(write_file_atomic(folder.path() / "no" / "file", "x", 0600).error().code, ErrorCode::kNotFound);
}

TEST(ReadFileLimited, RefusesWhatIsLongerAndWhatIsNoFile) {
  TemporaryDirectory folder;
  const fs::path file = folder.path() / "f";
  std::ofstream(file) << std::string(10, 'x');
  EXPECT_EQ(read_file_limited(file, 10).value().size(), 10u);
  EXPECT_EQ(read_file_limited(file, 9).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(read_file_limited(folder.path(), 9).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(read_file_limited(folder.path() / "none", 9).error().code, ErrorCode::kNotFound);
}

TEST(MakePrivateDirectory, MakesEveryMissingFolderPrivate) {
  TemporaryDirectory folder;
  ASSERT_TRUE(make_private_directory(folder.path() / "a" / "b"));
  EXPECT_EQ(mode_of(folder.path() / "a"), 0700u);
  EXPECT_EQ(mode_of(folder.path() / "a" / "b"), 0700u);
  ASSERT_TRUE(make_private_directory(folder.path() / "a" / "b"));
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_FALSE(make_private_directory(folder.path() / "file"));
  EXPECT_FALSE(make_private_directory(folder.path() / "file" / "below"));
}

TEST(MakeRunDirectory, RefusesLinksAndFoldersOfOthers) {
  TemporaryDirectory folder;
  const fs::path mine = folder.path() / "mine";
  fs::create_directory(mine);
  fs::permissions(mine, fs::perms::all);
  ASSERT_TRUE(make_run_directory(mine, ::getuid()));
  EXPECT_EQ(mode_of(mine), 0700u);
  fs::create_directory_symlink(mine, folder.path() / "link");
  EXPECT_EQ(make_run_directory(folder.path() / "link", ::getuid()).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(make_run_directory(mine, ::getuid() + 1).error().code, ErrorCode::kPermissionDenied);
}

}  // namespace
}  // namespace volador
