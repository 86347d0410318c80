// State of actors after their hosts were killed. Real processes on a private cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <volador/volador.h>

#include <csignal>
#include <fstream>
#include <thread>

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class Counter {
 public:
  explicit Counter(int start) : value_(start) {}
  int add(int amount) { return value_ += amount; }
  int value() const { return value_; }
  void grow(int megabytes) { ballast_megabytes_ = megabytes; }
  void refuse_to_save() { refuses_ = true; }

  void save_checkpoint(const std::filesystem::path& directory) const {
    if (refuses_) throw std::runtime_error("not today");
    std::ofstream(directory / "value") << value_;
    std::ofstream ballast(directory / "ballast", std::ios::binary);
    uint64_t noise = 1;
    for (int word = 0; word < ballast_megabytes_ << 17; ++word) {
      noise = noise * 6364136223846793005u + 1442695040888963407u;
      ballast.write(reinterpret_cast<const char*>(&noise), sizeof noise);
    }
  }
  void load_checkpoint(const std::filesystem::path& directory) { std::ifstream(directory / "value") >> value_; }

 private:
  int value_;
  int ballast_megabytes_ = 0;
  bool refuses_ = false;
};
VOLADOR_ACTOR(Counter, &Counter::add, &Counter::value, &Counter::grow, &Counter::refuse_to_save);

class Forgetful {
 public:
  int add(int amount) { return value_ += amount; }

 private:
  int value_ = 0;
};
VOLADOR_ACTOR(Forgetful, &Forgetful::add);

class Brittle {
 public:
  int touch() { return ++touched_; }
  void save_checkpoint(const std::filesystem::path& directory) const {
    std::ofstream(directory / "touched") << touched_;
  }
  void load_checkpoint(const std::filesystem::path&) { throw std::runtime_error("cannot read my own writing"); }

 private:
  int touched_ = 0;
};
VOLADOR_ACTOR(Brittle, &Brittle::touch);

template <class T>
void kill_host(const volador::ActorHandle<T>& actor) {
  const auto status = actor.status();
  ASSERT_EQ(status.state, volador::ActorState::kAlive);
  ASSERT_EQ(::kill(status.pid, SIGKILL), 0);
  while (actor.status().epoch == status.epoch && actor.status().state != volador::ActorState::kDead)
    std::this_thread::sleep_for(5ms);
}

TEST(Restarts, NothingThatWasAnsweredIsLostWithACheckpointACall) {
  auto counter = volador::actor<Counter>(10).max_restarts(-1).checkpoint_every(1).spawn();
  for (int round = 1; round <= 3; ++round) {
    EXPECT_EQ(counter.call<&Counter::add>(1).get(60s), 10 + round);
    kill_host(counter);
  }
  EXPECT_EQ(counter.call<&Counter::value>().get(60s), 13);
  EXPECT_EQ(counter.status().restarts, 3);
}

TEST(Restarts, ACheckpointEverySoManyCallsLosesOnlyThoseAfterIt) {
  auto counter = volador::actor<Counter>(0).max_restarts(1).checkpoint_every(3).spawn();
  for (int call = 1; call <= 5; ++call) EXPECT_EQ(counter.call<&Counter::add>(1).get(60s), call);
  kill_host(counter);
  EXPECT_EQ(counter.call<&Counter::value>().get(60s), 3);
}

TEST(Restarts, ByDefaultTheStateOfTheLastSecondIsThere) {
  auto counter = volador::actor<Counter>(0).max_restarts(1).spawn();
  EXPECT_EQ(counter.call<&Counter::add>(7).get(60s), 7);
  // explain would show when the head has it; waiting longer than the interval suffices here.
  std::this_thread::sleep_for(2500ms);
  kill_host(counter);
  EXPECT_EQ(counter.call<&Counter::value>().get(60s), 7);
}

TEST(Restarts, AClassWithoutCheckpointsStartsAnew) {
  auto forgetful = volador::actor<Forgetful>().max_restarts(1).spawn();
  EXPECT_EQ(forgetful.call<&Forgetful::add>(7).get(60s), 7);
  kill_host(forgetful);
  EXPECT_EQ(forgetful.call<&Forgetful::add>(1).get(60s), 1);
}

TEST(Restarts, WhatCannotBeKeptIsSaidByTheCallThatAskedForIt) {
  auto counter = volador::actor<Counter>(1).max_restarts(1).checkpoint_every(1).spawn();
  EXPECT_EQ(counter.call<&Counter::add>(1).get(60s), 2);
  const auto large = counter.call<&Counter::grow>(9).result(60s);
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().message,
              testing::AllOf(HasSubstr("ran, but its checkpoint was not kept"), HasSubstr("at most")));
  counter.call<&Counter::grow>(0).get(60s);
  const auto thrown = counter.call<&Counter::refuse_to_save>().result(60s);
  ASSERT_FALSE(thrown);
  EXPECT_THAT(thrown.error().message, HasSubstr("not today"));
  kill_host(counter);
  EXPECT_EQ(counter.call<&Counter::value>().get(60s), 2);
}

TEST(Restarts, ALoadThatThrowsIsTheEnd) {
  auto brittle = volador::actor<Brittle>().max_restarts(-1).checkpoint_every(1).spawn();
  EXPECT_EQ(brittle.call<&Brittle::touch>().get(60s), 1);
  kill_host(brittle);
  const auto dead = brittle.call<&Brittle::touch>().result(60s);
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.error().code, volador::ErrorCode::kActorDied);
  EXPECT_THAT(dead.error().message, HasSubstr("load_checkpoint: std::runtime_error: cannot read my own writing"));
}

}  // namespace

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 4});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
