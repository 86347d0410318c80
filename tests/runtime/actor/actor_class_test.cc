#include "runtime/actor/actor_class.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime/actor/handle.h"
#include "runtime/random.h"

namespace volador {
namespace {

struct Sum {
  int total = 0;
  std::string note;
};
VOLADOR_FIELDS(Sum, total, note);

class Adder {
 public:
  Adder(int start, std::string note) : total_(start), note_(std::move(note)) {}
  int add(int amount) { return total_ += amount; }
  Sum sum() const { return {total_, note_}; }
  void reset() { total_ = 0; }
  int fail(const std::string& text) { throw std::out_of_range(text); }
  int nested() { throw Exception(Error{ErrorCode::kUnavailable, "another actor"}); }

 private:
  int total_;
  std::string note_;
};
VOLADOR_ACTOR(Adder, &Adder::add, &Adder::sum, &Adder::reset, &Adder::fail, &Adder::nested);

static_assert(registration::lists<&Adder::add, decltype(volador_actor_methods(static_cast<const Adder*>(nullptr)))>);

const ActorClass& adder_class() {
  const ActorClass* found = ActorClassRegistry::instance().find(type_name<Adder>());
  VOLADOR_CHECK(found != nullptr);
  return *found;
}

std::shared_ptr<void> make_adder(int start, std::string note) {
  using Constructor = registration::Constructor<Adder, int, std::string>;
  EXPECT_TRUE(Constructor::enlisted);
  auto made = adder_class().constructors.at(Constructor::id())(
      to_bytes<uint64_t, int, std::string>(Constructor::id(), start, note));
  EXPECT_TRUE(made);
  return *made;
}

TEST(ActorClass, IsKnownByTheNameOfItsType) {
  EXPECT_NE(type_name<Adder>().find("Adder"), std::string_view::npos);
  EXPECT_EQ(adder_class().methods.size(), 5u);
  EXPECT_NE(display_name<&Adder::add>().find("Adder::add"), std::string::npos) << display_name<&Adder::add>();
}

TEST(ActorClass, IsAskedOfTheSourceOnlyIfItIsNotDeclared) {
  ActorClassRegistry registry;
  const ActorClass& declared = registry.declare("Declared");
  const auto unknown = registry.load("Other", "");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_NE(unknown.error().message.find("it has: Declared"), std::string::npos) << unknown.error().message;

  static const ActorClass found{.name = "Other"};
  std::vector<std::string> asked;
  registry.set_source([&](const std::string& name, std::string_view arguments) -> Result<const ActorClass*> {
    asked.push_back(name + " " + std::string(arguments));
    return &found;
  });
  EXPECT_EQ(registry.load("Declared", "a").value(), &declared);
  EXPECT_EQ(registry.load("Other", "b").value(), &found);
  EXPECT_EQ(asked, std::vector<std::string>{"Other b"});
}

TEST(ActorClass, MethodsTakeAndGiveBytes) {
  const auto object = make_adder(10, "n");
  const auto& add = adder_class().methods.at(function_id<&Adder::add>());
  const auto total = add.invoke(object.get(), to_bytes(5));
  ASSERT_TRUE(total);
  EXPECT_EQ(*from_bytes<int>(*total), 15);
  const auto sum = adder_class().methods.at(function_id<&Adder::sum>()).invoke(object.get(), to_bytes());
  EXPECT_EQ(from_bytes<Sum>(*sum)->note, "n");
  EXPECT_TRUE(adder_class().methods.at(function_id<&Adder::reset>()).invoke(object.get(), to_bytes()));
  EXPECT_EQ(
      from_bytes<Sum>(*adder_class().methods.at(function_id<&Adder::sum>()).invoke(object.get(), to_bytes()))->total,
      0);
}

TEST(ActorClass, ArgumentsOfAnotherTypeAreRefused) {
  const auto object = make_adder(1, "");
  const auto result =
      adder_class().methods.at(function_id<&Adder::add>()).invoke(object.get(), to_bytes(std::string("five")));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
}

TEST(ActorClass, WhatUserCodeThrowsArrivesWithTypeAndText) {
  const auto object = make_adder(1, "");
  const auto call = [&](uint64_t method, const std::string& arguments) {
    return guarded([&] { return adder_class().methods.at(method).invoke(object.get(), arguments); });
  };
  const auto thrown = call(function_id<&Adder::fail>(), to_bytes(std::string("index 9 of 3")));
  ASSERT_FALSE(thrown);
  EXPECT_EQ(thrown.error(), (Error{ErrorCode::kApplication, "std::out_of_range: index 9 of 3"}));
  const auto odd = guarded([]() -> Result<std::string> { throw 7; });
  EXPECT_EQ(odd.error(), (Error{ErrorCode::kApplication, "int was thrown"}));
}

TEST(ActorClass, AnErrorThatSaysRetryIsNotPassedOnAsThisCalls) {
  const auto object = make_adder(1, "");
  const auto result =
      guarded([&] { return adder_class().methods.at(function_id<&Adder::nested>()).invoke(object.get(), to_bytes()); });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kApplication);
}

TEST(Future, ShowsItsReplyToEveryWaiter) {
  auto reply = std::make_shared<Reply>();
  const Future<int> future(reply);
  int seen = 0;
  future.then([&](const Result<int>& result) { seen = result.value_or(-1); });
  EXPECT_FALSE(future.is_ready());
  EXPECT_EQ(future.result(std::chrono::milliseconds(1)).error().code, ErrorCode::kTimeout);
  reply->set(to_bytes(41));
  reply->set(to_bytes(42));  // Repeated: no effect.
  EXPECT_EQ(seen, 41);
  EXPECT_EQ(future.get(), 41);
  EXPECT_TRUE(future.is_ready());
}

TEST(Future, EachFunctionRunsOnceHoweverLateItCame) {
  for (int round = 0; round < 300; ++round) {
    const auto reply = std::make_shared<Reply>();
    std::atomic<int> ran{0};
    std::vector<std::thread> askers;
    for (int at = 0; at < 3; ++at) {
      askers.emplace_back([&] {
        for (int one = 0; one < 5; ++one) {
          reply->then([&](const Result<std::string>& answer) {
            EXPECT_EQ(*answer, "first");
            ++ran;
          });
        }
      });
    }
    reply->set("first");
    reply->set("second");
    for (auto& asker : askers) asker.join();
    EXPECT_EQ(ran, 15);
  }
}

TEST(Future, FunctionsRunInTheOrderInWhichTheyCame) {
  Reply reply;
  std::string order;
  for (const char one : {'a', 'b', 'c'}) reply.then([&order, one](const Result<std::string>&) { order += one; });
  reply.set("");
  reply.then([&order](const Result<std::string>&) { order += 'd'; });
  EXPECT_EQ(order, "abcd");
}

TEST(Future, ThrowsTheErrorOfItsCall) {
  auto reply = std::make_shared<Reply>();
  reply->set(make_error(ErrorCode::kActorDied, "gone"));
  try {
    Future<void>(reply).get();
    FAIL();
  } catch (const Exception& e) {
    EXPECT_EQ(e.code(), ErrorCode::kActorDied);
    EXPECT_STREQ(e.what(), "gone   [kActorDied]");
  }
}

TEST(Handle, TravelsAsItsId) {
  SeededRandom random(3);
  const ActorHandle<Adder> handle(new_id<ActorId>(random));
  EXPECT_EQ(*from_bytes<ActorHandle<Adder>>(to_bytes(handle)), handle);
}

}  // namespace
}  // namespace volador
