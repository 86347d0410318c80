// Contract of every journal implementation: SQLite, Redis, and the in-memory fake.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <memory>

#include "head/journal/directory_lock.h"
#include "head/journal/memory_journal.h"
#include "head/journal/redis_journal.h"
#include "head/journal/sqlite_journal.h"
#include "tests/contract/redis_server.h"
#include "tests/temporary_directory.h"

namespace volador::head {
namespace {

using Rows = std::map<std::pair<std::string, std::string>, std::string>;

const ClusterId kCluster{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

class Store {
 public:
  virtual ~Store() = default;
  virtual Result<std::unique_ptr<Journal>> open() = 0;
  virtual bool on_disk() const { return true; }
};

class SqliteStore final : public Store {
 public:
  Result<std::unique_ptr<Journal>> open() override {
    return open_sqlite_journal({.file = directory_.path() / "journal.db"});
  }

 private:
  volador::TemporaryDirectory directory_;
};

class RedisStore final : public Store {
 public:
  RedisStore() { EXPECT_TRUE(server_.start()); }
  Result<std::unique_ptr<Journal>> open() override {
    return open_redis_journal({.address = {.host = "127.0.0.1", .port = server_.port()}, .cluster = kCluster});
  }

 private:
  volador::TemporaryDirectory directory_;
  volador::testing::RedisServer server_{directory_.path()};
};

class MemoryStoreUnderTest final : public Store {
 public:
  Result<std::unique_ptr<Journal>> open() override { return std::make_unique<MemoryJournal>(store_); }
  bool on_disk() const override { return false; }

 private:
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

Rows rows_of(Journal& journal) {
  Rows rows;
  auto loaded = journal.load([&rows](std::string_view table, std::string_view key, std::string_view value) {
    const bool first = rows.emplace(std::pair(std::string(table), std::string(key)), std::string(value)).second;
    EXPECT_TRUE(first) << "visited twice: " << table << "/" << key;
  });
  EXPECT_TRUE(loaded.has_value()) << loaded.error().message;
  return rows;
}

Mutation put(std::string table, std::string key, std::string value) {
  return {std::move(table), std::move(key), std::move(value)};
}
Mutation removal(std::string table, std::string key) { return {std::move(table), std::move(key), std::nullopt}; }

class JournalContract : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string kind = GetParam();
    if (kind == "sqlite") store_ = std::make_unique<SqliteStore>();
    if (kind == "memory") store_ = std::make_unique<MemoryStoreUnderTest>();
    if (kind == "redis") {
      if (!volador::testing::RedisServer::installed()) GTEST_SKIP() << "not run: redis-server is not installed";
      store_ = std::make_unique<RedisStore>();
    }
    reopen();
  }
  void reopen() {
    journal_.reset();
    auto opened = store_->open();
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    journal_ = std::move(*opened);
  }
  void commit(std::vector<Mutation> batch) {
    auto stored = journal_->commit(batch);
    ASSERT_TRUE(stored.has_value()) << stored.error().message;
  }

  std::unique_ptr<Store> store_;
  std::unique_ptr<Journal> journal_;
};

TEST_P(JournalContract, ANewStoreIsEmpty) {
  EXPECT_TRUE(rows_of(*journal_).empty());
  EXPECT_EQ(journal_->generation(), 1u);
}

TEST_P(JournalContract, CommittedRowsAreThereAfterReopening) {
  commit({put("actors", "a", "1"), put("actors", "b", ""), put("nodes", "a", std::string("\0\xff\n", 3))});
  const Rows expected{{{"actors", "a"}, "1"}, {{"actors", "b"}, ""}, {{"nodes", "a"}, std::string("\0\xff\n", 3)}};
  EXPECT_EQ(rows_of(*journal_), expected);
  reopen();
  EXPECT_EQ(rows_of(*journal_), expected);
}

TEST_P(JournalContract, TheLaterMutationOfARowWins) {
  commit({put("t", "a", "1"), put("t", "a", "2"), put("t", "b", "1"), removal("t", "b"), removal("t", "c"),
          put("t", "c", "3")});
  EXPECT_EQ(rows_of(*journal_), (Rows{{{"t", "a"}, "2"}, {{"t", "c"}, "3"}}));
}

TEST_P(JournalContract, RemovedRowsStayRemoved) {
  commit({put("t", "a", "1"), put("t", "b", "2")});
  commit({removal("t", "a"), removal("t", "never there"), removal("other", "x")});
  reopen();
  EXPECT_EQ(rows_of(*journal_), (Rows{{{"t", "b"}, "2"}}));
}

TEST_P(JournalContract, ARepeatedCommitChangesNothing) {
  const std::vector<Mutation> batch{put("t", "a", "1"), removal("t", "b"), put("t", "c", "3")};
  for (int i = 0; i < 3; ++i) commit(batch);
  reopen();
  commit(batch);
  EXPECT_EQ(rows_of(*journal_), (Rows{{{"t", "a"}, "1"}, {{"t", "c"}, "3"}}));
}

TEST_P(JournalContract, AnEmptyBatchIsStored) { commit({}); }

TEST_P(JournalContract, KeysAreAnyBytes) {
  std::string key;
  for (int i = 0; i < 256; ++i) key += static_cast<char>(i);
  commit({put("t", key, key), put("t", std::string(1, '\0'), "zero")});
  reopen();
  EXPECT_EQ(rows_of(*journal_), (Rows{{{"t", key}, key}, {{"t", std::string(1, '\0')}, "zero"}}));
}

TEST_P(JournalContract, BigValuesSurvive) {
  std::string big(17 << 20, 'x');
  for (size_t i = 0; i < big.size(); i += 4096) big[i] = static_cast<char>(i >> 12);
  commit({put("t", "big", big)});
  reopen();
  EXPECT_EQ(rows_of(*journal_).at({"t", "big"}), big);
}

TEST_P(JournalContract, TenThousandMutationsAreOneBatch) {
  std::vector<Mutation> batch;
  for (int i = 0; i < 10'000; ++i)
    batch.push_back(put("t", std::to_string(i), std::string(200, static_cast<char>('a' + i % 26))));
  commit(batch);
  reopen();
  const Rows rows = rows_of(*journal_);
  EXPECT_EQ(rows.size(), batch.size());
  for (const Mutation& mutation : batch) ASSERT_EQ(rows.at({"t", mutation.key}), *mutation.value);
}

TEST_P(JournalContract, ABatchThatBreaksTheRulesStoresNothing) {
  for (const Mutation& wrong :
       {put("Table", "a", "1"), put("", "a", "1"), put("t", "", "1"), put("t", std::string(1025, 'k'), "1"),
        put("t", "a", std::string(kJournalValueBytesMax + 1, 'v'))}) {
    auto stored = journal_->commit(std::vector{put("t", "fine", "1"), wrong});
    ASSERT_FALSE(stored.has_value());
    EXPECT_EQ(stored.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_TRUE(rows_of(*journal_).empty());
}

TEST_P(JournalContract, TheGenerationGrowsWithEachOpening) {
  for (uint64_t i = 2; i < 5; ++i) {
    reopen();
    EXPECT_EQ(journal_->generation(), i);
  }
}

TEST_P(JournalContract, TwoOpenersNeverBothCommit) {
  commit({put("t", "a", "1")});
  auto second = store_->open();
  if (!second) {
    EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
    commit({put("t", "a", "2")});
    return;
  }
  auto stored = journal_->commit(std::vector{put("t", "a", "older")});
  ASSERT_FALSE(stored.has_value());
  EXPECT_EQ(stored.error().code, ErrorCode::kPermissionDenied);
  ASSERT_TRUE((*second)->commit(std::vector{put("t", "b", "newer")}).has_value());
  EXPECT_EQ(rows_of(**second), (Rows{{{"t", "a"}, "1"}, {{"t", "b"}, "newer"}}));
}

TEST_P(JournalContract, WhatWasCommittedSurvivesAKilledWriter) {
  if (!store_->on_disk()) GTEST_SKIP() << "not run: nothing outlives the process";
  journal_.reset();
  int acknowledged[2];
  ASSERT_EQ(pipe(acknowledged), 0);
  const pid_t writer = fork();
  if (writer == 0) {
    auto opened = store_->open();
    for (uint32_t i = 0; opened; ++i) {
      if (!(*opened)->commit(
              std::vector{put("t", std::to_string(i), std::string(100, 'v')), put("last", "i", std::to_string(i))}))
        break;
      if (write(acknowledged[1], &i, sizeof i) != sizeof i) break;
    }
    _exit(1);
  }
  close(acknowledged[1]);
  uint32_t last = 0;
  while (last < 200) ASSERT_EQ(read(acknowledged[0], &last, sizeof last), static_cast<ssize_t>(sizeof last));
  kill(writer, SIGKILL);
  waitpid(writer, nullptr, 0);
  for (uint32_t i; read(acknowledged[0], &i, sizeof i) == sizeof i;) last = i;
  close(acknowledged[0]);
  reopen();
  const Rows rows = rows_of(*journal_);
  for (uint32_t i = 0; i <= last; ++i) ASSERT_TRUE(rows.contains({"t", std::to_string(i)})) << i << " of " << last;
  // A batch is stored completely or not at all.
  EXPECT_EQ(std::to_string(rows.size() - 2), rows.at({"last", "i"}));
}

INSTANTIATE_TEST_SUITE_P(Stores, JournalContract, ::testing::Values("sqlite", "redis", "memory"),
                         [](const auto& tested) { return std::string(tested.param); });

// ---- SQLite only ----

class SqliteJournalFiles : public ::testing::Test {
 protected:
  std::filesystem::path file() const { return directory_.path() / "journal.db"; }
  volador::TemporaryDirectory directory_;
};

TEST_F(SqliteJournalFiles, ATornLogOpensAtAWholeBatch) {
  // The files of a killed head: copied while the journal is open.
  const auto torn = directory_.path() / "torn.db", wal = directory_.path() / "journal.db-wal",
             torn_wal = directory_.path() / "torn.db-wal";
  auto journal = open_sqlite_journal({.file = file()});
  ASSERT_TRUE(journal.has_value()) << journal.error().message;
  constexpr int kBatches = 40;
  for (int i = 0; i < kBatches; ++i) {
    ASSERT_TRUE((*journal)
                    ->commit(std::vector{put("t", std::to_string(i), std::string(700, 'v')),
                                         put("last", "i", std::to_string(i))})
                    .has_value());
  }
  const auto size = std::filesystem::file_size(wal);
  ASSERT_GT(size, 4096u);
  for (uintmax_t cut = 0; cut < size; cut += 1 + size / 61) {
    for (const auto& left : {torn_wal, torn}) std::filesystem::remove(left);
    std::filesystem::copy_file(file(), torn);
    std::filesystem::copy_file(wal, torn_wal);
    std::filesystem::resize_file(torn_wal, size - cut);
    auto opened = open_sqlite_journal({.file = torn});
    ASSERT_TRUE(opened.has_value()) << cut << ": " << opened.error().message;
    const Rows rows = rows_of(**opened);
    if (cut == 0) {
      EXPECT_EQ(rows.size(), kBatches + 1u);
    }
    if (rows.empty()) continue;
    const auto last = std::stoul(rows.at({"last", "i"}));
    ASSERT_EQ(rows.size(), last + 2) << "cut by " << cut;
    ASSERT_TRUE((*opened)->commit(std::vector{put("t", "after", "1")}).has_value());
  }
}

TEST_F(SqliteJournalFiles, DamageIsNamedAndNeverReadAsData) {
  {
    auto journal = open_sqlite_journal({.file = file()});
    ASSERT_TRUE(journal.has_value());
    for (int i = 0; i < 300; ++i)
      ASSERT_TRUE((*journal)->commit(std::vector{put("t", std::to_string(i), std::string(500, 'v'))}).has_value());
  }
  std::string good;
  {
    std::ifstream in(file(), std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(in), {});
  }
  size_t named = 0, harmless = 0;
  for (size_t at = 0; at < good.size(); at += 1 + good.size() / 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << bad;
    Rows rows;
    auto opened = open_sqlite_journal({.file = file()});
    Result<void> loaded;
    if (opened)
      loaded = (*opened)->load([&rows](auto table, auto key, auto value) {
        rows[{std::string(table), std::string(key)}] = value;
      });
    if (!opened || !loaded) {
      const Error& error = opened ? loaded.error() : opened.error();
      EXPECT_NE(error.message.find(file().string()), std::string::npos) << error.message;
      ++named;
    } else {
      // Free space or an index: the rows are intact.
      ++harmless;
      ASSERT_EQ(rows.size(), 300u) << "byte " << at;
      for (const auto& [name, value] : rows) ASSERT_EQ(value, std::string(500, 'v')) << "byte " << at;
    }
  }
  EXPECT_GT(named, harmless);
}

TEST_F(SqliteJournalFiles, AFileCutShortIsRefused) {
  {
    auto journal = open_sqlite_journal({.file = file()});
    ASSERT_TRUE(journal.has_value());
    for (int i = 0; i < 100; ++i)
      ASSERT_TRUE((*journal)->commit(std::vector{put("t", std::to_string(i), std::string(900, 'v'))}).has_value());
  }
  std::filesystem::resize_file(file(), std::filesystem::file_size(file()) / 2);
  auto opened = open_sqlite_journal({.file = file()});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kInternal);
  EXPECT_NE(opened.error().message.find("damaged"), std::string::npos) << opened.error().message;
}

TEST_F(SqliteJournalFiles, AFileOfSomethingElseIsRefused) {
  std::ofstream(file())
      << "These are notes of somebody, not a journal; they are long enough to look like a file of its own kind. "
      << std::string(4096, '.');
  auto opened = open_sqlite_journal({.file = file()});
  ASSERT_FALSE(opened.has_value());
  EXPECT_NE(opened.error().message.find(file().string()), std::string::npos);
}

TEST_F(SqliteJournalFiles, DurabilityAgainstPowerLossStoresToo) {
  auto journal = open_sqlite_journal({.file = file(), .durability = Durability::kPower});
  ASSERT_TRUE(journal.has_value());
  EXPECT_TRUE((*journal)->commit(std::vector{put("t", "a", "1")}).has_value());
}

TEST_F(SqliteJournalFiles, ASecondHeadOnAFolderIsRefusedAndToldByWhom) {
  auto first = DirectoryLock::acquire(directory_.path());
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(DirectoryLock::holder(directory_.path()), getpid());
  auto second = DirectoryLock::acquire(directory_.path());
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message.find(std::to_string(getpid())), std::string::npos) << second.error().message;
  { DirectoryLock released = std::move(*first); }
  EXPECT_EQ(DirectoryLock::holder(directory_.path()), 0);
  EXPECT_TRUE(DirectoryLock::acquire(directory_.path()).has_value());
}

// ---- Redis only ----

class RedisJournalServer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!volador::testing::RedisServer::installed()) GTEST_SKIP() << "not run: redis-server is not installed";
  }
  static RedisJournalOptions options(int port) {
    return {.address = {.host = "127.0.0.1", .port = port}, .cluster = kCluster};
  }
  volador::TemporaryDirectory directory_;
};

