// retry_on(): an exception matches its own type and its base types.
#include "runtime/actor/exception_kinds.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "runtime/actor/actor_class.h"

// Types of this test only: naming a standard one would change the error texts in every test of this program.
namespace volador::kinds {
struct Slow : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Slower : Slow {
  using Slow::Slow;
};
}  // namespace volador::kinds

namespace volador::internal {
namespace {

struct Busy : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Plain {};
struct Derived : Plain {};

const bool kNamed =
    ExceptionKind<kinds::Slow>::enlisted && ExceptionKind<Plain>::enlisted && ExceptionKind<Busy>::enlisted;

template <class E>
std::string thrown(E exception) {
  return guarded([&]() -> Result<std::string> { throw exception; }).error().message;
}

TEST(ExceptionKinds, AnErrorTellsTheBasesThatTheProgramNames) {
  ASSERT_TRUE(kNamed);
  const std::string text = thrown(kinds::Slower("far: away"));
  EXPECT_EQ(text, "volador::kinds::Slower (a volador::kinds::Slow): far: away");
  EXPECT_TRUE(is_of_kind(text, "volador::kinds::Slower"));
  EXPECT_TRUE(is_of_kind(text, "volador::kinds::Slow"));
  EXPECT_FALSE(is_of_kind(text, "std::runtime_error"));
  EXPECT_EQ(thrown(std::runtime_error("away")), "std::runtime_error: away") << "nothing that is named";
}

TEST(ExceptionKinds, TypesWithoutANameAndOnesThatAreNoStdExceptionCount) {
  EXPECT_TRUE(is_of_kind(thrown(Busy("now")), type_name<Busy>()));
  EXPECT_TRUE(is_of_kind(thrown(Plain{}), type_name<Plain>()));
  EXPECT_TRUE(is_of_kind(thrown(Derived{}), type_name<Plain>()));
  EXPECT_FALSE(is_of_kind(thrown(1), type_name<Plain>()));
}

TEST(ExceptionKinds, WhatAnExceptionSaysIsNoType) {
  EXPECT_FALSE(is_of_kind("std::runtime_error: std::logic_error: x", "std::logic_error"));
  EXPECT_FALSE(is_of_kind("A::B: x", "A")) << "a namespace, or a class around it";
  EXPECT_FALSE(is_of_kind("A: x (a B): y", "B"));
  EXPECT_TRUE(is_of_kind("A (a B, C<int, D>): x", "C<int, D>"));
  EXPECT_TRUE(is_of_kind("A: ", "A"));
  EXPECT_FALSE(is_of_kind("", "A"));
}

}  // namespace
}  // namespace volador::internal
