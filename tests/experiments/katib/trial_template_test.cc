#include "experiments/katib/trial_template.h"

#include "runtime/yaml/reader.h"
#include "runtime/yaml/writer.h"
#include "tests/experiments/katib/katib_data.h"

namespace volador::experiments::katib {
namespace {

TrialTemplate template_of(const std::string& trial_spec, std::vector<TrialParameter> parameters) {
  TrialTemplate out;
  out.trial_spec = yaml::read(trial_spec, "template.yaml")->root;
  out.parameters = std::move(parameters);
  return out;
}

TEST(KatibTrialTemplate, ReplacesPlaceholdersInTextsAndKeys) {
  const TrialTemplate given = template_of(
      "{apiVersion: batch/v1, kind: Job, metadata: {labels: {team: vision}}, a: "
      "['${trialParameters.x}-${trialParameters.x}', "
      "'${trialParameters.name} of ${trialParameters.team} ${HOME} ${x'], '${trialParameters.x}': 1}",
      {{"x", "", "lr", {}}, {"name", "", "${trialSpec.Name}", {}}, {"team", "", "${trialSpec.Labels[team]}", {}}});
  const auto object = substitute(given, {.name = "t-1", .name_space = "n", .labels = {{"e", "f"}}, .annotations = {}},
                                 {{"lr", "${trialParameters.name}"}});
  ASSERT_TRUE(object) << object.error().message;
  EXPECT_EQ(yaml::json_text(*object),
            R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"labels":{"team":"vision","e":"f"},"name":"t-1",)"
            R"("namespace":"n"},"a":["${trialParameters.name}-${trialParameters.name}","t-1 of vision ${HOME} ${x"],)"
            R"("${trialParameters.name}":1})");
}

TEST(KatibTrialTemplate, ATrialWithoutAValueIsAnError) {
  const TrialTemplate given = template_of("{a: '${trialParameters.x}'}", {{"x", "", "lr", {}}});
  EXPECT_EQ(substitute(given, {.name = "t-1"}, {}).error().message, "trialParameters: x: trial t-1 has no value of lr");
}

TEST(KatibTrialTemplate, ReadsReferencesToTheTrial) {
  EXPECT_EQ(trial_reference("${trialSpec.Namespace}")->what, TrialReference::What::kNamespace);
  EXPECT_EQ(trial_reference("${trialSpec.APIVersion}")->what, TrialReference::What::kApiVersion);
  EXPECT_EQ(trial_reference("${trialSpec.Annotations[a/b]}")->key, "a/b");
  EXPECT_FALSE(trial_reference("${trialSpec.Labels[]}"));
  EXPECT_FALSE(trial_reference("${trialSpec.name}"));
  EXPECT_FALSE(trial_reference("lr"));
}

TEST(KatibTrialTemplate, KnowsTheConditionsOfKinds) {
  EXPECT_EQ(default_conditions("Job")->failure, R"(status.conditions.#(type=="Failed")#|#(status=="True")#)");
  EXPECT_EQ(default_conditions("TFJob")->success, R"(status.conditions.#(type=="Succeeded")#|#(status=="True")#)");
  EXPECT_FALSE(default_conditions("Pod"));
}

}  // namespace
}  // namespace volador::experiments::katib