TEST_F(RedisJournalServer, AServerRestartedUnderUsLosesNothing) {
  // Without this option acknowledged data may not be in its file yet.
  volador::testing::RedisServer server(directory_.path(), {"--appendfsync", "always"});
  ASSERT_TRUE(server.start());
  auto journal = open_redis_journal(options(server.port()));
  ASSERT_TRUE(journal.has_value()) << journal.error().message;
  ASSERT_TRUE((*journal)->commit(std::vector{put("t", "a", "1")}).has_value());
  server.kill();
  auto failed = (*journal)->commit(std::vector{put("t", "b", "2")});
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kUnavailable);
  ASSERT_TRUE(server.start());
  auto stored = (*journal)->commit(std::vector{put("t", "b", "2")});
  ASSERT_TRUE(stored.has_value()) << stored.error().message;
  EXPECT_EQ(rows_of(**journal), (Rows{{{"t", "a"}, "1"}, {{"t", "b"}, "2"}}));
}

TEST_F(RedisJournalServer, PartsOfAClusterKeepOutOfEachOthersWay) {
  volador::testing::RedisServer server(directory_.path());
  ASSERT_TRUE(server.start());
  auto whole = open_redis_journal(options(server.port()));
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  auto asked = options(server.port());
  asked.part = "studies";
  auto part = open_redis_journal(asked);
  ASSERT_TRUE(part.has_value()) << part.error().message;
  ASSERT_TRUE((*whole)->commit(std::vector{put("nodes", "a", "1")}).has_value());  // Not fenced.
  ASSERT_TRUE((*part)->commit(std::vector{put("studies", "b", "2")}).has_value());
  EXPECT_EQ(rows_of(**part), (Rows{{{"studies", "b"}, "2"}}));
  EXPECT_EQ(rows_of(**whole), (Rows{{{"nodes", "a"}, "1"}}));
}

