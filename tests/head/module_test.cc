// A module with one table and one request, unknown to the kernel and to other modules.
#include "head/kernel/module.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

constexpr std::string_view kQuotasTable = "quotas";

// CPU quota of a project.
class QuotaModule final : public Module {
 public:
  explicit QuotaModule(HeadCore& core) : context_(core.context()), tables_(core.tables()) {}

  bool load(std::string_view table, std::string_view key, std::string_view value) override {
    if (table != kQuotasTable) return false;
    quotas_[std::string(key)] = std::stoi(std::string(value));
    return true;
  }
  void start() override { ++starts; }
  void on_tick() override { ++ticks; }
  void settle() override { ++events; }

  Result<void> set(const std::string& project, int cpus) {
    const Amount total = tables_.placement.ledger().total().get("cpus");
    if (cpus * kUnit > total) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("quota of {}: expected at most {} CPUs, got {}", project, total / kUnit, cpus));
    }
    quotas_[project] = cpus;
    context_.journal(kQuotasTable, project, std::to_string(cpus));
    context_.event(log::Level::kInfo, "quota set", {{"project", project}});
    return {};
  }
  int quota(const std::string& project) const { return quotas_.at(project); }

  int starts = 0, ticks = 0, events = 0;

 private:
  Context& context_;
  const Tables& tables_;
  std::map<std::string, int> quotas_;
};

class ModuleTest : public CoreFixture {
 protected:
  // As restart_head(), with the module.
  void restart() {
    core = std::make_unique<HeadCore>(options, random);
    quotas = std::make_unique<QuotaModule>(*core);
    core->add_module(*quotas);
    for (const auto& [row, value] : rows) core->load(row.first, row.second, value);
    take(core->start(now));
  }
  Result<Actions> set(const std::string& project, int cpus) {
    return core->act(now, [&] { return quotas->set(project, cpus); });
  }

  std::unique_ptr<QuotaModule> quotas;
};

TEST_F(ModuleTest, KeepsItsTableInTheJournalAcrossARestart) {
  restart();
  EXPECT_EQ(quotas->starts, 1);
  join(kNode1, 1, 8);
  auto changed = set("vision", 4);
  ASSERT_TRUE(changed) << changed.error().message;
  ASSERT_EQ(changed->journal.size(), 1u);
  EXPECT_EQ(changed->journal[0].table, kQuotasTable);
  ASSERT_EQ(changed->events.size(), 1u);
  EXPECT_EQ(changed->events[0].text, "quota set");
  take(std::move(*changed));
  restart();
  EXPECT_EQ(quotas->quota("vision"), 4);
}

TEST_F(ModuleTest, ReadsOtherModulesTablesAndRefusesByThem) {
  restart();
  join(kNode1, 1, 2);
  const auto refused = set("vision", 3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "quota of vision: expected at most 2 CPUs, got 3");
  EXPECT_FALSE(rows.contains({std::string(kQuotasTable), "vision"}));
}

TEST_F(ModuleTest, TakesPartInEachEventAndEachTick) {
  restart();
  const int events = quotas->events;
  take(core->on_tick(now));
  EXPECT_EQ(quotas->ticks, 1);
  EXPECT_EQ(quotas->events, events + 1);
}

}  // namespace
}  // namespace volador::head
