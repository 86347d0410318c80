// A head with its parts, started and stopped in this process.
#include "volador/roles/head_role.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/paths.h"
#include "runtime/random.h"

namespace volador {
namespace {

class HeadRoleTest : public testing::Test {
 protected:
  HeadRoleTest() { std::filesystem::create_directories(home_); }
  ~HeadRoleTest() override { std::filesystem::remove_all(home_); }

  Result<std::unique_ptr<HeadRole>> start(HeadRole::JobProgram program) {
    auto paths = Paths::from({.volador_home = home_.native(), .uid = getuid()});
    if (!paths) return make_error(paths.error());
    return HeadRole::start({.paths = *paths, .cluster = "heron", .make_current = false}, DashboardPlace{}, clock_,
                           random_, std::move(program));
  }

  const std::filesystem::path home_ =
      std::filesystem::temp_directory_path() / ("volador-role-" + std::to_string(getpid()));
  const SystemClock clock_;
  SystemRandom random_;
};

// The head destroys parts that the jobs refer to when it stops: the second stop, by the destructor, must not reach
// them. The sanitizers see it when it does.
TEST_F(HeadRoleTest, StopsTwiceWithJobs) {
  auto role = start([] { return Result<protocol::Program>(protocol::Program()); });
  ASSERT_TRUE(role.has_value()) << role.error().message;
  EXPECT_NE((*role)->dashboard_url(), "");
  (*role)->stop();
  (*role)->stop();
  role->reset();
}

TEST_F(HeadRoleTest, StopsWithoutJobsByItsDestructor) {
  auto role = start({});
  ASSERT_TRUE(role.has_value()) << role.error().message;
  role->reset();
}

}  // namespace
}  // namespace volador
