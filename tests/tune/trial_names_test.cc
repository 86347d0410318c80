#include "tune/execution/trial_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador::tune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Space space() {
  return {{"lr", loguniform(1e-4, 1e-1)},
          {"model", {{"width", randint(8, 65)}, {"name", "a/b"}}},
          {"kind", choice({"x", "y"})}};
}

Trial trial() {
  Trial trial;
  trial.id = TrialId(0x3f2a90c1);
  trial.index = 7;
  trial.config = {{"lr", 0.0119438}, {"model", {{"width", 32}, {"name", "a/b"}}}, {"kind", "x y"}};
  return trial;
}

std::string filled(std::string_view text) {
  const auto made = NameTemplate::parse("trial_name", text, space());
  return made ? made->fill("digits", trial()) : made.error().message;
}

TEST(NameTemplate, FillsIdIndexExperimentAndParameters) {
  EXPECT_EQ(filled("{experiment}-{index}_{id}_lr={lr},width={model.width}"), "digits-7_3f2a90c1_lr=0.01194,width=32");
  EXPECT_EQ(filled("{{{id}}}"), "_3f2a90c1_");  // Braces are not allowed in file names.
}

TEST(NameTemplate, IsTheIdByDefault) {
  EXPECT_TRUE(NameTemplate().is_id());
  EXPECT_TRUE(NameTemplate::parse("trial_name", "{id}", space())->is_id());
  EXPECT_TRUE(NameTemplate::parse_folder("trial_folder", "", space())->is_id());
  EXPECT_EQ(NameTemplate().fill("digits", trial()), "3f2a90c1");
}

TEST(NameTemplate, MakesAPlainFileNameOfWhateverAValueIs) {
  EXPECT_EQ(filled("{id}_{kind}_{model.name}"), "3f2a90c1_x_y_a_b");
  EXPECT_EQ(filled("../{id}"), ".._3f2a90c1");
}

TEST(NameTemplate, AParameterThatTheTrialDoesNotHaveIsNone) {
  const Space conditional = {
      {"model", choice({SpaceNode{{"depth", randint(1, 9)}}, SpaceNode{{"trees", randint(1, 9)}}})}};
  const auto made = NameTemplate::parse("trial_name", "{id}_{model.depth}_{model.trees}", conditional);
  ASSERT_TRUE(made) << made.error().message;
  Trial one = trial();
  one.config = {{"model", {{"depth", 3}}}};
  EXPECT_EQ(made->fill("digits", one), "3f2a90c1_3_none");
}

TEST(NameTemplate, CutsALongNameAndKeepsTheId) {
  Trial one = trial();
  one.config.set("kind", std::string(400, 'x'));
  const std::string name = NameTemplate::parse("trial_name", "{id}_{kind}", space())->fill("digits", one);
  EXPECT_EQ(name.size(), NameTemplate::kBytesMax);
  EXPECT_TRUE(name.ends_with("x_3f2a90c1"));
}

TEST(NameTemplate, RefusesAnUnknownFieldAndNamesThoseThereAre) {
  EXPECT_THAT(filled("{id}_{rate}"),
              AllOf(HasSubstr("trial_name"), HasSubstr("{rate}"),
                    HasSubstr("{id}, {index}, {experiment}, {kind}, {lr}, {model.name}, {model.width}")));
  EXPECT_THAT(filled("{id"), HasSubstr("a { without its }"));
  EXPECT_THAT(filled("id}"), HasSubstr("a } without its {"));
}

TEST(NameTemplate, AFolderMustHaveTheId) {
  const auto refused = NameTemplate::parse_folder("trial_folder", "{lr}", space());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("trial_folder"), HasSubstr("{id}")));
  EXPECT_FALSE(NameTemplate::parse_folder("trial_folder", ".{id}_", space()));
  EXPECT_TRUE(NameTemplate::parse_folder("trial_folder", "{lr}_{id}", space()));
}

}  // namespace
}  // namespace volador::tune
