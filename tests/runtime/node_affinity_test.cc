#include "runtime/node_affinity.h"

#include <gmock/gmock.h>

namespace volador {
namespace {

using testing::HasSubstr;

TEST(LabelRules, MatchAsTheySay) {
  const Labels node{{"zone", "a"}, {"disk", "ssd"}};
  const auto matches = [&](const std::string& key, LabelValue value) {
    return LabelRule{key, std::move(value)}.matches(node);
  };
  EXPECT_TRUE(matches("zone", "a"));
  EXPECT_FALSE(matches("zone", "b"));
  EXPECT_FALSE(matches("rack", "a"));
  EXPECT_TRUE(matches("zone", label_in({"b", "a"})));
  EXPECT_FALSE(matches("zone", label_in({"b", "c"})));
  EXPECT_FALSE(matches("zone", label_not_in({"b", "a"})));
  EXPECT_TRUE(matches("zone", label_not_in({"b"})));
  EXPECT_TRUE(matches("rack", label_not_in({"b"}))) << "a node without the label has no such value";
  EXPECT_TRUE(matches("disk", label_exists()));
  EXPECT_FALSE(matches("rack", label_exists()));
  EXPECT_TRUE(matches("rack", label_absent()));
  EXPECT_FALSE(matches("disk", label_absent()));
}

TEST(LabelRules, ReadAsTheyAreMeant) {
  EXPECT_EQ(to_string(std::vector<LabelRule>{{"zone", "a"},
                                             {"rack", label_in({"1", "2"})},
                                             {"disk", label_not_in({"hdd"})},
                                             {"gpu", label_exists()},
                                             {"spot", label_absent()}}),
            "zone=a, rack in (1, 2), disk not in (hdd), gpu, !spot");
}

TEST(NodeAffinity, WithoutSenseAreRefusedByName) {
  const auto refused = [](std::vector<LabelRule> rules) {
    return check(NodeAffinity{.labels = std::move(rules), .node = {}, .apart = {}}).error().message;
  };
  EXPECT_THAT(refused({{"zone", label_in({})}}), HasSubstr("label zone: expected at least one value, got none"));
  EXPECT_THAT(refused({{"", "a"}}), HasSubstr("label: expected a name"));
  EXPECT_FALSE(check(NodeAffinity{.labels = {}, .node = {}, .node_preferred = true, .apart = {}}));
  EXPECT_TRUE(check(NodeAffinity{.labels = {{"zone", "a"}}, .node = "b", .node_preferred = true, .apart = "replicas"}));
}

}  // namespace
}  // namespace volador
