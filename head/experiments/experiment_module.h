// Experiments that drivers run: their rows as the drivers report them, people's notes, requests to their drivers.
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

  // A row of the journal. False: it cannot be read.
  bool load_note(std::string_view key, std::string_view value) { return experiment_notes_.load(key, value); }
  // Rows that an earlier head kept; as HeadCore::restore_experiment().
  bool restore(DriverId driver, const std::string& machine_id, const protocol::ExperimentUpdate& part, uint64_t rank);
  // Ends the experiments of drivers that are not expected back. Once, at the start.
  void interrupt_orphaned();

  void on_update(DriverId driver, const protocol::ExperimentUpdate& update);
  // Updates up to `number` are durable: tells the driver.
  void on_kept(DriverId driver, const std::string& experiment, uint64_t number);
  // The driver is gone: what ran has crashed.
  void interrupt(DriverId driver);

  // Sends the request to the driver that runs the experiment; `reply` gets whole names. `by`, here and below: who
  // asked, for the event; may be empty. kNotFound: no such experiment or trial, it has ended, or several start so;
  // kInvalidArgument: no such act; kUnavailable: its driver is not connected now.
  Result<void> control(const v1::ControlExperimentRequest& request, v1::ControlExperimentReply& reply,
                       std::string_view by);
  // Tags, note, archive. Survives a restart of the head. kNotFound: no such experiment; errors of
  // ExperimentNotes::annotate().
  Result<void> annotate(const v1::AnnotateExperimentRequest& request, v1::AnnotateExperimentReply& reply,
                        std::string_view by);

 private:
  // Of the act "add": what can be said of the configuration before its program is asked. Sets the trial that is cloned,
  // if any.
  Result<void> check_added(const Experiment& experiment, const v1::ControlExperimentRequest& request,
                           v1::ControlExperimentReply& reply) const;
  void tell_state(const Experiment& experiment, const std::string& before);
  // `before`: trials of it that had failed already.
  void tell_failures(const std::string& experiment, const std::vector<const protocol::TrialRow*>& failing,
                     int64_t before);
  void tag(const protocol::ExperimentUpdate& update);
  void keep(const Experiment& experiment, const protocol::ExperimentUpdate& update);

  Context& context_;
  ExperimentTable& experiments_;
  ExperimentNotes& experiment_notes_;
  const ClientTable& clients_;
  bool said_full_ = false;  // That there is no room for another experiment.
};

}  // namespace volador::head
