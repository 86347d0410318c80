// Components of the head's shell that need no network.
#include <gtest/gtest.h>

#include <fstream>

#include "head/shell/cluster_identity.h"
#include "head/shell/failure_throttle.h"
#include "head/shell/listen_port.h"
#include "head/shell/log_rings.h"
#include "head/shell/program_cache.h"
#include "head/shell/token_table.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/random.h"
#include "tests/temporary_directory.h"

namespace volador::head {
namespace {

using namespace std::chrono_literals;

const WallTime kNow{std::chrono::seconds(1'700'000'000)};

class TokenTableTest : public ::testing::Test {
 protected:
  TokenTable::Created create(std::chrono::milliseconds valid_for = 0ms) {
    auto created = table_.create({}, security::TokenRole::kJoin, valid_for, "note", kNow);
    EXPECT_TRUE(created.has_value());
    return std::move(*created);
  }
  ErrorCode refusal(const std::string& id, std::string_view secret, WallTime now = kNow) {
    auto role = table_.check(id, secret, now);
    EXPECT_FALSE(role.has_value());
    return role ? ErrorCode::kInternal : role.error().code;
  }
  TokenTable table_;
};

TEST_F(TokenTableTest, ASecretIsKnownByItsHashOnly) {
  const auto created = create();
  EXPECT_EQ(*table_.check(created.token.id, created.token.secret.reveal(), kNow), security::TokenRole::kJoin);
  ASSERT_EQ(created.journal.size(), 1u);
  EXPECT_EQ(created.journal[0].value->find(created.token.secret.reveal()), std::string::npos);
}

TEST_F(TokenTableTest, UnknownAndWrongGetOneAnswer) {
  const auto created = create();
  auto unknown = table_.check("000000000000", created.token.secret.reveal(), kNow);
  auto wrong = table_.check(created.token.id, std::string(20, 'x'), kNow);
  ASSERT_FALSE(unknown.has_value());
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(unknown.error(), wrong.error());
  EXPECT_EQ(wrong.error().code, ErrorCode::kUnauthenticated);
}

TEST_F(TokenTableTest, ATokenEndsAtItsExpiry) {
  const auto created = create(60s);
  EXPECT_TRUE(table_.check(created.token.id, created.token.secret.reveal(), kNow + 59s).has_value());
  auto late = table_.check(created.token.id, created.token.secret.reveal(), kNow + 60s);
  ASSERT_FALSE(late.has_value());
  EXPECT_NE(late.error().message.find("expired at 2023-11-14 22:14:20 UTC"), std::string::npos) << late.error().message;
}

TEST_F(TokenTableTest, ARevokedTokenIsRefusedAlsoAfterLoading) {
  const auto created = create();
  auto revoked = table_.revoke(created.token.id.substr(0, 6));
  ASSERT_TRUE(revoked.has_value());
  ASSERT_EQ(revoked->journal.size(), 1u);
  EXPECT_EQ(refusal(created.token.id, created.token.secret.reveal()), ErrorCode::kUnauthenticated);
  TokenTable loaded;
  EXPECT_TRUE(loaded.load(revoked->journal[0].key, *revoked->journal[0].value));
  EXPECT_FALSE(loaded.check(created.token.id, created.token.secret.reveal(), kNow).has_value());
  auto again = table_.revoke(created.token.id);
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->journal.empty());
  EXPECT_EQ(table_.revoke("zz").error().code, ErrorCode::kNotFound);
}

TEST_F(TokenTableTest, OneDigitRevokesNothing) {
  const auto created = create();
  for (size_t digits = 0; digits < 4; ++digits)
    EXPECT_FALSE(table_.revoke(created.token.id.substr(0, digits)).has_value()) << digits;
  EXPECT_NE(table_.revoke(created.token.id.substr(0, 1)).error().message.find("at least 4 digits"), std::string::npos);
  EXPECT_TRUE(table_.check(created.token.id, created.token.secret.reveal(), kNow).has_value());
  EXPECT_TRUE(table_.revoke(created.token.id.substr(0, 4)).has_value());
}

TEST_F(TokenTableTest, ABrokenRecordIsLeftOut) {
  EXPECT_FALSE(table_.load("id", "\xff\xff"));
  EXPECT_FALSE(table_.load("other", *create().journal[0].value));
}

TEST(FailureThrottle, RefusesAfterManyFailuresForAWhile) {
  FailureThrottle throttle({.failures_max = 3, .window = std::chrono::seconds(10), .peers_max = 2});
  BootTime now{100s};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(throttle.wait(now, "a").count(), 0);
    throttle.failed(now, "a");
  }
  EXPECT_EQ(throttle.wait(now + 1s, "a"), 9s);
  EXPECT_EQ(throttle.wait(now + 1s, "b").count(), 0);
  EXPECT_EQ(throttle.wait(now + 10s, "a").count(), 0);
  throttle.failed(now + 10s, "a");
  EXPECT_EQ(throttle.wait(now + 10s, "a").count(), 0);
  for (const char* peer : {"b", "c", "d"}) throttle.failed(now + 11s, peer);
}

protocol::LogLines lines_of(ActorId actor, std::vector<std::string> texts) {
  protocol::LogLines lines;
  lines.set_actor_id(raw(actor));
  lines.set_display("trial 1");
  lines.set_node_name("b");
  for (auto& text : texts) lines.add_lines(std::move(text));
  return lines;
}

TEST(LogRings, KeepTheNewestLinesWithinTheirLimits) {
  SeededRandom random(1);
  const auto a = new_id<ActorId>(random), b = new_id<ActorId>(random);
  LogRings rings({.actor_lines = 3, .actor_bytes = 100'000, .bytes = 200'000, .line_bytes = 10});
  EXPECT_FALSE(rings.tail({a}, 5).has_value());
  rings.add(lines_of(a, {"1", "2", "3", "4", "a very long line"}));
  auto tail = *rings.tail({a}, 2);
  ASSERT_EQ(tail.size(), 2u);
  EXPECT_EQ(tail[0].text, "4");
  EXPECT_EQ(tail[1].text, "a very lon [cut]");
  EXPECT_EQ(rings.tail({a}, 100)->size(), 3u);
  rings.add(lines_of(b, {"x"}));
  EXPECT_EQ(rings.tail({b}, 1)->front().node, "b");
}

TEST(LogRings, ForgetTheActorThatWroteLongestAgo) {
  SeededRandom random(2);
  LogRings rings({.actor_lines = 100, .actor_bytes = 4000, .bytes = 10'000, .line_bytes = 2000});
  std::vector<ActorId> actors;
  for (int i = 0; i < 10; ++i) {
    actors.push_back(new_id<ActorId>(random));
    rings.add(lines_of(actors.back(), {std::string(1000, 'x'), std::string(1000, 'y')}));
    EXPECT_LE(rings.bytes(), 10'000u);
  }
  EXPECT_FALSE(rings.tail({actors.front()}, 1).has_value());
  EXPECT_TRUE(rings.tail({actors.back()}, 1).has_value());
}

TEST(LogRings, FollowersGetLinesOfTheirActorUntilTheyLeave) {
  SeededRandom random(3);
  const auto a = new_id<ActorId>(random), b = new_id<ActorId>(random);
  LogRings rings;
  std::vector<std::string> seen;
  const auto follower = rings.follow({a}, [&seen](const KeptLine& line) { seen.push_back(line.text); });
  rings.add(lines_of(a, {"1"}));
  rings.add(lines_of(b, {"2"}));
  rings.unfollow(follower);
  rings.add(lines_of(a, {"3"}));
  EXPECT_EQ(seen, std::vector<std::string>{"1"});
}

TEST(LogRings, LinesOfSeveralActorsComeInTheOrderInWhichTheyWereWritten) {
  SeededRandom random(4);
  const auto a = new_id<ActorId>(random), b = new_id<ActorId>(random), c = new_id<ActorId>(random);
  LogRings rings;
  std::vector<std::string> seen;
  rings.follow({a, b}, [&seen](const KeptLine& line) { seen.push_back(line.text); });
  rings.add(lines_of(a, {"1"}));
  rings.add(lines_of(b, {"2"}));
  rings.add(lines_of(c, {"of another process"}));
  rings.add(lines_of(a, {"3"}));
  std::vector<std::string> texts;
  for (const KeptLine& line : *rings.tail({b, a}, 100)) texts.push_back(line.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(seen, texts);
  EXPECT_EQ(rings.tail({b, a}, 2)->front().text, "2");
}

class ProgramCacheTest : public ::testing::Test {
 protected:
  std::unique_ptr<ProgramCache> open(ProgramCacheLimits limits = {}) {
    auto cache = ProgramCache::open(directory_.path() / "programs", limits);
    EXPECT_TRUE(cache.has_value());
    return std::move(*cache);
  }
  static std::string put(ProgramCache& cache, const std::string& content) {
    const auto sha256 = security::raw(security::sha256(content));
    auto upload = cache.begin(sha256, static_cast<int64_t>(content.size()), [](const std::string&) { return false; });
    EXPECT_TRUE(upload.has_value()) << upload.error().message;
    EXPECT_TRUE((*upload)->write(0, content).has_value());
    EXPECT_TRUE((*upload)->finish().has_value());
    return sha256;
  }
  volador::TemporaryDirectory directory_;
};

TEST_F(ProgramCacheTest, KeepsWhatMatchesItsHashAlsoAfterReopening) {
  const std::string sha256 = put(*open(), "#!/bin/true");
  auto cache = open();
  auto path = cache->find(sha256);
  ASSERT_TRUE(path.has_value());
  std::ifstream in(*path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "#!/bin/true");
  EXPECT_EQ(cache->bytes(), 11);
}

TEST_F(ProgramCacheTest, RefusesWrongPiecesAndContent) {
  auto cache = open({.program_bytes = 100, .bytes = 1000});
  const auto nobody = [](const std::string&) { return false; };
  const auto sha256 = security::raw(security::sha256("abc"));
  EXPECT_EQ(cache->begin("short", 3, nobody).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(cache->begin(sha256, 101, nobody).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(cache->begin(sha256, 0, nobody).error().code, ErrorCode::kInvalidArgument);
  {
    auto upload = *cache->begin(sha256, 3, nobody);
    EXPECT_FALSE(upload->write(1, "a").has_value());
    EXPECT_FALSE(upload->write(0, "abcd").has_value());
    EXPECT_TRUE(upload->write(0, "ab").has_value());
    EXPECT_FALSE(upload->finish().has_value());
  }
  {
    auto upload = *cache->begin(sha256, 3, nobody);
    EXPECT_TRUE(upload->write(0, "abd").has_value());
    EXPECT_EQ(upload->finish().error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(cache->find(sha256).has_value());
  EXPECT_EQ(cache->bytes(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path() / "programs"));
}

TEST_F(ProgramCacheTest, MakesRoomByWhatWasUsedLongestAgoAndIsNotInUse) {
  auto cache = open({.program_bytes = 10, .bytes = 25});
  const auto a = put(*cache, std::string(10, 'a')), b = put(*cache, std::string(10, 'b'));
  EXPECT_TRUE(cache->find(a).has_value());
  const auto c = put(*cache, std::string(10, 'c'));
  EXPECT_TRUE(cache->find(a).has_value());
  EXPECT_FALSE(cache->find(b).has_value());
  auto full = cache->begin(b, 10, [](const std::string&) { return true; });
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(cache->find(c).has_value());
}

TEST(ListenPort, NamesTheAddressInMessages) {
  EXPECT_EQ(join_host_port("10.0.0.1", 1), "10.0.0.1:1");
  EXPECT_EQ(join_host_port("::1", 1), "[::1]:1");
  EXPECT_EQ(reachable_host("10.9.8.7"), "10.9.8.7");
  EXPECT_NE(reachable_host("0.0.0.0"), "0.0.0.0");
  EXPECT_FALSE(open_port("no such host.invalid", 0).has_value());
  EXPECT_FALSE(open_port("192.0.2.77", 0).has_value());
}

TEST(ClusterIdentity, SurvivesItsFileAndNothingElseDoes) {
  volador::TemporaryDirectory directory;
  const auto file = directory.path() / "cluster.json";
  EXPECT_EQ(load_identity(file).error().code, ErrorCode::kNotFound);
  SeededRandom random(4);
  const ClusterIdentity identity{.name = "heron",
                                 .id = new_id<ClusterId>(random),
                                 .bind = "127.0.0.1",
                                 .port = 6380,
                                 .advertise = "127.0.0.1:6380",
                                 .generation = 3,
                                 .operator_token = "o",
                                 .join_token = "j",
                                 .driver_token = "d"};
  ASSERT_TRUE(save_identity(file, identity).has_value());
  EXPECT_EQ(*load_identity(file), identity);
  std::ofstream(file) << "{\"name\": 3}";
  EXPECT_EQ(load_identity(file).error().code, ErrorCode::kInvalidArgument);
}

TEST(ClusterIdentity, NamesThatExistAreNotPickedAgain) {
  volador::TemporaryDirectory directory;
  const auto paths = Paths::from({.volador_home = directory.path()});
  ASSERT_TRUE(paths.has_value());
  SeededRandom random(5);
  for (int i = 0; i < 70; ++i) {
    const auto name = pick_cluster_name(*paths, random);
    EXPECT_TRUE(check_name("cluster", name).has_value());
    EXPECT_TRUE(std::filesystem::create_directories(paths->cluster(name).directory)) << name;
  }
}

}  // namespace
}  // namespace volador::head
