// Actors that exhaust the memory. Real processes on a private cluster whose limit is slightly above current usage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <volador/volador.h>

#include <algorithm>
#include <thread>

#include "worker/resources/memory_monitor.h"

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr int64_t kSmall = int64_t{300} << 20;
constexpr int64_t kLarge = int64_t{2500} << 20;
constexpr int64_t kRoom = int64_t{2000} << 20;  // Less than both together.

class Hoard {
 public:
  int64_t take(int64_t bytes) {
    memory_.assign(static_cast<size_t>(bytes), 'x');
    return bytes;
  }
  int64_t held() { return static_cast<int64_t>(memory_.size()); }

 private:
  std::vector<char> memory_;
};
VOLADOR_ACTOR(Hoard, &Hoard::take, &Hoard::held);

TEST(Memory, WhereItRunsShortTheLargestActorThatComesBackEndsAndTheReasonIsSaid) {
  auto precious = volador::actor<Hoard>().spawn();
  auto greedy = volador::actor<Hoard>().max_restarts(1).spawn();
  EXPECT_EQ(precious.call<&Hoard::take>(kSmall).get(60s), kSmall);
  const auto first = greedy.status().epoch;
  const auto taken = greedy.call<&Hoard::take>(kLarge).result(60s);  // The process may be killed after the response.
  while (greedy.status().epoch == first) std::this_thread::sleep_for(5ms);
  EXPECT_THAT(greedy.status().death.message,
              testing::AllOf(HasSubstr("ran out of memory"), HasSubstr("--memory-threshold")));
  EXPECT_EQ(greedy.call<&Hoard::held>().get(60s), 0) << "a new incarnation";
  EXPECT_EQ(precious.call<&Hoard::held>().get(60s), kSmall) << "it lives on";
}

// Usage of the fullest level if `room` more bytes were in use.
double share_with(int64_t room) {
  double share = 0;
  for (const auto& level : volador::worker::memory_levels()) {
    share = std::max(share, static_cast<double>(level.used_bytes + room) / static_cast<double>(level.limit_bytes));
  }
  return share;
}

}  // namespace

int main(int argc, char** argv) {
  const double threshold = share_with(kRoom);
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 2, .memory_threshold = threshold});
  testing::InitGoogleTest(&argc, argv);
  if (threshold > 0.95) {
    std::puts("less than 3 GB of memory are free here");
    return 77;
  }
  return RUN_ALL_TESTS();
}
