// Calls on actors whose hosts are killed at random: each call ends, and none runs twice in an incarnation. Real
// processes on a private cluster. VOLADOR_TEST_KILLS: number of kills; VOLADOR_TEST_SEED: seed of the random choices,
// printed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <volador/volador.h>

#include <csignal>
#include <deque>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "tests/temporary_directory.h"

namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr size_t kActors = 12;         // At a time.
constexpr int kKillsOfAnActor = 3;     // Then it is replaced: the restart delay grows with repeated early deaths.
constexpr size_t kCallsUnderWay = 30;  // Per actor.

// Records executed calls in a file per incarnation.
class Scribe {
 public:
  explicit Scribe(const std::string& folder) {
    const auto& self = volador::self();
    const fs::path file = fs::path(folder) / (to_string(self.id) + "-" + std::to_string(::getpid()));
    file_ = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (file_ < 0) throw std::runtime_error("cannot write " + file.string());
  }
  uint64_t run(uint64_t number) {
    const std::string line = std::to_string(number) + "\n";
    if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw std::runtime_error("cannot write");
    return number;
  }

 private:
  int file_ = -1;
};
VOLADOR_ACTOR(Scribe, &Scribe::run);

struct Made {
  uint64_t number;
  volador::Future<uint64_t> answer;
};
struct Place {
  volador::ActorHandle<Scribe> actor;
  int kills = 0;
  uint64_t killed_epoch = 0;
  std::deque<Made> under_way;
};

// Executed calls by incarnation, and the total number of executions of each.
struct Ledger {
  explicit Ledger(const fs::path& folder) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::ifstream in(entry.path());
      uint64_t last = 0;
      std::set<uint64_t> here;
      for (uint64_t number = 0; in >> number; last = number) {
        EXPECT_TRUE(here.insert(number).second) << "call " << number << " ran twice in " << entry.path().filename();
        if (number < last) ++out_of_order;
        ++times[number];
      }
      ++incarnations;
    }
  }
  std::map<uint64_t, int> times;
  size_t incarnations = 0;
  size_t out_of_order = 0;
};

class Kills : public ::testing::TestWithParam<int> {
 protected:
  // Calls and kills until the number of kills is reached; returns the result of each call.
  std::map<uint64_t, volador::Result<uint64_t>> run(int kills) {
    std::map<uint64_t, volador::Result<uint64_t>> ended;
    std::vector<Place> places(kActors);
    const auto end_all = [&](Place& place) {
      for (Made& made : place.under_way) ended.emplace(made.number, made.answer.result(120s));
      place.under_way.clear();
    };
    const auto begin = [&](Place& place) {
      end_all(place);
      place.actor = volador::actor<Scribe>(folder_.path().string())
                        .resources({})
                        .max_restarts(-1)
                        .max_task_retries(GetParam())
                        .spawn();
      place.kills = 0;
      place.killed_epoch = 0;
    };
    for (Place& place : places) begin(place);
    uint64_t next = 1;
    for (int killed = 0; killed < kills;) {
      Place& place = places[random_() % places.size()];
      for (size_t count = random_() % 12; count > 0; --count) {
        place.under_way.push_back({next, place.actor.call<&Scribe::run>(next)});
        ++next;
      }
      while (place.under_way.size() > kCallsUnderWay) {
        ended.emplace(place.under_way.front().number, place.under_way.front().answer.result(120s));
        place.under_way.pop_front();
      }
      if (random_() % 3 != 0) continue;
      const auto status = place.actor.status();
      if (status.state != volador::ActorState::kAlive || status.epoch == place.killed_epoch) continue;
      place.killed_epoch = status.epoch;
      EXPECT_EQ(::kill(status.pid, SIGKILL), 0);
      ++killed;
      if (++place.kills == kKillsOfAnActor) begin(place);
    }
    for (Place& place : places) end_all(place);
    EXPECT_EQ(ended.size(), next - 1);
    return ended;
  }

  static int kills() {
    const char* wanted = std::getenv("VOLADOR_TEST_KILLS");
    return wanted == nullptr ? 100 : std::atoi(wanted);
  }
  static uint64_t seed() {
    const char* wanted = std::getenv("VOLADOR_TEST_SEED");
    const uint64_t seed = wanted == nullptr ? std::random_device{}() : std::strtoull(wanted, nullptr, 10);
    std::printf("VOLADOR_TEST_SEED=%lu\n", static_cast<unsigned long>(seed));
    return seed;
  }

  const volador::TemporaryDirectory folder_;
  std::mt19937_64 random_{seed()};
};

// Without retries: at most once in total, in the order of the calls, and never reported as not executed if it was.
TEST_P(Kills, ACallEndsAndRunsOnceInAnIncarnation) {
  const auto ended = run(kills());
  const Ledger ledger(folder_.path());
  size_t unknown = 0;
  for (const auto& [number, result] : ended) {
    const auto found = ledger.times.find(number);
    const int times = found == ledger.times.end() ? 0 : found->second;
    if (result) {
      EXPECT_EQ(*result, number);
      EXPECT_GE(times, 1) << "call " << number << " was answered";
    } else if (result.error().code == volador::ErrorCode::kUnknownOutcome) {
      ++unknown;
    } else {
      EXPECT_EQ(result.error().code, volador::ErrorCode::kUnavailable) << result.error().message;
      EXPECT_EQ(times, 0) << "call " << number << ": " << result.error().message;
    }
    EXPECT_TRUE(GetParam() != 0 || times <= 1) << "call " << number << " ran " << times << " times";
    EXPECT_TRUE(GetParam() == 0 || result) << "call " << number << ": " << result.error().message;
  }
  EXPECT_TRUE(GetParam() != 0 || ledger.out_of_order == 0) << ledger.out_of_order << " out of order";
  EXPECT_LE(ledger.times.size(), ended.size());
  EXPECT_GT(ledger.incarnations, static_cast<size_t>(kills()) / 2);
  std::printf("%zu calls, %zu incarnations, %zu of unknown outcome\n", ended.size(), ledger.incarnations, unknown);
}
INSTANTIATE_TEST_SUITE_P(Retries, Kills, ::testing::Values(0, -1),
                         [](const auto& retries) { return retries.param == 0 ? "None" : "Always"; });

}  // namespace

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 4});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
