#include "runtime/net/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace volador::net {

using Kind = AdmissionAction::Kind;

static void PrintTo(const AdmissionAction& action, std::ostream* out) {
  constexpr const char* kNames[] = {"serve", "end", "release"};
  *out << kNames[static_cast<size_t>(action.kind)] << ' ' << action.connection;
}

namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

MATCHER_P2(Is, kind, connection, "") { return arg.kind == kind && arg.connection == static_cast<uint64_t>(connection); }

constexpr BootTime at(int64_t ms) { return BootTime(milliseconds(ms)); }

const AdmissionLimits kSmall{.connections = 4, .unproved = 2, .budget = 10, .budget_per_second = 1, .flood_cost = 5};

Admission::Actions arrive(Admission& admission, uint64_t connection, const std::string& address, BootTime now) {
  EXPECT_THAT(admission.on_accepted(connection, address, now), IsEmpty());
  return admission.on_hello(connection, now);
}

TEST(Admission, AConnectionIsServedWithItsHelloAndReleasedWithItsProof) {
  Admission admission(kSmall);
  EXPECT_THAT(arrive(admission, 7, "a", at(0)), ElementsAre(Is(Kind::kServe, 7)));
  EXPECT_THAT(admission.unproved(), ElementsAre(7));
  EXPECT_THAT(admission.on_proved(7, at(1)), ElementsAre(Is(Kind::kRelease, 7)));
  EXPECT_EQ(admission.size(), 0);
  EXPECT_THAT(admission.on_proved(7, at(2)), IsEmpty());
  EXPECT_THAT(admission.on_closed(7, at(2)), IsEmpty());
}

TEST(Admission, WhatIsNoHelloEndsAtOnceAndCostsNothing) {
  Admission admission(kSmall);
  for (uint64_t one = 1; one <= 100; ++one) {
    admission.on_accepted(one, "a", at(0));
    EXPECT_THAT(admission.on_garbage(one, at(0)), ElementsAre(Is(Kind::kEnd, one)));
  }
  EXPECT_THAT(arrive(admission, 200, "a", at(0)), ElementsAre(Is(Kind::kServe, 200)));
}

