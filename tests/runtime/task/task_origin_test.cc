#include "runtime/task/task_origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "runtime/actor/ref.h"

namespace volador::internal {
namespace {

using testing::HasSubstr;
using ObjectPtr = std::shared_ptr<const StoredObject>;

class MadeUp final : public StoredObject {
 public:
  explicit MadeUp(uint64_t number) : key_{NodeId(std::array<uint8_t, 16>{1}), 5, number} {}
  const ObjectKey& key() const override { return key_; }
  const std::string& address() const override { return address_; }
  Result<ObjectView> view(std::optional<std::chrono::nanoseconds>) const override {
    return make_error(ErrorCode::kObjectLost, "lost");
  }
  bool is_ready() const override { return true; }

 private:
  const ObjectKey key_;
  const std::string address_ = "127.0.0.1:1";
};

std::map<std::string, ObjectPtr>& brought() {  // By response: the claim is a plain function.
  static std::map<std::string, ObjectPtr> all;
  return all;
}
std::shared_ptr<const void> claim_made_up(const Result<std::string>& answer, std::vector<ObjectPtr>* objects) {
  if (!answer || !brought().contains(*answer)) return nullptr;
  objects->push_back(brought().extract(*answer).mapped());
  return objects->back();
}
std::string bytes_of(const ObjectPtr& object) {
  Encoder encoder;
  volador_encode(encoder, AnyRef(object));
  return encoder.take();
}

class TaskOriginTest : public testing::Test {
 protected:
  struct Submitted {
    TaskRequest request;
    std::function<void(Result<std::string>)> done;
  };
  TaskWays ways() {
    TaskWays made;
    made.submit = [this](TaskRequest request, std::function<void(Result<std::string>)> done) {
      submitted.push_back({std::move(request), std::move(done)});
    };
    made.claim = &claim_made_up;
    made.owner = owner;
    return made;
  }
  // The next submitted task returns a new object.
  ObjectPtr answer() {
    const auto made = std::make_shared<MadeUp>(++number);
    const std::string name = "answer " + std::to_string(number);
    brought()[name] = made;
    finish(name);
    return made;
  }
  void finish(Result<std::string> result) {
    Submitted one = std::move(submitted.front());
    submitted.pop_front();
    one.done(std::move(result));
  }
  ObjectPtr run(const std::vector<ObjectPtr>& arguments = {}) {
    TaskRequest request;
    request.name = "f";
    request.arguments = "(";
    for (const ObjectPtr& one : arguments) request.arguments += bytes_of(one) + ",";
    run_with_origin(ways(), request, arguments,
                    [](const Result<std::string>& result, const std::shared_ptr<const void>&) { EXPECT_TRUE(result); });
    return answer();
  }
  static void rebuild(const ObjectPtr& object, std::optional<Result<ObjectPtr>>& into) {
    const auto origin = object->origin();
    ASSERT_NE(origin.made_by, nullptr);
    origin.made_by->rebuild(origin.index, 1, [&into](Result<ObjectPtr> made) { into.emplace(std::move(made)); });
  }

