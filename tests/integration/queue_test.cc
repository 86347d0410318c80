// Deferred responses of methods, and the queue built on them. Real processes on a private cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <volador/volador.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using volador::Queue;

volador::Error error_of(const std::function<void()>& code) {
  try {
    code();
  } catch (const volador::Exception& error) {
    return error.error();
  }
  return {volador::ErrorCode::kInternal, "it threw nothing"};
}

// ---- deferred responses ----

// A request for a number blocks until another call provides one.
class Desk {
 public:
  volador::Deferred<int> ask() {
    volador::Deferred<int> later;
    waiting_.push_back(later);
    return later;
  }
  volador::Deferred<void> knock(int what) {
    volador::Deferred<void> later;
    if (what == 0) later.set();
    if (what == 1) later.fail({volador::ErrorCode::kNotFound, "nobody is at home"});
    if (what == 2) throw std::runtime_error("the door fell in");
    return later;  // 3: dropped.
  }
  int give(int number) {
    const auto answered = static_cast<int>(waiting_.size());
    for (const auto& one : waiting_) one.set(number);
    waiting_.clear();
    return answered;
  }
  int wanted() {
    return static_cast<int>(
        std::count_if(waiting_.begin(), waiting_.end(), [](const auto& one) { return !one.is_cancelled(); }));
  }

 private:
  std::vector<volador::Deferred<int>> waiting_;
};
VOLADOR_ACTOR(Desk, &Desk::ask, &Desk::knock, &Desk::give, &Desk::wanted);