TEST_F(RedisJournalServer, AServerThatForgotIsNotServedAsIfNew) {
  volador::testing::RedisServer server(directory_.path());
  ASSERT_TRUE(server.start());
  auto journal = open_redis_journal(options(server.port()));
  ASSERT_TRUE((*journal)->commit(std::vector{put("t", "a", "1")}).has_value());
  server.kill();
  std::filesystem::remove_all(directory_.path() / "appendonlydir");
  ASSERT_TRUE(server.start());
  auto stored = (*journal)->commit(std::vector{put("t", "b", "2")});
  ASSERT_FALSE(stored.has_value());
  EXPECT_EQ(stored.error().code, ErrorCode::kPermissionDenied) << stored.error().message;
}

TEST_F(RedisJournalServer, AServerWithoutAnAppendOnlyFileIsRefusedUnlessForced) {
  volador::testing::RedisServer server(directory_.path(), {"--appendonly", "no"});
  ASSERT_TRUE(server.start());
  RedisJournalOptions asked = options(server.port());
  auto refused = open_redis_journal(asked);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("CONFIG SET appendonly yes"), std::string::npos) << refused.error().message;
  asked.force = true;
  EXPECT_TRUE(open_redis_journal(asked).has_value());
}

TEST_F(RedisJournalServer, AServerThatEvictsKeysIsRefused) {
  volador::testing::RedisServer server(directory_.path(),
                                       {"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"});
  ASSERT_TRUE(server.start());
  auto refused = open_redis_journal(options(server.port()));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("noeviction"), std::string::npos) << refused.error().message;
}