  std::string owner;
  std::deque<Submitted> submitted;
  uint64_t number = 0;
};

TEST_F(TaskOriginTest, AResultIsMadeAgainOnceForAllWhoAsk) {
  const auto lost = run();
  std::optional<Result<ObjectPtr>> first, second, third;
  rebuild(lost, first);
  rebuild(lost, second);
  ASSERT_EQ(submitted.size(), 1u);
  EXPECT_EQ(newest(lost), lost);
  const auto made = answer();
  EXPECT_EQ(**first, made);
  EXPECT_EQ(**second, made);
  rebuild(lost, third);
  EXPECT_EQ(**third, made);
  EXPECT_TRUE(submitted.empty());
  EXPECT_EQ(newest(lost), made);
  std::optional<Result<ObjectPtr>> again;
  rebuild(made, again);  // That one was lost too.
  const auto last = answer();
  EXPECT_EQ(newest(lost), last);
}

TEST_F(TaskOriginTest, ArgumentsThatAreGoneAreMadeAgainFirst) {
  auto argument = run();
  const std::string old_bytes = bytes_of(argument);
  const auto lost = run({argument});
  argument.reset();
  std::optional<Result<ObjectPtr>> result;
  rebuild(lost, result);
  ASSERT_EQ(submitted.size(), 1u);
  EXPECT_EQ(submitted.front().request.arguments, "(");
  const auto new_argument = answer();
  ASSERT_EQ(submitted.size(), 1u);
  EXPECT_EQ(submitted.front().request.arguments, "(" + bytes_of(new_argument) + ",");
  const auto made = answer();
  EXPECT_EQ(**result, made);
}

TEST_F(TaskOriginTest, AnArgumentThatIsStillReferredToIsTakenAsItIs) {
  const auto argument = run();
  const auto lost = run({argument});
  std::optional<Result<ObjectPtr>> result;
  rebuild(lost, result);
  ASSERT_EQ(submitted.size(), 1u);
  EXPECT_EQ(submitted.front().request.arguments, "(" + bytes_of(argument) + ",");
  answer();
  EXPECT_TRUE(*result);
}

TEST_F(TaskOriginTest, ATaskWhoseArgumentIsLostRunsAgainWithTheNewOne) {
  const auto argument = run();
  TaskRequest request;
  request.arguments = bytes_of(argument);
  std::optional<Result<std::string>> ended;
  run_with_origin(ways(), request, {argument}, [&](Result<std::string> result, const std::shared_ptr<const void>&) {
    ended.emplace(std::move(result));
  });
  finish(make_error(ErrorCode::kObjectLost, "object " + to_string(argument->key()) + " cannot be had"));
  ASSERT_EQ(submitted.size(), 1u);
  EXPECT_EQ(submitted.front().request.arguments, "(");
  const auto made = answer();
  ASSERT_EQ(submitted.size(), 1u);
  EXPECT_EQ(submitted.front().request.arguments, bytes_of(made));
  finish(std::string("well"));
  EXPECT_EQ(**ended, "well");
}

TEST_F(TaskOriginTest, WhatNobodyCanMakeAgainIsLostAndSaysWhy) {
  ObjectPtr put = std::make_shared<MadeUp>(99);
  const auto lost = run({put});
  put.reset();
  std::optional<Result<ObjectPtr>> result;
  rebuild(lost, result);
  ASSERT_TRUE(result);
  ASSERT_FALSE(*result);
  EXPECT_EQ(result->error().code, ErrorCode::kObjectLost);
  EXPECT_THAT(result->error().message, HasSubstr("no task of this program made it"));
  EXPECT_TRUE(submitted.empty());
}

TEST_F(TaskOriginTest, ATaskThatFailsWhenItRunsAgainSaysSoAndMayBeTriedAgain) {
  const auto lost = run();
  for (int round = 0; round < 2; ++round) {
    std::optional<Result<ObjectPtr>> result;
    rebuild(lost, result);
    finish(make_error(ErrorCode::kApplication, "not today"));
    ASSERT_FALSE(*result);
    EXPECT_THAT(result->error().message, HasSubstr("task f, run again to make it, failed: not today"));
  }
}

TEST_F(TaskOriginTest, NoChainIsLongerThanTheLimit) {
  auto last = run();
  for (int at = 0; at < 3 * kRebuildDepthMax; ++at) {
    last = run({last});
    EXPECT_LE(last->origin().made_by->length(), kRebuildDepthMax);
  }
}

TEST_F(TaskOriginTest, AnObjectThatWasFreedIsNotMadeAgain) {
  const auto lost = run();
  lost->set_origin({});
  EXPECT_EQ(lost->origin().made_by, nullptr);
}

TEST_F(TaskOriginTest, WhatWasPassedOnIsMadeAgainAlsoWhereNothingHereRefersToItAnyMore) {
  owner = "who submits";
  auto lost = run();
  const ObjectKey key = lost->key();
  EXPECT_THAT(bytes_of(lost), HasSubstr(std::string("127.0.0.1:1") + '\0' + owner));
  lost.reset();
  const auto origin = known_origin(key);
  ASSERT_NE(origin.made_by, nullptr);
  std::optional<Result<ObjectPtr>> result;
  origin.made_by->rebuild(origin.index, 1, [&result](Result<ObjectPtr> made) { result.emplace(std::move(made)); });
  const std::weak_ptr<const StoredObject> made = answer();
  EXPECT_EQ(**result, made.lock());
  result.reset();
  EXPECT_TRUE(made.expired()) << "who asked keeps it, not who made it";
}

TEST_F(TaskOriginTest, WhatWasPassedOnAndFreedIsForgotten) {
  owner = "who submits";
  auto lost = run();
  const ObjectKey key = lost->key();
  bytes_of(lost);
  lost->set_origin({});
  lost.reset();
  EXPECT_EQ(known_origin(key).made_by, nullptr);
}

TEST_F(TaskOriginTest, WhatWasPassedOnLongestAgoIsForgottenAtTheLimit) {
  owner = "who submits";
  number = 1'000'000;
  std::vector<ObjectKey> keys;
  for (size_t count = 0; count < kPassedOnOriginsMax + 2; ++count) {
    const auto one = run();
    keys.push_back(one->key());
    bytes_of(one);
  }
  EXPECT_EQ(known_origin(keys.at(0)).made_by, nullptr);
  EXPECT_EQ(known_origin(keys.at(1)).made_by, nullptr);
  EXPECT_NE(known_origin(keys.at(2)).made_by, nullptr);
  EXPECT_NE(known_origin(keys.back()).made_by, nullptr);
}

TEST_F(TaskOriginTest, AReplacementLivesAsLongAsWhatItReplaces) {
  auto lost = run();
  std::optional<Result<ObjectPtr>> result;
  rebuild(lost, result);
  std::weak_ptr<const StoredObject> made = answer();
  lost->set_replacement(**result);
  result.reset();
  EXPECT_EQ(newest(lost), made.lock());
  lost.reset();
  EXPECT_TRUE(made.expired());
}

}  // namespace
}  // namespace volador::internal
