#include "experiments/katib/wire.h"

#include "tests/experiments/katib/katib_data.h"

namespace volador::experiments::katib {
namespace {

TEST(KatibWire, AnExperimentSurvivesTheMessage) {
  const Resource resource = katib_resource("bayesian-optimization.yaml");
  const auto message = to_wire(resource.metadata.name, *resource.experiment);
  EXPECT_EQ(message.name(), "bayesian-optimization");
  EXPECT_EQ(message.spec().objective().type(), api::v1::beta1::MAXIMIZE);
  EXPECT_EQ(message.spec().parameter_specs().parameters(1).parameter_type(), api::v1::beta1::INT);
  EXPECT_EQ(message.spec().max_trial_count(), 12);
  const auto back = from_wire(message.spec());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(to_wire(resource.metadata.name, *back).SerializeAsString(), message.SerializeAsString());
  EXPECT_EQ(back->objective.goal, 0.99);
  EXPECT_EQ(back->objective.strategies, resource.experiment->objective.strategies);
  EXPECT_EQ(back->parameters[2].list, resource.experiment->parameters[2].list);
}

TEST(KatibWire, AnUnknownTypeIsAnError) {
  const Resource resource = katib_resource("bayesian-optimization.yaml");
  auto message = to_wire("e", *resource.experiment);
  message.mutable_spec()->mutable_parameter_specs()->mutable_parameters(0)->set_parameter_type(
      api::v1::beta1::UNKNOWN_TYPE);
  EXPECT_EQ(from_wire(message.spec()).error().message,
            "parameter lr: expected a type of DOUBLE, INT, DISCRETE or CATEGORICAL, got 0");
}

}  // namespace
}  // namespace volador::experiments::katib
