#include "tune/stop_request.h"

#include <gtest/gtest.h>

#include "runtime/random.h"
#include "tests/tune/temporary_directory.h"

namespace volador::tune {
namespace {

TEST(StopRequest, IsReadAsItWasAskedUntilItsFileIsRemoved) {
  const TemporaryDirectory folder;
  SeededRandom random(1);
  EXPECT_TRUE(stop_requests(folder.path()).empty()) << "nobody asked";
  ASSERT_TRUE(ask_to_stop(folder.path(), std::nullopt, random).has_value());
  ASSERT_TRUE(ask_to_stop(folder.path(), TrialId(0x3f2a90c1), random).has_value());
  const std::vector<StopAsked> asked = stop_requests(folder.path());
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_NE(asked[0].trial.has_value(), asked[1].trial.has_value());
  EXPECT_EQ(asked[asked[0].trial ? 0 : 1].trial, TrialId(0x3f2a90c1));
  for (const StopAsked& one : asked) std::filesystem::remove(one.file);
  EXPECT_TRUE(stop_requests(folder.path()).empty());
}

TEST(StopRequest, WhatIsNoRequestIsRemovedAndMeansNothing) {
  const TemporaryDirectory folder;
  for (const char* text : {"", "[]", "{\"trial\": 3}", "{\"trial\": \"no\"}", "{\"trial\""}) {
    const auto file = folder.path() / "requests" / "stop-1.json";
    write_text(file, text);
    EXPECT_TRUE(stop_requests(folder.path()).empty()) << text;
    EXPECT_FALSE(std::filesystem::exists(file)) << text;
  }
  write_text(folder.path() / "requests" / "notes.txt", "kept");
  EXPECT_TRUE(stop_requests(folder.path()).empty());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "requests" / "notes.txt"));
}

}  // namespace
}  // namespace volador::tune