TEST(Deferred, AnotherCallAnswersAndTheThreadIsFreeMeanwhile) {
  for (const auto isolation : {volador::Isolation::kProcess, volador::Isolation::kShared}) {
    auto desk = volador::actor<Desk>().isolation(isolation).spawn();
    std::vector<volador::Future<int>> asked;
    for (int i = 0; i < 1'000; ++i) asked.push_back(desk.call<&Desk::ask>());
    EXPECT_EQ(desk.call<&Desk::wanted>().get(60s), 1'000) << "more callers than any actor has threads";
    EXPECT_FALSE(asked.front().is_ready());
    EXPECT_EQ(desk.call<&Desk::give>(7).get(60s), 1'000);
    for (const auto& one : asked) EXPECT_EQ(one.get(60s), 7);
  }
}

TEST(Deferred, AnswersAtOnceFailsThrowsOrIsDropped) {
  auto desk = volador::actor<Desk>().spawn();
  desk.call<&Desk::knock>(0).get(60s);
  EXPECT_EQ(error_of([&] { desk.call<&Desk::knock>(1).get(60s); }),
            (volador::Error{volador::ErrorCode::kNotFound, "nobody is at home"}));
  EXPECT_EQ(error_of([&] { desk.call<&Desk::knock>(2).get(60s); }).code, volador::ErrorCode::kApplication);
  const auto dropped = error_of([&] { desk.call<&Desk::knock>(3).get(60s); });
  EXPECT_EQ(dropped.code, volador::ErrorCode::kApplication);
  EXPECT_THAT(dropped.message, HasSubstr("dropped the volador::Deferred"));
}

TEST(Deferred, SeesACancelledCallAndATimeout) {
  auto desk = volador::actor<Desk>().spawn();
  auto cancelled = desk.call<&Desk::ask>();
  auto late = desk.call_for<&Desk::ask>(1s);
  auto kept = desk.call<&Desk::ask>();
  EXPECT_EQ(desk.call<&Desk::wanted>().get(60s), 3);
  cancelled.cancel();
  EXPECT_EQ(late.result(60s).error().code, volador::ErrorCode::kTimeout);
  while (desk.call<&Desk::wanted>().get(60s) != 1) std::this_thread::yield();
  EXPECT_EQ(desk.call<&Desk::give>(3).get(60s), 3);
  EXPECT_EQ(kept.get(60s), 3);
  EXPECT_EQ(cancelled.result(60s).error().code, volador::ErrorCode::kCancelled);
}

TEST(Deferred, ACallWhoseActorEndsEndsToo) {
  auto desk = volador::actor<Desk>().spawn();
  auto asked = desk.call<&Desk::ask>();
  desk.call<&Desk::wanted>().get(60s);
  desk.kill();
  EXPECT_EQ(asked.result(60s).error().code, volador::ErrorCode::kActorDied);
}

// ---- the queue ----

TEST(Queue, IsBoundedAndKeepsTheOrder) {
  const auto queue = Queue<int>::create({.capacity = 2});
  EXPECT_TRUE(queue.empty());
  queue.put(1);
  EXPECT_TRUE(queue.try_put(2));
  EXPECT_FALSE(queue.try_put(3));
  EXPECT_FALSE(queue.put(3, 20ms));
  EXPECT_TRUE(queue.full());
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.get(), 1);
  EXPECT_EQ(queue.try_get(), 2);
  EXPECT_EQ(queue.try_get(), std::nullopt);
  EXPECT_EQ(queue.get(20ms), std::nullopt);
}

TEST(Queue, TakesAndBringsMany) {
  const auto queue = Queue<std::string>::create({.capacity = 3});
  EXPECT_FALSE(queue.try_put_many({"a", "b", "c", "d"}));
  EXPECT_TRUE(queue.try_put_many({"a", "b"}));
  EXPECT_EQ(queue.put_many({"c", "d"}, 20ms), 1u);
  EXPECT_EQ(queue.get_many(2), std::vector<std::string>({"a", "b"}));
  EXPECT_EQ(queue.try_get_many(5), std::vector<std::string>({"c"}));
  EXPECT_TRUE(queue.get_many(5, 20ms).empty());
}

int produce(const Queue<int>& queue, int first, int count) {
  for (int i = 0; i < count; ++i) queue.put(first + i);
  return count;
}
std::vector<int> consume(const Queue<int>& queue, int count) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(queue.get());
  return out;
}

TEST(Queue, ManyProducersAndConsumersInOtherProcesses) {
  const auto queue = Queue<int>::create({.capacity = 5});
  constexpr int kEach = 200, kSides = 3;
  std::vector<volador::Future<std::vector<int>>> consumers;
  std::vector<volador::Future<int>> producers;
  for (int i = 0; i < kSides; ++i)
    consumers.push_back(volador::task<&consume>(queue, kEach).resources({.cpus = 0.1}).submit());
  for (int i = 0; i < kSides; ++i)
    producers.push_back(volador::task<&produce>(queue, i * kEach, kEach).resources({.cpus = 0.1}).submit());
  volador::get(producers, 60s);
  std::vector<int> all;
  for (const auto& got : volador::get(consumers, 60s)) {
    std::map<int, int> last;  // By producer.
    for (const int item : got) {
      const auto [at, first] = last.try_emplace(item / kEach, item);
      if (!first) {
        EXPECT_LT(at->second, item) << "out of order";
        at->second = item;
      }
    }
    all.insert(all.end(), got.begin(), got.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<int> expected(kEach * kSides);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

// A call that waits for an item does not block others, and one whose caller has exited takes no item.
int waits_for_ever(const Queue<int>& queue) { return queue.get(); }

TEST(Queue, AConsumerThatEndedTakesNoItem) {
  const auto queue = Queue<int>::create();
  auto waiting = volador::task<&waits_for_ever>(queue).resources({.cpus = 0.1}).max_retries(0).submit();
  EXPECT_EQ(queue.get(100ms), std::nullopt);
  waiting.cancel({.force = true});
  EXPECT_FALSE(waiting.result(60s));
  EXPECT_EQ(queue.get(500ms), std::nullopt);
  queue.put(5);
  EXPECT_EQ(queue.get(60s), 5);
}

TEST(Queue, IsFoundByNameAndOnlyAsWhatItIs) {
  const auto made = Queue<int>::create({.name = "numbers"});
  made.put(4);
  EXPECT_EQ(Queue<int>::find("numbers").get(), 4);
  EXPECT_EQ(error_of([] { Queue<int>::find("absent"); }).code, volador::ErrorCode::kNotFound);
}

TEST(Names, AnotherClassIsNamedWithTheOneThatItIs) {
  const auto desk = volador::actor<Desk>().name("desk").spawn();
  for (const auto& error : {error_of([] { volador::get_actor<volador::internal::QueueActor<int>>("desk"); }),
                            error_of([] { Queue<int>::find("desk"); })}) {
    EXPECT_EQ(error.code, volador::ErrorCode::kInvalidArgument) << error.message;
    EXPECT_THAT(error.message,
                testing::AllOf(HasSubstr("Desk"), HasSubstr("QueueActor<int>"), HasSubstr("get_actor<")));
  }
  EXPECT_EQ(error_of([] {
              volador::actor<volador::internal::QueueActor<int>>(uint64_t{1}).name("desk").get_or_create();
            }).code,
            volador::ErrorCode::kInvalidArgument);
  EXPECT_EQ(volador::get_actor<Desk>("desk"), desk);
}

TEST(PrivateCluster, SaysOnceThatADetachedActorEndsWithIt) {
  testing::internal::CaptureStderr();
  const auto queue = Queue<int>::create({.name = "stays", .detached = true});
  const auto other = Queue<int>::create({.detached = true});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("actor \"stays\" is detached, but this program's private cluster ends with it"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  queue.shutdown();
  other.shutdown();
}

TEST(Queue, ShutdownEndsThoseWhoWaitAndLaterCalls) {
  const auto queue = Queue<int>::create();
  auto waiting = volador::task<&waits_for_ever>(queue).resources({.cpus = 0.1}).max_retries(0).submit();
  EXPECT_EQ(queue.get(100ms), std::nullopt);
  queue.shutdown();
  EXPECT_THAT(waiting.result(60s).error().message, HasSubstr("QueueActor<int>"));
  EXPECT_EQ(error_of([&] { queue.put(1); }).code, volador::ErrorCode::kActorDied);
  queue.shutdown();
}

TEST(Queue, RefusesWhatCannotBe) {
  EXPECT_THAT(error_of([] { Queue<int>::create({.capacity = 0}); }).message,
              HasSubstr("expected 1 to 100000000, got 0"));
  EXPECT_THAT(error_of([] { Queue<int>().put(1); }).message, HasSubstr("Queue<T>::create()"));
}

TEST(Queue, ReferencesTravelThroughIt) {
  const auto queue = Queue<volador::Ref<std::string>>::create();
  queue.put(volador::put(std::string(50'000, 'x')));
  EXPECT_EQ(queue.get().get(60s), std::string(50'000, 'x'));
}

}  // namespace

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 4});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
