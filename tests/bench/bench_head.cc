// bench_head HOME TIME: a head with its dashboard, as `volador start --head` runs it, whose clock is controlled by
// another program: TIME is a file with its offset in nanoseconds (eight bytes, mapped). Prints one line of JSON once it
// serves; exits at the end of its input.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "runtime/log.h"
#include "runtime/random.h"
#include "volador/roles/head_role.h"

namespace {

using namespace volador;

class MovedClock final : public Clock {
 public:
  explicit MovedClock(const char* file) {
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    void* mapped = fd < 0 ? MAP_FAILED : mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) throw std::runtime_error(fmt::format("{} cannot be mapped", file));
    close(fd);
    ahead_ = static_cast<const std::atomic<int64_t>*>(mapped);
  }
  // The clock does not advance between two changes of the offset.
  BootTime now() const override { return began_ + ahead(); }
  WallTime wall() const override { return wall_began_ + ahead(); }

 private:
  std::chrono::nanoseconds ahead() const { return std::chrono::nanoseconds(ahead_->load()); }

  const BootTime began_ = SystemClock().now();
  const WallTime wall_began_ = SystemClock().wall();
  const std::atomic<int64_t>* ahead_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    fmt::print(stderr, "usage: bench_head HOME TIME\n");
    return 2;
  }
  log::configure({.level = log::Level::kInfo, .file = std::string(argv[1]) + "/head.log"});
  const MovedClock clock(argv[2]);
  SystemRandom random;
  auto paths = Paths::from({.volador_home = argv[1], .uid = getuid()});
  if (!paths) throw std::runtime_error(paths.error().message);
  auto role =
      HeadRole::start({.paths = *paths, .cluster = "bench", .make_current = false}, DashboardPlace{}, clock, random);
  if (!role) throw std::runtime_error(role.error().message);
  const head::HeadReady& ready = (*role)->head().ready();
  const nlohmann::json line{{"address", ready.address},
                            {"dashboard", (*role)->dashboard_url()},
                            {"operator", ready.operator_token},
                            {"join", ready.join_token}};
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  (*role)->stop();
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