TEST(Admission, SilentConnectionsEndAfterTheHelloTimeAndServedOnesAfterTheProofTime) {
  Admission admission(kSmall);
  admission.on_accepted(1, "a", at(0));
  arrive(admission, 2, "a", at(0));
  EXPECT_THAT(admission.on_tick(at(1'999)), IsEmpty());
  EXPECT_THAT(admission.on_tick(at(2'000)), ElementsAre(Is(Kind::kEnd, 1)));
  EXPECT_THAT(admission.on_tick(at(5'000)), ElementsAre(Is(Kind::kEnd, 2)));
}

TEST(Admission, AtTheLimitTheOldestSilentConnectionMakesRoom) {
  Admission admission(kSmall);
  arrive(admission, 1, "a", at(0));
  for (uint64_t one = 2; one <= 4; ++one) admission.on_accepted(one, "a", at(0));
  EXPECT_THAT(admission.on_accepted(5, "a", at(1)), ElementsAre(Is(Kind::kEnd, 2)));
  EXPECT_EQ(admission.size(), 4);
}

TEST(Admission, ItIsCrowdedWhileTheOldestSilentConnectionIsYoung) {
  Admission admission(kSmall);
  for (uint64_t one = 1; one <= 4; ++one) {
    EXPECT_FALSE(admission.is_crowded(at(0)));
    admission.on_accepted(one, "a", at(0));
  }
  EXPECT_TRUE(admission.is_crowded(at(249)));
  EXPECT_FALSE(admission.is_crowded(at(250)));
  admission.on_hello(1, at(1));
  admission.on_proved(1, at(1));
  EXPECT_FALSE(admission.is_crowded(at(1)));
}

TEST(Admission, AtTheLimitWithoutSilentOnesTheAddressWithTheMostWaitingMakesRoom) {
  Admission admission({.connections = 5, .unproved = 1});
  arrive(admission, 1, "a", at(0));
  EXPECT_THAT(arrive(admission, 2, "b", at(0)), IsEmpty());
  EXPECT_THAT(arrive(admission, 3, "a", at(0)), IsEmpty());
  EXPECT_THAT(arrive(admission, 4, "a", at(0)), IsEmpty());
  EXPECT_THAT(arrive(admission, 5, "a", at(0)), IsEmpty());
  EXPECT_THAT(admission.on_accepted(6, "c", at(1)), ElementsAre(Is(Kind::kEnd, 3)));
}

TEST(Admission, AddressesAreServedInTurnAndTheNewestOfEachFirst) {
  Admission admission({.unproved = 1});
  arrive(admission, 1, "a", at(0));
  for (uint64_t one = 2; one <= 4; ++one) arrive(admission, one, "a", at(0));
  arrive(admission, 5, "b", at(0));
  EXPECT_THAT(admission.on_proved(1, at(1)), ElementsAre(Is(Kind::kRelease, 1), Is(Kind::kServe, 5)));
  EXPECT_THAT(admission.on_proved(5, at(1)), ElementsAre(Is(Kind::kRelease, 5), Is(Kind::kServe, 4)));
  EXPECT_THAT(admission.on_proved(4, at(1)), ElementsAre(Is(Kind::kRelease, 4), Is(Kind::kServe, 3)));
}

TEST(Admission, AFloodEndsTheConnectionAndSlowsItsAddressAlone) {
  Admission admission(kSmall);  // Two floods use up the budget of ten.
  for (uint64_t one = 1; one <= 2; ++one) {
    EXPECT_THAT(arrive(admission, one, "a", at(0)), ElementsAre(Is(Kind::kServe, one)));
    EXPECT_THAT(admission.on_received(one, 128 << 10, at(0)), IsEmpty());
    EXPECT_THAT(admission.on_received(one, (128 << 10) + 1, at(0)), ElementsAre(Is(Kind::kEnd, one)));
  }
  EXPECT_THAT(arrive(admission, 3, "a", at(0)), IsEmpty());
  EXPECT_THAT(arrive(admission, 4, "b", at(0)), ElementsAre(Is(Kind::kServe, 4)));
  EXPECT_THAT(admission.on_tick(at(999)), IsEmpty());
  EXPECT_THAT(admission.on_tick(at(1'000)), ElementsAre(Is(Kind::kServe, 3)));
}

TEST(Admission, WhatIsRefusedAfterItsHelloMakesRoomAndCostsNothing) {
  Admission admission({.unproved = 1, .budget = 1, .budget_per_second = 0});
  for (uint64_t one = 1; one <= 100; ++one) {
    arrive(admission, one, "a", at(0));
    if (one == 1) continue;
    EXPECT_THAT(admission.on_garbage(one - 1, at(0)), ElementsAre(Is(Kind::kEnd, one - 1), Is(Kind::kServe, one)));
  }
}

TEST(Admission, AnEndBelowTheLimitOfBytesCostsAPartOfAFlood) {
  Admission admission({.unproved = 2,
                       .unproved_bytes = 80 << 10,
                       .budget = 10,
                       .budget_per_second = 1,
                       .bytes_cost = 5});  // Each costs 1 + 5 * 3/5.
  for (uint64_t one = 1; one <= 4; ++one) {
    const auto served = arrive(admission, one, "a", at(0));
    EXPECT_EQ(served.size(), one <= 3 ? 1 : 0) << one;
    admission.on_received(one, 48 << 10, at(0));
    admission.on_closed(one, at(0));
  }
}

TEST(Admission, AddressesWithoutAProofShareOneBudget) {
  Admission admission({.unproved = 8, .flood_cost = 5, .strangers_budget = 20, .strangers_budget_per_second = 2});
  uint64_t next = 1;
  arrive(admission, next, "known", at(0));
  admission.on_proved(next++, at(0));
  size_t floods = 0;
  for (int address = 0; address < 100; ++address, ++next) {
    if (arrive(admission, next, "stranger " + std::to_string(address), at(0)).empty()) continue;
    ++floods;
    admission.on_received(next, 1 << 20, at(0));
  }
  EXPECT_EQ(floods, 4);
  EXPECT_THAT(arrive(admission, next, "known", at(0)), ElementsAre(Is(Kind::kServe, next)));
  EXPECT_EQ(admission.on_tick(at(500)).size(), 1) << "one of the others, as the budget comes back";
}

TEST(Admission, StrangersLeaveAQuarterOfThePlacesToOthers) {
  Admission admission({.unproved = 4});
  arrive(admission, 1, "known", at(0));
  admission.on_proved(1, at(0));
  for (uint64_t one = 2; one <= 9; ++one) arrive(admission, one, "stranger " + std::to_string(one), at(0));
  EXPECT_EQ(admission.unproved().size(), 3);
  EXPECT_THAT(arrive(admission, 10, "known", at(0)), ElementsAre(Is(Kind::kServe, 10)));
}

TEST(Admission, OneAddressTakesAPartOfThePlaces) {
  Admission admission({.unproved = 4, .unproved_of_address = 2});
  for (uint64_t one = 1; one <= 3; ++one) arrive(admission, one, "a", at(0));
  EXPECT_EQ(admission.unproved().size(), 2);
  EXPECT_THAT(arrive(admission, 4, "b", at(0)), ElementsAre(Is(Kind::kServe, 4)));
  EXPECT_THAT(admission.on_proved(1, at(1)), ElementsAre(Is(Kind::kRelease, 1), Is(Kind::kServe, 3)));
}

TEST(Admission, ASecondAfterAFloodItsAddressIsServedAgain) {
  Admission admission({.unproved = 2, .budget = 10, .budget_per_second = 1, .flood_cost = 5});
  uint64_t next = 1;
  for (; next <= 1'000; ++next) {
    admission.on_accepted(next, "a", at(0));
    if (!admission.on_hello(next, at(0)).empty()) admission.on_received(next, 1 << 20, at(0));
  }
  for (uint64_t one = 1; one < next; ++one) admission.on_closed(one, at(0));
  EXPECT_THAT(arrive(admission, next, "a", at(0)), IsEmpty());
  EXPECT_THAT(admission.on_tick(at(1'000)), ElementsAre(Is(Kind::kServe, next)));
}

TEST(Admission, ProvedConnectionsPayForThemselvesAndForTheProbeBeforeThem) {
  Admission admission(kSmall);
  uint64_t next = 0;
  for (int client = 0; client < 10'000; ++client) {
    const uint64_t probe = ++next;
    ASSERT_THAT(arrive(admission, probe, "127.0.0.1", at(0)), ElementsAre(Is(Kind::kServe, probe)));
    admission.on_closed(probe, at(0));
    const uint64_t joins = ++next;
    ASSERT_THAT(arrive(admission, joins, "127.0.0.1", at(0)), ElementsAre(Is(Kind::kServe, joins)));
    admission.on_proved(joins, at(0));
  }
}

TEST(Admission, ProcessesWithFewDescriptorsKeepMostOfThemForProvedPeers) {
  const AdmissionLimits few = admission_limits_for(1'000'000, {.connections = 3, .unproved = 2});
  EXPECT_EQ(few.connections, 3);
  EXPECT_EQ(few.unproved, 2);
  for (const uint64_t descriptors : {256, 1'024, 4'096, 1'000'000}) {
    const AdmissionLimits limits = admission_limits_for(descriptors);
    EXPECT_LE(limits.connections + limits.unproved, descriptors / 4) << descriptors;
    EXPECT_LE(limits.connections, 512) << descriptors;
    EXPECT_GE(limits.unproved, 8) << descriptors;
  }
}

// Random events: the limits hold, every connection ends or is released once, and none waits while capacity is free.
TEST(Admission, KeepsItsLimitsUnderRandomEvents) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
    const AdmissionLimits limits{.connections = 16, .unproved = 4, .budget = 20, .budget_per_second = 5};
    Admission admission(limits);
    std::set<uint64_t> open, served;
    uint64_t next = 1;
    int64_t now = 0;
    const auto take = [&](const Admission::Actions& actions) {
      for (const AdmissionAction& action : actions) {
        ASSERT_TRUE(open.contains(action.connection));
        if (action.kind == Kind::kServe) {
          ASSERT_TRUE(served.insert(action.connection).second);
          continue;
        }
        ASSERT_TRUE(action.kind == Kind::kEnd || served.contains(action.connection));
        open.erase(action.connection);
        served.erase(action.connection);
      }
    };
    for (int step = 0; step < 5'000; ++step) {
      now += below(50);
      const uint64_t some = next - static_cast<uint64_t>(std::min<int64_t>(below(30), static_cast<int64_t>(next) - 1));
      switch (below(7)) {
        case 0:
        case 1:
          open.insert(next);
          take(admission.on_accepted(next, std::string(1, static_cast<char>('a' + below(3))), at(now)));
          ++next;
          break;
        case 2:
          take(admission.on_hello(some, at(now)));
          break;
        case 3:
          take(admission.on_garbage(some, at(now)));
          break;
        case 4:
          if (served.contains(some)) take(admission.on_proved(some, at(now)));
          break;
        case 5:
          take(admission.on_closed(some, at(now)));
          break;
        default:
          take(admission.on_tick(at(now)));
      }
      ASSERT_EQ(admission.size(), open.size());
      ASSERT_LE(open.size(), limits.connections);
      ASSERT_LE(served.size(), limits.unproved);
      ASSERT_EQ(admission.unproved().size(), served.size());
    }
  }
}

}  // namespace
}  // namespace volador::net
