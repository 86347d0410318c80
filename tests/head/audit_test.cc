#include "head/audit/audit_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using ::testing::ElementsAre;

class AuditTest : public CoreFixture {
 protected:
  static constexpr size_t kEntriesMax = 3;

  AuditTest() { restart(); }

  // As restart_head(), with the audit log.
  void restart() {
    core = std::make_unique<HeadCore>(options, random);
    audit = std::make_unique<AuditModule>(core->context(), kEntriesMax);
    core->add_module(*audit);
    for (const auto& [row, value] : rows) core->load(row.first, row.second, value);
    take(core->start(now));
  }
  void record(const std::string& action, const Result<void>& outcome = {}) {
    auto actions = core->act(now, [&] {
      audit->record(1'700'000'000, {.by = "t-7f21c0", .action = action, .object = "heron"}, outcome);
      return Result<void>();
    });
    ASSERT_TRUE(actions);
    take(std::move(*actions));
  }
  // Newest first.
  std::vector<std::string> actions_of_log() const {
    std::vector<std::string> found;
    audit->visit([&](const AuditModule::Entry& entry) {
      found.push_back(entry.record.action());
      return true;
    });
    return found;
  }
  size_t rows_of_journal() const {
    size_t count = 0;
    for (const auto& [row, value] : rows) count += row.first == kAuditTable ? 1 : 0;
    return count;
  }

  std::unique_ptr<AuditModule> audit;
};

TEST_F(AuditTest, ListsTheNewestEntryFirst) {
  record("drain");
  record("kill", make_error(ErrorCode::kNotFound, "no such actor"));
  std::vector<AuditModule::Entry> entries;
  audit->visit([&](const AuditModule::Entry& entry) {
    entries.push_back(entry);
    return true;
  });
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].number, 2u);
  EXPECT_EQ(entries[0].record.action(), "kill");
  EXPECT_EQ(entries[0].record.code(), static_cast<int>(ErrorCode::kNotFound));
  EXPECT_EQ(entries[0].record.message(), "no such actor");
  EXPECT_EQ(entries[1].record.by(), "t-7f21c0");
  EXPECT_EQ(entries[1].record.object(), "heron");
  EXPECT_EQ(entries[1].record.code(), 0);
  EXPECT_EQ(entries[1].record.wall_ns(), 1'700'000'000);
}

TEST_F(AuditTest, SurvivesARestartOfTheHeadAndNumbersOn) {
  record("drain");
  record("kill");
  restart();
  record("annotate");
  EXPECT_THAT(actions_of_log(), ElementsAre("annotate", "kill", "drain"));
}

TEST_F(AuditTest, DropsTheOldestEntryAtTheLimitAlsoFromTheJournal) {
  for (const char* action : {"one", "two", "three", "four"}) record(action);
  EXPECT_THAT(actions_of_log(), ElementsAre("four", "three", "two"));
  EXPECT_EQ(rows_of_journal(), kEntriesMax);
  restart();
  EXPECT_THAT(actions_of_log(), ElementsAre("four", "three", "two"));
}

TEST_F(AuditTest, CutsTextsOfUsersToTheLimit) {
  auto actions = core->act(now, [&] {
    audit->record(1, {.by = "t", .action = "kill", .object = std::string(10'000, 'x')},
                  make_error(ErrorCode::kNotFound, std::string(10'000, 'y')));
    return Result<void>();
  });
  take(std::move(*actions));
  audit->visit([](const AuditModule::Entry& entry) {
    EXPECT_LE(entry.record.object().size(), AuditModule::kTextBytesMax + 8);
    EXPECT_LE(entry.record.message().size(), AuditModule::kTextBytesMax + 8);
    return true;
  });
}

TEST_F(AuditTest, ARowThatCannotBeReadIsLeftOut) {
  record("drain");
  rows[{std::string(kAuditTable), "short"}] = "x";
  restart();
  EXPECT_THAT(actions_of_log(), ElementsAre("drain"));
}

}  // namespace
}  // namespace volador::head