TEST_F(RedisJournalServer, APasswordIsAskedForAndTaken) {
  volador::testing::RedisServer server(directory_.path(), {"--requirepass", "p@ss"});
  ASSERT_TRUE(server.start());
  auto refused = open_redis_journal(options(server.port()));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnauthenticated) << refused.error().message;
  auto address = parse_redis_url("redis://:p%40ss@127.0.0.1:" + std::to_string(server.port()) + "/3");
  ASSERT_TRUE(address.has_value()) << address.error().message;
  auto journal = open_redis_journal({.address = *address, .cluster = kCluster});
  ASSERT_TRUE(journal.has_value()) << journal.error().message;
  EXPECT_EQ((*journal)->description().find("p@ss"), std::string::npos);
}

TEST_F(RedisJournalServer, PowerDurabilityAsksForAFlushABatch) {
  volador::testing::RedisServer server(directory_.path());
  ASSERT_TRUE(server.start());
  RedisJournalOptions asked = options(server.port());
  asked.durability = Durability::kPower;
  auto refused = open_redis_journal(asked);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("appendfsync always"), std::string::npos);
}

TEST_F(RedisJournalServer, AFullServerSaysWhatIsFull) {
  volador::testing::RedisServer server(directory_.path(), {"--maxmemory", "8mb"});
  ASSERT_TRUE(server.start());
  auto journal = open_redis_journal(options(server.port()));
  ASSERT_TRUE(journal.has_value()) << journal.error().message;
  Result<void> full;
  size_t stored = 0;
  for (; full && stored < 100; ++stored)
    full = (*journal)->commit(std::vector{put("t", std::to_string(stored), std::string(200'000, 'v'))});
  ASSERT_FALSE(full.has_value());
  EXPECT_GT(stored, 1u);
  EXPECT_EQ(rows_of(**journal).size(), stored - 1);
  EXPECT_EQ(full.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(full.error().message.find("maxmemory"), std::string::npos) << full.error().message;
}

TEST(RedisUrl, IsReadOrRefusedWithTheForm) {
  EXPECT_EQ(*parse_redis_url("redis://h"), (RedisAddress{.host = "h"}));
  EXPECT_EQ(*parse_redis_url("redis://:a%3Ab@10.0.0.1:7000/2"),
            (RedisAddress{.host = "10.0.0.1", .port = 7000, .database = 2, .password = "a:b"}));
  EXPECT_EQ(*parse_redis_url("redis://[::1]:7000/"), (RedisAddress{.host = "::1", .port = 7000}));
  for (const char* wrong : {"", "http://h", "redis://", "redis://h:0", "redis://h:x", "redis://h:70000", "redis://h/x",
                            "redis://user:secret@h", "redis://:sec%4@h", "redis://[::1", "redis://[::1]7"}) {
    auto parsed = parse_redis_url(wrong);
    ASSERT_FALSE(parsed.has_value()) << wrong;
    EXPECT_NE(parsed.error().message.find("redis://[:password@]host[:port][/database]"), std::string::npos);
    EXPECT_EQ(parsed.error().message.find("sec"), std::string::npos) << parsed.error().message;
  }
}

}  // namespace
}  // namespace volador::head
