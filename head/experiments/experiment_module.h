// Experiments of drivers: reported rows, user notes, and requests to their drivers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "head/experiments/experiment_notes.h"
#include "head/experiments/experiment_table.h"
#include "head/kernel/context.h"
#include "head/kernel/tables.h"

namespace volador::v1 {
class AnnotateExperimentReply;
class AnnotateExperimentRequest;
class ControlExperimentReply;
class ControlExperimentRequest;
}  // namespace volador::v1

namespace volador::head {

class ExperimentModule {
 public:
  ExperimentModule(Context& context, Tables& tables)
      : context_(context),
        experiments_(tables.experiments),
        experiment_notes_(tables.experiment_notes),
        clients_(tables.clients) {}

  // Loads a journal row. Returns false if it cannot be read.
  bool load_note(std::string_view key, std::string_view value) { return experiment_notes_.load(key, value); }
  // Restores rows stored by an earlier head; see HeadCore::restore_experiment().
  bool restore(DriverId driver, const std::string& machine_id, const protocol::ExperimentUpdate& part, uint64_t rank);
  // Ends the experiments of drivers that are not expected to reconnect. Called once, at the start.
  void interrupt_orphaned();

  void on_update(DriverId driver, const protocol::ExperimentUpdate& update);
  // Acknowledges to the driver that updates up to `number` are durable.
  void on_kept(DriverId driver, const std::string& experiment, uint64_t number);
  // The driver is gone: its running experiments and trials are marked as crashed.
  void interrupt(DriverId driver);

  // Sends the request to the driver that runs the experiment; `reply` gets full names. `by`, here and below: the
  // requester, for the event; may be empty. kNotFound: no such experiment or trial, it has ended, or several match;
  // kInvalidArgument: no such act; kUnavailable: its driver is not connected.
  Result<void> control(const v1::ControlExperimentRequest& request, v1::ControlExperimentReply& reply,
                       std::string_view by);
  // Sets tags, note and archive flag. Survives a restart of the head. kNotFound: no such experiment; other errors as
  // for ExperimentNotes::annotate().
  Result<void> annotate(const v1::AnnotateExperimentRequest& request, v1::AnnotateExperimentReply& reply,
                        std::string_view by);

 private:
  // Checks a configuration for the act "add" as far as possible without its program. Sets the cloned trial, if any.
  Result<void> check_added(const Experiment& experiment, const v1::ControlExperimentRequest& request,
                           v1::ControlExperimentReply& reply) const;
  void tell_state(const Experiment& experiment, const std::string& before);
  // `before`: number of its trials that had failed before.
  void tell_failures(const std::string& experiment, const std::vector<const protocol::TrialRow*>& failing,
                     int64_t before);
  void tag(const protocol::ExperimentUpdate& update);
  void keep(const Experiment& experiment, const protocol::ExperimentUpdate& update);

  Context& context_;
  ExperimentTable& experiments_;
  ExperimentNotes& experiment_notes_;
  const ClientTable& clients_;
  bool said_full_ = false;  // The lack of room for another experiment was logged.
};

}  // namespace volador::head
