// experiment_state.json: any contents give a state or an error; a parsed state round-trips.
#include "tune/results/experiment_state.h"

#include <cstdlib>

#include "tests/fuzz/driver.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace volador::tune;
  const auto state = experiment_state_from_json({reinterpret_cast<const char*>(data), size});
  if (!state) return 0;
  const std::string text = to_json(*state);
  const auto again = experiment_state_from_json(text);
  if (!again || to_json(*again) != text) abort();
  return 0;
}

std::vector<std::string> volador::fuzz::seeds() {
  using namespace volador::tune;
  ExperimentState state;
  state.name = "digits";
  state.state = "running";
  state.metric = "accuracy";
  Trial trial;
  trial.id = TrialId(0x3f2a90c1);
  trial.config = Config{{"lr", 0.01}, {"model", {{"width", 32}}}};
  trial.metrics["accuracy"].add(0.5, 1);
  trial.last_result = {{"accuracy", 0.5}};
  trial.checkpoints.push_back({.step = 1, .attempt = 1, .location = "3f2a90c1/checkpoint_000001"});
  state.trials = {trial};
  return {to_json(ExperimentState()), to_json(state)};
}
