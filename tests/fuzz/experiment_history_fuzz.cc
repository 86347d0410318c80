// Records of experiments on the head's disk: any contents are folded or rejected, and the summary of the folded records
// is the same history.
#include "head/experiments/experiment_history.h"

#include <google/protobuf/stubs/logging.h>

#include <cstdlib>
#include <sstream>

#include "runtime/files/record_file.h"
#include "tests/fuzz/driver.h"

namespace {

using volador::head::ExperimentHistory;

ExperimentHistory summed_up(const ExperimentHistory& history) {
  ExperimentHistory again;
  history.for_each_record(100, [&](const std::string& record) {
    if (!again.add(record)) abort();
  });
  return again;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const google::protobuf::LogSilencer quiet;  // Otherwise logs a line for each invalid UTF-8 text.
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  std::istringstream file(bytes);
  while (volador::next_record(file)) {
  }
  ExperimentHistory history;
  if (!history.add(bytes)) return 0;
  const ExperimentHistory again = summed_up(history);
  if (again.name() != history.name() || again.trials().size() != history.trials().size() ||
      again.points_bytes() != history.points_bytes())
    abort();
  for (const auto& [id, trial] : history.trials()) {
    const auto& other = again.trials().at(id);
    if (other.last_step != trial.last_step || other.row.ended_ms() != trial.row.ended_ms()) abort();
  }
  return 0;
}

std::vector<std::string> volador::fuzz::seeds() {
  protocol::ExperimentUpdate update;
  update.set_experiment("digits");
  update.set_state("running");
  update.add_rungs()->add_members()->set_trial("3f2a90c1");
  protocol::TrialRow& row = *update.add_trials();
  row.set_trial_id("3f2a90c1");
  row.set_status("running");
  row.set_started_ms(1);
  row.set_config_json("{\"lr\":0.1}");
  for (int step = 1; step <= 3; ++step) {
    protocol::TrialPoint& point = *row.add_points();
    point.set_step(step);
    (*point.mutable_metrics())["loss"] = 0.5 / step;
    (*point.mutable_metrics())["accuracy"] = 0.5 * step;
  }
  protocol::ExperimentRecord record;
  record.set_driver_id(std::string(16, '\x01'));
  record.set_machine_id("m");
  record.set_wall_ms(1'700'000'000'000);
  record.set_update(update.SerializeAsString());
  std::string framed;
  append_record(framed, record.SerializeAsString());
  append_record(framed, "x");
  return {record.SerializeAsString(), framed};
}
